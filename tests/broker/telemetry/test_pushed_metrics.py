"""The series of pushed metrics: names, labels, increments and bounds."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.server.slices import run
from broker.telemetry.otlp import ClientMetric, DataPoint
from broker.telemetry.pushed_metrics import BROKER_BOUNDS, CLIENT_BOUNDS, PushedMetrics, SeriesBounds, series_name

ONE, TWO = b"1" * 16, b"2" * 16
LABELS = {"client_instance_id": "one"}


def default_metrics() -> PushedMetrics:
    return PushedMetrics(CLIENT_BOUNDS, BROKER_BOUNDS)


def metric(name: str, value: float, *, is_counter: bool = False, is_delta: bool = False, **named: str) -> ClientMetric:
    return ClientMetric(name, is_counter, is_delta, [DataPoint(tuple(named.items()), value)])


def push(metrics: PushedMetrics, *pushed: ClientMetric, instance: bytes = ONE) -> None:
    run(metrics.apply(instance, {"client_instance_id": "one" if instance == ONE else "two"}, pushed))


def values(metrics: PushedMetrics) -> dict[str, dict[str, float]]:
    """The values by the names of families and the labels other than the client's id, which is the first one."""
    return {family.name: {_short(labels): value for labels, value in family.series} for family in metrics.families()}


def _short(labels: str) -> str:
    return labels.removeprefix('client_instance_id="').replace('"', "", 1)


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
    metrics = default_metrics()
    for _ in range(3):
        push(
            metrics,
            metric("sent", 5, is_counter=True, is_delta=True),
            metric("all", 5, is_counter=True),
            metric("level", -2.5, is_delta=True),
            metric("gauge", 7),
        )
    assert values(metrics) == {
        "kafka_client_sent_total": {"one": 15},
        "kafka_client_all_total": {"one": 5},
        "kafka_client_level": {"one": -7.5},
        "kafka_client_gauge": {"one": 7},
    }


@pytest.mark.parametrize("increment", [inf, -inf, nan])
def test_infinite_increment_does_not_spoil_a_sum(increment: float) -> None:
    metrics = default_metrics()
    for value in (1, increment, 1):
        push(metrics, metric("sent", value, is_counter=True, is_delta=True))
    assert values(metrics) == {"kafka_client_sent_total": {"one": 2}}


def test_series_have_the_labels_that_their_clients_have_pushed() -> None:
    metrics = default_metrics()
    push(metrics, metric("m", 1, **{"node.id": "7", "__name__": "x", "1st": "y"}), metric("m", 2))
    push(metrics, metric("m", 3, topic='quoted "t"', client_instance_id="forged"), instance=TWO)
    assert dict(next(metrics.families()).series) == {
        'client_instance_id="one",_1st="y",name__="x",node_id="7"': 1,
        'client_instance_id="one"': 2,
        r'client_instance_id="two",topic="quoted \"t\""': 3,
    }


def test_attributes_of_one_name_here_are_one_label_with_both_values() -> None:
    metrics = default_metrics()
    push(metrics, metric("m", 1, **{"a.b": "x", "a_b": "y", "a_c": "z"}), metric("m", 2, **{"a.b": "x", "a_c": "z"}))
    assert values(metrics) == {"kafka_client_m": {'one,a_b="x;y",a_c="z"': 1, 'one,a_b="x",a_c="z"': 2}}


def test_metrics_of_one_name_here_are_one_series_of_the_first() -> None:
    metrics = default_metrics()
    for _ in range(2):
        push(metrics, metric("a.b", 1, topic="t"), metric("a_b", 2, topic="t"), metric("a_b", 3, topic="u"))
        assert values(metrics) == {"kafka_client_a_b": {'one,topic="t"': 1, 'one,topic="u"': 3}}
    assert metrics.dropped == 2
    push(metrics, metric("a_b", 2, topic="t"), metric("a.b", 1, topic="t"))
    assert values(metrics)["kafka_client_a_b"]['one,topic="t"'] == 1, "the order in a push changes nothing"


@given(st.lists(st.dictionaries(st.sampled_from(["a.b", "a_b", "a-b", "c", "client_instance_id"]), st.text("xy;"))))
def test_no_series_is_listed_twice(points: list[dict[str, str]]) -> None:
    metrics = default_metrics()
    pushed = [DataPoint(tuple(sorted(named.items())), 1) for named in points]
    push(metrics, ClientMetric("m", False, False, pushed), ClientMetric("M", False, False, pushed))
    listed = [labels for family in metrics.families() for labels, _ in family.series]
    assert len(listed) == len(set(listed)) == metrics.count


