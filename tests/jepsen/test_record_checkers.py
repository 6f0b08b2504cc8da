"""Each checker of records detects its anomaly in a history of a few operations, and no other checker does."""

import pytest

from jepsen.checkers import ACKS_ONE_CHECKERS, IDEMPOTENT_CHECKERS, QUEUE_CHECKERS, count_losses
from jepsen.values import Healing, Polling, ReplicaLog, ReplicaRead
from tests.support.stories import Story
from tests.support.stories import broken as broken_of


def broken(story: Story) -> list[str]:
    return broken_of(story, QUEUE_CHECKERS)


def test_a_story_without_anomalies() -> None:
    story = Story()
    story.sent(0, 1, at=0)
    story.sends(2)
    story.read(0, 1)
    story.ends(0, 1, 2)
    assert broken(story) == []


# Losses


def test_an_acknowledged_record_is_replaced() -> None:
    story = Story()
    story.sent(0, at=0)
    story.sent(1, at=1)
    story.sends(2)
    story.ends(0, 2)
    assert {"AcknowledgedRecordsStay", "AcknowledgedRecordsAreRead"} <= set(broken(story))


def test_an_acknowledged_record_is_gone() -> None:
    story = Story()
    story.sent(0, at=0)
    story.sent(1, at=1)
    story.ends(0)
    assert broken(story) == ["AcknowledgedRecordsAreRead"]


def test_a_partition_cannot_be_read_at_last() -> None:
    story = Story()
    story.sent(0, at=0)
    story.sent(1, at=1)
    assert broken(story) == ["AcknowledgedRecordsAreRead"]


def test_lost_record_with_an_unknown_offset_is_an_anomaly() -> None:
    story = Story()
    story.sent(0, at=None)
    story.ends(0)
    assert broken(story) == []
    story.sent(1, at=None)
    assert broken(story) == ["AcknowledgedRecordsAreRead"]


def test_power_cut_may_lose_unflushed_records() -> None:
    story = Story()
    story.sent(0, at=0, incarnation=0)
    story.sent(1, at=1, incarnation=0)
    story.ends(0, incarnation=1)
    assert broken(story) == []


def test_power_cut_must_not_lose_flushed_records() -> None:
    story = Story()
    story.sent(0, at=0, topic="f", incarnation=0)
    story.ends(topic="f", incarnation=1)
    assert broken(story) == ["AcknowledgedRecordsAreRead"]


def test_a_power_cut_may_not_take_something_out_of_the_middle() -> None:
    story = Story()
    for sequence in range(3):
        story.sent(sequence, at=sequence, incarnation=0)
    story.sends(3)
    story.did("final-read", ("t", 0), ((0, "s/t-0/0"), (1, "s/t-0/3"), (2, "s/t-0/2")), 1)
    assert "OnlySuffixesAreLost" in broken(story)


def test_with_one_acknowledgement_losses_are_counted_and_allowed() -> None:
    story = Story()
    story.sent(0, at=0)
    story.sent(1, at=1)
    story.sent(2, at=1)
    story.ends(0, 2)
    assert broken_of(story, ACKS_ONE_CHECKERS) == []
    assert str(count_losses(story)) == "1 of 3 acknowledged records (33.333%)"


# Reads


def test_an_offset_changes() -> None:
    story = Story()
    story.sends(0)
    story.sends(1)
    story.read(1)
    story.ends(0, 1)
    assert "OffsetsNeverChange" in broken(story)
    assert "OffsetsReadNeverChange" in broken_of(story, ACKS_ONE_CHECKERS)


def test_a_record_comes_from_nowhere() -> None:
    story = Story()
    story.ends(0)
    assert broken(story) == ["NothingFromNowhere"]


def test_a_record_is_read_that_was_refused() -> None:
    story = Story()
    story.fail(story.sends(0), "MESSAGE_TOO_LARGE")
    assert broken(story) == []
    story.read(0)
    assert broken(story) == ["NothingRefusedIsRead"]


def test_a_poll_skips() -> None:
    story = Story()
    for sequence in range(3):
        story.sent(sequence, at=sequence)
    story.polled(0, 0, 1, 2)
    story.ends(0, 1, 2)
    assert broken(story) == []
    story.polled(0, 0, 2)
    story.polled(1, 2)
    assert broken(story) == ["PollsSkipNothing"] * 2


