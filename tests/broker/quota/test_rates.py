"""The rate of usage and the pause that follows, as in Kafka's Rate and QuotaUtils."""

from itertools import groupby

import pytest

from broker.quota import SampledRate
from broker.quota.rates import throttle_time_ms
from tests.support import kafka_facts

# Requests of one client each, with the throttle times that Kafka's own classes compute.
CLIENTS = [list(rows) for _, rows in groupby(kafka_facts.read("throttle_times"), lambda row: row["client"])]


def test_client_that_was_idle_may_use_all_windows_at_once() -> None:
    rate = SampledRate(11, 1000)
    rate.record(1000, 0)
    assert rate.rate(0) == 100
    assert rate.delay_ms(100, 0) == 0
    rate.record(50, 0)
    assert rate.delay_ms(100, 0) == 500


def test_elapsed_time_counts_all_windows_but_the_last_from_the_start() -> None:
    rate = SampledRate(11, 1000)
    rate.record(1000, 0)
    assert rate.rate(250) == pytest.approx(1000 / 10.25)
    assert rate.rate(1250) == pytest.approx(1000 / 10.25)
    assert rate.rate(10_250) == pytest.approx(1000 / 10.25)
    assert rate.rate(10_999) == pytest.approx(1000 / 10.999)
    assert rate.rate(11_000) == 0


def test_old_samples_are_forgotten_by_the_time_of_their_last_record() -> None:
    rate = SampledRate(3, 1000)
    rate.record(600, 0)
    rate.record(600, 900)
    rate.record(300, 1000)
    assert rate.rate(3800) == pytest.approx(1500 / 3.8)
    assert rate.rate(3900) == pytest.approx(300 / 2.9)
    assert not rate.is_idle(3900)
    assert rate.is_idle(4000)


def test_a_single_window_measures_from_its_first_record() -> None:
    rate = SampledRate(1, 1000)
    rate.record(5, 0)
    assert rate.rate(0) == 5000
    assert rate.rate(500) == 10


def test_usage_that_is_taken_back_leaves_the_rate_as_it_was() -> None:
    rate = SampledRate(11, 1000)
    rate.record(700, 0)
    before = rate.rate(100)
    rate.record(9000, 100)
    rate.record(-9000, 100)
    assert rate.rate(100) == before


@pytest.mark.parametrize("rows", CLIENTS, ids=lambda rows: f"{rows[0]['windows']}x{rows[0]['window_s']}s")
def test_throttle_times_equal_those_of_kafka(rows: list[dict[str, str]]) -> None:
    first = rows[0]
    rate = SampledRate(int(first["windows"]), int(first["window_s"]) * 1000)
    ours = []
    for row in rows:
        now_ms, size = int(row["time_ms"]), int(row["size"])
        rate.record(size, now_ms)
        ours.append(throttle_time_ms(rate.delay_ms(int(row["quota"]), now_ms)))
        if row["taken_back"] == "1":
            rate.record(-size, now_ms)
    assert ours == [int(row["throttle_time_ms"]) for row in rows]
    assert sum(map(bool, ours)) > 20