def test_numbers_of_series_are_bounded_for_one_client_and_for_all() -> None:
    metrics = bounded(client_series=2, series=3)
    push(metrics, *(metric(f"m{index}", index) for index in range(5)))
    assert (metrics.count, metrics.dropped) == (2, 3)
    push(metrics, *(metric(f"m{index}", index) for index in range(5)), instance=TWO)
    assert (metrics.count, metrics.dropped) == (3, 7)
    push(metrics, metric("m0", 9))
    assert values(metrics) == {"kafka_client_m0": {"one": 9, "two": 0}, "kafka_client_m1": {"one": 1}}


def test_numbers_of_names_are_bounded_for_one_client_and_for_all() -> None:
    metrics = bounded(client_families=2, families=3)
    for instance in (ONE, TWO):
        push(metrics, *(metric(f"{instance[0]}-{index}", 1) for index in range(5)), instance=instance)
    assert (metrics.count, metrics.dropped) == (3, 7)
    push(metrics, metric(f"{ONE[0]}-0", 1, a="another series of a name that is there"))
    assert metrics.count == 4


def test_text_of_series_is_bounded_for_one_client_and_for_all() -> None:
    metrics = bounded(client_text_bytes=1000, text_bytes=1500)
    for instance in (ONE, TWO):
        push(metrics, *(metric(f"m{index}", 0.1, quoted='"' * 100) for index in range(10)), instance=instance)
        written = exposed(metrics)
        assert len(written) <= metrics.text_bytes <= 1500
    assert len(written) > 1000
    metrics.remove(ONE)
    metrics.remove(TWO)
    assert metrics.text_bytes == 0


def exposed(metrics: PushedMetrics) -> str:
    """The lines of the series in a scrape."""
    return "".join(f"{each.name}{{{labels}}} {value}\n" for each in metrics.families() for labels, value in each.series)


def test_scrape_takes_no_more_than_the_text_that_was_pushed() -> None:
    """Points whose attribute names no other point has. With the labels of the whole family, a line had all of them."""
    metrics = default_metrics()
    for client in range(30):
        instance = bytes([client]) * 16
        unique = [
            DataPoint(tuple((f"a{client}_{index}_{at}_{'x' * 240}", "v") for at in range(4)), 1)
            for index in range(1100)
        ]
        run(metrics.apply(instance, {"client_instance_id": str(client)}, [ClientMetric("m", False, False, unique)]))
    assert BROKER_BOUNDS.text_bytes - CLIENT_BOUNDS.text_bytes < metrics.text_bytes <= BROKER_BOUNDS.text_bytes
    assert len(exposed(metrics)) <= metrics.text_bytes


def test_push_is_taken_over_in_short_steps() -> None:
    named = tuple((f"a{index:02}", "x") for index in range(32))
    metrics = default_metrics()
    few = [ClientMetric("m", False, False, [DataPoint((*named[:31], ("b", str(index))), 1)]) for index in range(600)]
    before = largest = 0
    for _ in metrics.apply(
        ONE, LABELS, [*few, *[ClientMetric(f"n{index}", False, False, []) for index in range(6400)]]
    ):
        largest, before = max(largest, metrics.count - before), metrics.count
    assert metrics.count == 600
    assert largest <= 2
    assert sum(1 for _ in metrics.apply(ONE, LABELS, few)) >= 300


def bounded(
    client_series: int = 100,
    series: int = 100,
    *,
    client_families: int = 100,
    families: int = 100,
    client_text_bytes: int = 10_000,
    text_bytes: int = 10_000,
) -> PushedMetrics:
    return PushedMetrics(
        SeriesBounds(client_series, client_families, client_text_bytes), SeriesBounds(series, families, text_bytes)
    )


def test_series_that_a_client_pushes_no_longer_ends_after_three_pushes() -> None:
    metrics = default_metrics()
    push(metrics, metric("lag", 1, member="a"), metric("sent", 1))
    for count in range(3):
        assert len(values(metrics)["kafka_client_lag"]) == (1 if count == 0 else 2)
        push(metrics, metric("lag", 2, member="b"), metric("sent", 1))
    assert values(metrics) == {"kafka_client_lag": {'one,member="b"': 2}, "kafka_client_sent": {"one": 1}}
    assert metrics.count == 2


def test_removed_client_leaves_nothing_and_makes_room() -> None:
    metrics = bounded(client_series=2, series=2)
    push(metrics, metric("a", 1), metric("b", 1))
    push(metrics, metric("a", 2), instance=TWO)
    metrics.remove(ONE)
    metrics.remove(ONE)
    assert (metrics.count, values(metrics)) == (0, {})
    push(metrics, metric("a", 2), instance=TWO)
    assert values(metrics) == {"kafka_client_a": {"two": 2}}


def test_client_may_be_removed_during_a_push_and_during_a_scrape() -> None:
    metrics = default_metrics()
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
