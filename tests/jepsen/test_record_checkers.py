"""Each checker of records detects its anomaly in a history of a few operations, and no other checker does."""

import pytest

from jepsen.checkers import ACKS_ONE_CHECKERS, IDEMPOTENT_CHECKERS, QUEUE_CHECKERS, count_losses
from jepsen.values import Healing, Polling, ReplicaLog, ReplicaRead
from tests.support.sample_history import SampleHistory
from tests.support.sample_history import broken as broken_of


def broken(history: SampleHistory) -> list[str]:
    return broken_of(history, QUEUE_CHECKERS)


def test_a_story_without_anomalies() -> None:
    history = SampleHistory()
    history.sent(0, 1, at=0)
    history.sends(2)
    history.read(0, 1)
    history.ends(0, 1, 2)
    assert broken(history) == []


# Losses


def test_an_acknowledged_record_is_replaced() -> None:
    history = SampleHistory()
    history.sent(0, at=0)
    history.sent(1, at=1)
    history.sends(2)
    history.ends(0, 2)
    assert {"AcknowledgedRecordsStay", "AcknowledgedRecordsAreRead"} <= set(broken(history))


def test_an_acknowledged_record_is_gone() -> None:
    history = SampleHistory()
    history.sent(0, at=0)
    history.sent(1, at=1)
    history.ends(0)
    assert broken(history) == ["AcknowledgedRecordsAreRead"]


def test_a_partition_cannot_be_read_at_last() -> None:
    history = SampleHistory()
    history.sent(0, at=0)
    history.sent(1, at=1)
    assert broken(history) == ["AcknowledgedRecordsAreRead"]


def test_lost_record_with_an_unknown_offset_is_an_anomaly() -> None:
    history = SampleHistory()
    history.sent(0, at=None)
    history.ends(0)
    assert broken(history) == []
    history.sent(1, at=None)
    assert broken(history) == ["AcknowledgedRecordsAreRead"]


def test_power_cut_may_lose_unflushed_records() -> None:
    history = SampleHistory()
    history.sent(0, at=0, incarnation=0)
    history.sent(1, at=1, incarnation=0)
    history.ends(0, incarnation=1)
    assert broken(history) == []


def test_power_cut_must_not_lose_flushed_records() -> None:
    history = SampleHistory()
    history.sent(0, at=0, topic="f", incarnation=0)
    history.ends(topic="f", incarnation=1)
    assert broken(history) == ["AcknowledgedRecordsAreRead"]


def test_a_power_cut_may_not_take_something_out_of_the_middle() -> None:
    history = SampleHistory()
    for sequence in range(3):
        history.sent(sequence, at=sequence, incarnation=0)
    history.sends(3)
    history.did("final-read", ("t", 0), ((0, "s/t-0/0"), (1, "s/t-0/3"), (2, "s/t-0/2")), 1)
    assert "OnlySuffixesAreLost" in broken(history)


def test_with_one_acknowledgement_losses_are_counted_and_allowed() -> None:
    history = SampleHistory()
    history.sent(0, at=0)
    history.sent(1, at=1)
    history.sent(2, at=1)
    history.ends(0, 2)
    assert broken_of(history, ACKS_ONE_CHECKERS) == []
    assert str(count_losses(history)) == "1 of 3 acknowledged records (33.333%)"


# Reads


def test_an_offset_changes() -> None:
    history = SampleHistory()
    history.sends(0)
    history.sends(1)
    history.read(1)
    history.ends(0, 1)
    assert "OffsetsNeverChange" in broken(history)
    assert "OffsetsReadNeverChange" in broken_of(history, ACKS_ONE_CHECKERS)


def test_a_record_comes_from_nowhere() -> None:
    history = SampleHistory()
    history.ends(0)
    assert broken(history) == ["NothingFromNowhere"]


def test_a_record_is_read_that_was_refused() -> None:
    history = SampleHistory()
    history.fail(history.sends(0), "MESSAGE_TOO_LARGE")
    assert broken(history) == []
    history.read(0)
    assert broken(history) == ["NothingRefusedIsRead"]


def test_a_poll_skips() -> None:
    history = SampleHistory()
    for sequence in range(3):
        history.sent(sequence, at=sequence)
    history.polled(0, 0, 1, 2)
    history.ends(0, 1, 2)
    assert broken(history) == []
    history.polled(0, 0, 2)
    history.polled(1, 2)
    assert broken(history) == ["PollsSkipNothing"] * 2


