"""The measurements of a report agree with the history."""

import pytest

from jepsen.history import History, Operation, Outcome
from jepsen.report.measures import (
    Bins,
    Wait,
    latencies,
    outages,
    percentile,
    rates,
    stalls,
    waits,
    work_end,
)
from jepsen.report.scales import Linear, Logarithmic, clock, decades_around, duration
from jepsen.store import Fault
from jepsen.values import Change, Polling, Sending


def send(partition: int, begun: float, done: float | None, outcome: Outcome = Outcome.OK, values: int = 1) -> Operation:
    sending = Sending("t", partition, "s", 0, ("v",) * values)
    return Operation("p", "send", sending, begun, outcome, done, 0)


def history(*operations: Operation) -> History:
    made = History(lambda: 0.0)
    made.operations = sorted(operations, key=lambda each: each.invoked_at)
    return made


def test_rates_are_of_records_by_outcome() -> None:
    poll = Operation("c", "poll", Polling("t", 0, 0), 0.5, Outcome.OK, 1.5, ((0, "v"), (1, "v")))
    measured = rates(
        history(
            send(0, 0.1, 0.2, values=3),
            send(0, 0.1, 1.2, Outcome.FAIL),
            send(0, 1.9, None, Outcome.INFO),
            poll,
        ),
        Bins(0.5, 4),
    )
    assert measured.ok == [6.0, 0.0, 0.0, 0.0]
    assert measured.fail == [0.0, 0.0, 2.0, 0.0]
    assert measured.info == [0.0, 0.0, 0.0, 2.0]
    assert measured.read == [0.0, 0.0, 0.0, 4.0]


def test_latencies_lie_where_they_were_asked_for() -> None:
    made = history(*(send(0, 0.1, 0.1 + each / 1000) for each in range(1, 101)), send(0, 0.2, 9.0, Outcome.INFO))
    measured = latencies(made, Bins(5.0, 2))
    assert measured.median == [pytest.approx(0.050), None]
    assert measured.p99 == [pytest.approx(0.099), None]
    assert measured.longest == [pytest.approx(0.100), None]
    assert len(measured.all) == 100


def test_without_a_request_there_is_no_wait() -> None:
    made = history(send(0, 0.0, 0.1), send(0, 5.0, 5.2))
    assert waits(made, 6.0)["t-0"] == [Wait(0.0, 0.1), Wait(5.0, 5.2)]


def test_wait_ends_with_the_next_acknowledgement() -> None:
    gave_up = send(0, 0.05, 3.0, Outcome.INFO)
    made = history(send(0, 0.0, 0.1), gave_up, send(0, 4.0, 4.2))
    assert waits(made, 6.0)["t-0"] == [Wait(0.0, 0.1), Wait(0.1, 4.2)]
    assert stalls(waits(made, 6.0)["t-0"]) == [Wait(0.0, 0.1), Wait(0.1, 4.2)]


def test_wait_without_a_response_lasts_to_the_end() -> None:
    made = history(send(0, 0.0, 0.01), send(0, 2.0, 5.0, Outcome.INFO))
    assert waits(made, 6.0)["t-0"] == [Wait(0.0, 0.01), Wait(2.0, 6.0)]


def test_each_partition_waits_for_itself_in_the_order_of_numbers() -> None:
    change = Operation("a", "grow-topic", Change("shared-0", 2), 0.0, Outcome.OK, 0.5, "NONE")
    made = history(*(send(partition, 0.0, 0.1) for partition in (10, 2, 1)), change)
    assert list(waits(made, 1.0)) == ["metadata", "t-1", "t-2", "t-10"]


def test_a_fault_answers_for_the_waits_until_the_next() -> None:
    steady = [send(0, at / 10, at / 10 + 0.05) for at in range(100) if not 20 <= at < 35]
    stuck = [send(0, 2.0, 3.5), send(1, 0.0, 0.1), send(1, 6.0, 6.3)]
    made = history(*steady, *stuck)
    every = waits(made, work_end(made, 10.0))
    first, second = outages(every, [Fault("kill", ("a",), 2.1, 2.9), Fault("pause", ("b",), 5.0, 7.0)], 10.0)
    assert first.by_partition == {"t-0": pytest.approx(1.4), "t-1": 0.0}
    assert (first.worst_partition, first.stalled) == ("t-0", 1)
    assert second.by_partition["t-1"] == pytest.approx(0.3)
    assert second.worst == pytest.approx(0.3)


def test_a_wait_before_a_fault_counts_from_the_fault_on() -> None:
    made = history(send(0, 0.0, 4.0))
    (outage,) = outages(waits(made, 5.0), [Fault("kill", ("a",), 3.0)], 5.0)
    assert outage.worst == pytest.approx(1.0)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2), (0.51, 3), (0.99, 4), (1.0, 4), (0.0, 1)])
def test_percentiles(share: float, expected: int) -> None:
    assert percentile([1, 2, 3, 4], share) == expected
    assert percentile([], share) is None


@pytest.mark.parametrize("seconds", [0.01, 1.0, 25.0, 26.1, 120.0, 3_600.0, 86_400.0, 1_000_000.0])
def test_bins_cover_all_of_the_time_and_are_not_many(seconds: float) -> None:
    bins = Bins.over(seconds)
    assert bins.end >= seconds * (1 - 1e-9)
    assert bins.count <= 261
    assert bins.index(seconds) == bins.count - 1


def test_marks_are_at_round_values() -> None:
    assert Linear(0.0, 1234.0, 0.0, 100.0).ticks(4) == [0, 500, 1000]
    assert Linear(0.0, 125.0, 0.0, 100.0).time_ticks(8) == [0, 30, 60, 90, 120]
    assert Logarithmic(*decades_around(0.0023, 1.2), 0.0, 90.0).decades() == pytest.approx([0.001, 0.01, 0.1, 1, 10])


def test_logarithms_keep_to_the_drawing() -> None:
    y = Logarithmic(0.001, 1.0, 90.0, 0.0)
    assert [round(y(each)) for each in (0.0, 0.001, 0.01, 1.0, 50.0)] == [90, 90, 60, 0, 0]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0004, "0.4 ms"), (0.0123, "12 ms"), (0.9996, "1.00 s"), (1.24, "1.24 s"), (59.9, "59.9 s"), (125, "2 min 5 s")],
)
def test_durations_are_written_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_times_are_written_like_clocks() -> None:
    assert [clock(each) for each in (0, 5, 75, 3600)] == ["0:00", "0:05", "1:15", "60:00"]
