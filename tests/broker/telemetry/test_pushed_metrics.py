"""The series of pushed metrics: names, labels, increments and bounds."""

from math import inf, nan

import pytest

from broker.server.slices import run
from broker.telemetry.otlp import ClientMetric, DataPoint
from broker.telemetry.pushed_metrics import PushedMetrics, series_name

ONE, TWO = b"1" * 16, b"2" * 16
LABELS = {"client_instance_id": "one"}


def metric(name: str, value: float, *, is_counter: bool = False, is_delta: bool = False, **named: str) -> ClientMetric:
    return ClientMetric(name, is_counter, is_delta, [DataPoint(tuple(named.items()), value)])


def push(metrics: PushedMetrics, *pushed: ClientMetric, instance: bytes = ONE) -> None:
    run(metrics.apply(instance, {"client_instance_id": "one" if instance == ONE else "two"}, pushed))


def values(metrics: PushedMetrics) -> dict[str, dict[tuple[str, ...], float]]:
    return {family.name: dict(family.series) for family in metrics.families()}


@pytest.mark.parametrize(
    ("metric_name", "is_counter", "name"),
    [
        ("org.apache.kafka.producer.connection.creation.rate", False, "kafka_client_producer_connection_creation_rate"),
        ("org.apache.kafka.producer.record.send.total", True, "kafka_client_producer_record_send_total"),
        ("org.apache.kafka.producer.record.send", True, "kafka_client_producer_record_send_total"),
        ("org.apache.kafka.producer.record.send.total", False, "kafka_client_producer_record_send_total_value"),
        ("My App: queue-size (ms)", False, "kafka_client_my_app_queue_size_ms"),
        ("...", False, "kafka_client_"),
        ("kafka_server_replica_manager_leader_count", False, "kafka_client_kafka_server_replica_manager_leader_count"),
    ],
)
def test_name_of_a_series(metric_name: str, is_counter: bool, name: str) -> None:
    assert series_name(metric_name, is_counter) == name


def test_increments_are_summed_and_other_values_replaced() -> None:
    metrics = PushedMetrics()
    for _ in range(3):
        push(
            metrics,
            metric("sent", 5, is_counter=True, is_delta=True),
            metric("all", 5, is_counter=True),
            metric("level", -2.5, is_delta=True),
            metric("gauge", 7),
        )
    assert values(metrics) == {
        "kafka_client_sent_total": {("one",): 15},
        "kafka_client_all_total": {("one",): 5},
        "kafka_client_level": {("one",): -7.5},
        "kafka_client_gauge": {("one",): 7},
    }


@pytest.mark.parametrize("increment", [inf, -inf, nan])
def test_infinite_increment_does_not_spoil_a_sum(increment: float) -> None:
    metrics = PushedMetrics()
    for value in (1, increment, 1):
        push(metrics, metric("sent", value, is_counter=True, is_delta=True))
    assert values(metrics) == {"kafka_client_sent_total": {("one",): 2}}


def test_series_of_a_family_have_the_labels_of_all() -> None:
    metrics = PushedMetrics()
    push(metrics, metric("m", 1, **{"node.id": "7", "__name__": "x", "1st": "y"}), metric("m", 2))
    push(metrics, metric("m", 3, topic='quoted "t"', client_instance_id="forged"), instance=TWO)
    family = next(metrics.families())
    assert family.label_names == ("client_instance_id", "node_id", "name__", "_1st", "topic")
    assert dict(family.series) == {
        ("one", "7", "x", "y", ""): 1,
        ("one", "", "", "", ""): 2,
        ("two", "", "", "", 'quoted "t"'): 3,
    }


def test_numbers_of_series_are_bounded_for_one_client_and_for_all() -> None:
    metrics = PushedMetrics(client_series_max=2, series_max=3)
    push(metrics, *(metric(f"m{index}", index) for index in range(5)))
    assert (metrics.count, metrics.dropped) == (2, 3)
    push(metrics, *(metric(f"m{index}", index) for index in range(5)), instance=TWO)
    assert (metrics.count, metrics.dropped) == (3, 7)
    push(metrics, metric("m0", 9))
    assert values(metrics) == {"kafka_client_m0": {("one",): 9, ("two",): 0}, "kafka_client_m1": {("one",): 1}}


def test_series_that_a_client_pushes_no_longer_ends_after_three_pushes() -> None:
    metrics = PushedMetrics()
    push(metrics, metric("lag", 1, member="a"), metric("sent", 1))
    for count in range(3):
        assert len(values(metrics)["kafka_client_lag"]) == (1 if count == 0 else 2)
        push(metrics, metric("lag", 2, member="b"), metric("sent", 1))
    assert values(metrics) == {"kafka_client_lag": {("one", "b"): 2}, "kafka_client_sent": {("one",): 1}}
    assert metrics.count == 2


def test_removed_client_leaves_nothing_and_makes_room() -> None:
    metrics = PushedMetrics(client_series_max=2, series_max=2)
    push(metrics, metric("a", 1), metric("b", 1))
    push(metrics, metric("a", 2), instance=TWO)
    metrics.remove(ONE)
    metrics.remove(ONE)
    assert (metrics.count, values(metrics)) == (0, {})
    push(metrics, metric("a", 2), instance=TWO)
    assert values(metrics) == {"kafka_client_a": {("two",): 2}}


def test_client_may_be_removed_during_a_push_and_during_a_scrape() -> None:
    metrics = PushedMetrics()
    steps = metrics.apply(ONE, LABELS, [metric(f"m{index}", index) for index in range(100)])
    next(steps)
    metrics.remove(ONE)
    run(steps)
    assert 0 < metrics.count < 100
    push(metrics, metric("m99", 1), instance=TWO)
    families = metrics.families()
    first = next(families)
    metrics.remove(ONE)
    assert list(first.series) == []
    assert [family.name for family in families] == ["kafka_client_m99"]