def test_a_poll_goes_back() -> None:
    history = SampleHistory()
    for sequence in range(3):
        history.sent(sequence, at=sequence)
    history.polled(0, 0, 1, 2)
    history.polled(2)
    history.ends(0, 1, 2)
    assert broken(history) == []
    history.polled(2, 1, 2)
    history.polled(0, 1, 0)
    assert broken(history) == ["PollsGoForward"] * 2


def test_a_log_has_a_gap() -> None:
    history = SampleHistory()
    history.sends(0)
    history.sends(1)
    history.did("final-read", ("t", 0), ((4, "s/t-0/0"), (6, "s/t-0/1")))
    assert broken(history) == ["LogsHaveNoGaps"]


def test_a_batch_is_damaged() -> None:
    history = SampleHistory()
    history.fail(history.invoke("client", "poll", Polling("t", 0, 0)), "Invalid magic")
    assert broken(history) == ["NothingIsCorrupt"]


# Order


def test_a_record_is_there_twice() -> None:
    history = SampleHistory()
    history.sent(0, at=0)
    history.ends(0, 0)
    assert "NothingTwice" in broken(history)


def test_a_record_is_acknowledged_at_one_offset_and_read_at_another() -> None:
    history = SampleHistory()
    history.sends(0)
    history.sent(1, at=0)
    history.ends(0, 1)
    assert "NothingTwice" in broken(history)


def test_a_session_has_a_gap() -> None:
    history = SampleHistory()
    for sequence in range(3):
        history.sends(sequence)
    history.ends(0, 2)
    assert broken(history) == ["SessionsAreInOrder"]
    assert broken_of(history, IDEMPOTENT_CHECKERS) == []


def test_a_session_is_not_in_order() -> None:
    history = SampleHistory()
    history.sent(0, at=1)
    history.sends(1)
    history.ends(1, 0)
    assert broken_of(history, IDEMPOTENT_CHECKERS) == ["SendsAreInOrder"]


def test_records_of_two_sessions_have_no_order() -> None:
    history = SampleHistory()
    history.sends(0, session="a")
    history.sends(1, session="b")
    history.did("final-read", ("t", 0), ((0, "b/t-0/1"), (1, "a/t-0/0")))
    assert broken_of(history, IDEMPOTENT_CHECKERS) == []


def test_offsets_grow_with_time() -> None:
    history = SampleHistory()
    history.sent(0, at=5, session="a")
    history.time = 1.0
    history.sent(0, at=3, session="b")
    (anomaly,) = [name for name in broken(history) if name == "AcknowledgedOffsetsGrow"]
    assert anomaly


def test_concurrent_sends_have_no_order() -> None:
    history = SampleHistory()
    first = history.sends(0, session="a")
    history.time = 1.0
    second = history.sends(0, session="b")
    history.time = 2.0
    history.ok(first, 5)
    history.time = 3.0
    history.ok(second, 3)
    assert "AcknowledgedOffsetsGrow" not in broken(history)


# Replicas, and time


def replica(history: SampleHistory, node: str, high_watermark: int, *batches: tuple[int, int, str]) -> None:
    history.did("read-replica", ReplicaRead("t", 0, node), ReplicaLog(high_watermark, batches))


def test_replicas_are_the_same_below_the_high_watermark() -> None:
    history = SampleHistory()
    replica(history, "n1", 2, (0, 1, "a"), (1, 2, "b"), (2, 3, "mine"))
    replica(history, "n2", 1, (0, 1, "a"), (1, 2, "b"))
    replica(history, "n3", 2, (1, 2, "b"), (2, 4, "its"))  # after retention has deleted the first records
    assert broken(history) == []


@pytest.mark.parametrize(
    "batches",
    [
        ((0, 1, "a"),),
        ((0, 1, "a"), (1, 2, "other")),
        ((0, 2, "a"),),
        (),
    ],
    ids=["shorter", "other bytes", "other batches", "empty"],
)
def test_replicas_differ(batches: tuple[tuple[int, int, str], ...]) -> None:
    history = SampleHistory()
    replica(history, "n1", 2, (0, 1, "a"), (1, 2, "b"))
    replica(history, "n2", 2, *batches)
    assert broken(history) == ["ReplicasAreIdentical"]


def test_recovery_has_its_time() -> None:
    history = SampleHistory()
    healing = history.invoke("run", "heal", Healing("every partition has a leader", 5.0))
    assert broken(history) == ["RecoveryIsBounded"]
    history.time = 5.0
    history.ok(healing, None)
    assert broken(history) == []
    late = history.invoke("run", "heal", Healing("every replica is in sync", 5.0))
    history.time = 10.1
    history.ok(late, None)
    assert broken(history) == ["RecoveryIsBounded"]