def test_a_poll_goes_back() -> None:
    story = Story()
    for sequence in range(3):
        story.sent(sequence, at=sequence)
    story.polled(0, 0, 1, 2)
    story.polled(2)
    story.ends(0, 1, 2)
    assert broken(story) == []
    story.polled(2, 1, 2)
    story.polled(0, 1, 0)
    assert broken(story) == ["PollsGoForward"] * 2


def test_a_log_has_a_gap() -> None:
    story = Story()
    story.sends(0)
    story.sends(1)
    story.did("final-read", ("t", 0), ((4, "s/t-0/0"), (6, "s/t-0/1")))
    assert broken(story) == ["LogsHaveNoGaps"]


def test_a_batch_is_damaged() -> None:
    story = Story()
    story.fail(story.invoke("client", "poll", Polling("t", 0, 0)), "Invalid magic")
    assert broken(story) == ["NothingIsCorrupt"]


# Order


def test_a_record_is_there_twice() -> None:
    story = Story()
    story.sent(0, at=0)
    story.ends(0, 0)
    assert "NothingTwice" in broken(story)


def test_a_record_is_acknowledged_at_one_offset_and_read_at_another() -> None:
    story = Story()
    story.sends(0)
    story.sent(1, at=0)
    story.ends(0, 1)
    assert "NothingTwice" in broken(story)


def test_a_session_has_a_gap() -> None:
    story = Story()
    for sequence in range(3):
        story.sends(sequence)
    story.ends(0, 2)
    assert broken(story) == ["SessionsAreInOrder"]
    assert broken_of(story, IDEMPOTENT_CHECKERS) == []


def test_a_session_is_not_in_order() -> None:
    story = Story()
    story.sent(0, at=1)
    story.sends(1)
    story.ends(1, 0)
    assert broken_of(story, IDEMPOTENT_CHECKERS) == ["SendsAreInOrder"]


def test_records_of_two_sessions_have_no_order() -> None:
    story = Story()
    story.sends(0, session="a")
    story.sends(1, session="b")
    story.did("final-read", ("t", 0), ((0, "b/t-0/1"), (1, "a/t-0/0")))
    assert broken_of(story, IDEMPOTENT_CHECKERS) == []


def test_offsets_grow_with_time() -> None:
    story = Story()
    story.sent(0, at=5, session="a")
    story.time = 1.0
    story.sent(0, at=3, session="b")
    (anomaly,) = [name for name in broken(story) if name == "AcknowledgedOffsetsGrow"]
    assert anomaly


def test_concurrent_sends_have_no_order() -> None:
    story = Story()
    first = story.sends(0, session="a")
    story.time = 1.0
    second = story.sends(0, session="b")
    story.time = 2.0
    story.ok(first, 5)
    story.time = 3.0
    story.ok(second, 3)
    assert "AcknowledgedOffsetsGrow" not in broken(story)


# Replicas, and time


def replica(story: Story, node: str, high_watermark: int, *batches: tuple[int, int, str]) -> None:
    story.did("read-replica", ReplicaRead("t", 0, node), ReplicaLog(high_watermark, batches))


def test_replicas_are_the_same_below_the_high_watermark() -> None:
    story = Story()
    replica(story, "n1", 2, (0, 1, "a"), (1, 2, "b"), (2, 3, "mine"))
    replica(story, "n2", 1, (0, 1, "a"), (1, 2, "b"))
    replica(story, "n3", 2, (1, 2, "b"), (2, 4, "its"))  # after retention has deleted the first records
    assert broken(story) == []


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
    story = Story()
    replica(story, "n1", 2, (0, 1, "a"), (1, 2, "b"))
    replica(story, "n2", 2, *batches)
    assert broken(story) == ["ReplicasAreIdentical"]


def test_recovery_has_its_time() -> None:
    story = Story()
    healing = story.invoke("run", "heal", Healing("every partition has a leader", 5.0))
    assert broken(story) == ["RecoveryIsBounded"]
    story.time = 5.0
    story.ok(healing, None)
    assert broken(story) == []
    late = story.invoke("run", "heal", Healing("every replica is in sync", 5.0))
    story.time = 10.1
    story.ok(late, None)
    assert broken(story) == ["RecoveryIsBounded"]
