"""A follower's fetch session: requests that name no partition still show that the follower is caught up."""

from pathlib import Path
from random import Random

import pytest

from broker.replication.cached_partition import CachedPartition, FetchedPartition
from broker.replication.fetch_sessions import Fetch, FetchSession, FetchSessions
from broker.replication.partition import Partition
from broker.server.slices import run
from tests.support.partition_harness import ALL, LOCAL, A, B, Harness

LIFE = 7
LAG_MAX_MS = 1_000


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path)
    harness.become()
    return harness


class Session:
    """A caught-up follower with a fetch session: the cached partition is idle, and its progress is recorded."""

    def __init__(self, harness: Harness, broker_epoch: int = LIFE) -> None:
        self.harness = harness
        self.cache = FetchSessions(1, Random(1))
        self.broker_epoch = broker_epoch
        partition = harness.partition
        cached = CachedPartition(partition.topic_id, 0, self.end, 1000, partition.leader_epoch, -1)
        self.session = self.ask(cached).session
        self.mark_idle(cached)

    @property
    def end(self) -> int:
        return self.harness.partition.leader_log().readable_end_offset

    def ask(self, *named: CachedPartition) -> Fetch:
        session: FetchSession | None = getattr(self, "session", None)
        return self.cache.begin(
            session.id if session else 0,
            session.epoch if session else 0,
            named,
            (),
            by_topic_id=True,
            now_ms=self.harness.now_ms,
            follower=(A, self.broker_epoch),
        )

    def mark_idle(self, cached: CachedPartition) -> None:
        """Settle the cached partition, as a read without news does."""
        partition = cached.partition = self.harness.partition
        self.harness.fetch(A, cached.fetch_offset, self.broker_epoch)
        self.session.mark_idle(cached)
        partition.waiters.for_log_end[cached] = partition.waiters.for_high_watermark[cached] = None


def test_follower_with_empty_requests_counts_as_caught_up_until_the_log_grows(harness: Harness) -> None:
    session = Session(harness)
    for harness.now_ms in (900.0, 1_800.0, 2_700.0):
        assert session.ask().cached_partitions == []
    harness.append()
    assert len(session.ask().cached_partitions) == 1
    harness.now_ms += LAG_MAX_MS
    harness.fetch(B, 1)
    harness.leader.propose_shrinking()
    assert harness.proposed == 0
    harness.now_ms += 1
    harness.leader.propose_shrinking()
    assert harness.proposal.isr == (LOCAL, B)


def test_follower_without_requests_does_not_count_as_caught_up(harness: Harness) -> None:
    session = Session(harness)
    harness.now_ms = 500
    session.ask()
    harness.now_ms = 500 + LAG_MAX_MS + 1
    harness.append()
    harness.fetch(B, 1)
    harness.leader.propose_shrinking()
    assert harness.proposal.isr == (LOCAL, B)


@pytest.mark.parametrize("change", ["new epoch", "another life", "another offset"])
def test_requests_of_another_leader_epoch_or_incarnation_do_not_count(harness: Harness, change: str) -> None:
    """A leader of a new epoch knows nothing of its followers, and requests of a former incarnation do not count."""
    harness.append()
    harness.fetch(B, 1)
    session = Session(harness)
    if change == "new epoch":
        harness.become(epoch=1, version=1)
        harness.fetch(A, 0)
    elif change == "another life":
        harness.fetch(A, 0, broker_epoch=LIFE + 1)
    else:
        harness.fetch(A, 0)
    harness.now_ms = 2 * LAG_MAX_MS
    session.session.last_used_ms = harness.now_ms
    harness.append()
    assert harness.leader.in_sync.followers[A].caught_up_ms == 0


def test_isr_change_makes_partitions_due(harness: Harness) -> None:
    """A follower that was removed from it, without a new epoch, is proposed again at one of its next requests."""
    session = Session(harness)
    assert session.ask().cached_partitions == []
    harness.become(version=1, isr=(LOCAL, B))
    assert len(session.ask().cached_partitions) == 1


def test_new_incarnation_of_a_follower_reports_every_partition_again(harness: Harness) -> None:
    session = Session(harness)
    assert session.ask().cached_partitions == []
    session.broker_epoch += 1
    assert len(session.ask().cached_partitions) == 1


class Waiting:
    def __init__(self) -> None:
        self.moves: list[CachedPartition] = []
        self.expired = 0

    def moved(self, cached: CachedPartition, partition: Partition) -> None:
        self.moves.append(cached)

    def expire(self) -> None:
        self.expired += 1


def test_request_with_another_leader_epoch_gets_all_offsets_again(harness: Harness) -> None:
    """A follower serves consumers once it has the high watermark under this epoch, even if that is unchanged."""
    session = Session(harness)

    def is_told(epoch: int) -> bool:
        cached = CachedPartition(harness.partition.topic_id, 0, session.end, 1000, epoch, -1)
        asked = session.ask(cached)
        return bool(
            asked.select(
                [FetchedPartition(each, high_watermark=0, log_start_offset=0) for each in asked.cached_partitions]
            )
        )

    assert [is_told(epoch) for epoch in (0, 0, 1, 1)] == [True, False, True, False]


def test_waiting_request_is_notified_of_changed_partitions(harness: Harness) -> None:
    session = Session(harness)
    waiting = session.session.waiter = Waiting()
    harness.append()
    (cached,) = waiting.moves
    assert list(session.session.due) == [cached]
    session.ask()
    assert waiting.expired == 1  # replaced by a later request


def test_forgotten_partition_stops_waiting(harness: Harness) -> None:
    session = Session(harness)
    assert harness.partition.waiters.for_log_end
    session.session.update((), [(harness.partition.topic_id, 0)])
    assert not harness.partition.waiters.for_log_end
    assert not harness.partition.waiters.for_high_watermark
    assert not session.session.due


def test_closed_session_stops_waiting(harness: Harness) -> None:
    session = Session(harness)
    session.cache.begin(session.session.id, -1, (), (), by_topic_id=True, now_ms=0)
    run(session.cache.ended.pop().stop_waiting())
    assert not harness.partition.waiters.for_log_end
    assert not harness.partition.waiters.for_high_watermark


def test_held_partition_is_read_first_when_it_is_released(harness: Harness) -> None:
    cache = FetchSessions(1, Random(1))
    cached_partitions = [CachedPartition("topic", index, 0, 1000, -1, -1) for index in range(4)]
    fetch = cache.begin(0, 0, cached_partitions, (), by_topic_id=False, now_ms=0)
    session = fetch.session
    session.hold(cached_partitions[1])
    session.hold(cached_partitions[2])
    following = cache.begin(session.id, 1, (), (), by_topic_id=False, now_ms=0)
    assert following.cached_partitions == [cached_partitions[0], cached_partitions[3]]
    following.select([FetchedPartition(cached_partitions[0], records=b"records")])
    session.release()
    assert following.cached_partitions == [
        cached_partitions[1],
        cached_partitions[2],
        cached_partitions[3],
        cached_partitions[0],
    ]


def test_held_partition_becomes_due_when_it_changes(harness: Harness) -> None:
    """The replica may be in sync now and therefore not throttled, or the leader may have changed."""
    session = Session(harness)
    (cached,) = harness.partition.waiters.for_log_end
    assert isinstance(cached, CachedPartition)
    session.session.make_all_due()
    session.session.hold(cached)
    harness.become(version=1, isr=ALL)
    assert session.ask().cached_partitions == [cached]
