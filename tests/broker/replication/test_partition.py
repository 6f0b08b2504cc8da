"""A replica's roles: the effects of changed leaders, epochs, replicas and configs on it and on waiting requests."""

from pathlib import Path

import pytest

from broker.config.effective import TopicConfig
from broker.handlers.fetch.policies import DebuggingPolicy, FetchPolicy
from broker.replication.commit_state import READ_UNCOMMITTED
from broker.replication.fetch_targets import FetchTarget
from broker.replication.follower_role import append_fetched
from broker.replication.leader_role import proposal_accepted, proposal_refused, propose_shrinking
from broker.storage.log_config import LogConfig
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.logs import NOW_MS
from tests.support.partition_world import ALL, LOCAL, A, B, Waiting, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# Leading


def test_single_replica_commits_at_once(world: World) -> None:
    world.become(replicas=(LOCAL,), isr=(LOCAL,))
    assert world.partition.answers_at_once
    assert world.append(3).results == [ErrorCode.NONE]
    assert world.partition.high_watermark == 3


def test_leader_waits_for_all_in_sync_replicas(world: World) -> None:
    world.become()
    producer = world.append(3)
    consumer, follower = Waiting(), Waiting()
    world.partition.waiters.for_high_watermark[consumer] = None
    world.partition.waiters.for_log_end[follower] = None
    world.fetch(A, 3)
    assert (world.partition.high_watermark, producer.results, consumer.notified) == (0, [], 0)
    world.fetch(B, 2)
    assert (world.partition.high_watermark, producer.results, consumer.notified) == (2, [], 1)
    world.fetch(B, 3)
    assert (world.partition.high_watermark, producer.results) == (3, [ErrorCode.NONE])
    assert follower.notified == 0  # the log has not grown since
    world.append()
    assert follower.notified == 1


def test_high_watermark_of_a_leader_never_moves_back(world: World) -> None:
    world.become()
    world.append(3)
    world.fetch(A, 3)
    world.fetch(B, 3)
    world.fetch(B, 1)
    assert world.partition.high_watermark == 3


def test_new_leader_epoch_starts_at_the_log_end_without_a_record_kip_101(world: World) -> None:
    """KIP-101: a follower may ask for the start of the epoch."""
    world.become()
    world.append(3)
    world.become(epoch=2, version=2)
    assert world.partition.log is not None
    assert world.partition.log.epochs.entries == [(0, 0), (2, 3)]
    assert world.partition.epoch_start_offset == 3


def test_new_leader_learns_the_high_watermark_from_its_followers_kip_207(world: World) -> None:
    """KIP-207: until then it must not return the log end to consumers."""
    world.become()
    assert world.partition.knows_committed
    world.append(3)
    world.become(epoch=1, version=1)
    assert not world.partition.knows_committed
    world.fetch(A, 3)
    world.fetch(B, 2)
    assert not world.partition.knows_committed
    world.fetch(B, 3)
    assert world.partition.knows_committed


def test_follower_progress_of_an_earlier_epoch_does_not_count(world: World) -> None:
    """Another leader in between may have made the follower truncate its log."""
    world.become()
    producer = world.append(3)
    world.fetch(A, 3)
    world.become(epoch=2, version=2)
    world.fetch(B, 3)
    assert (world.partition.high_watermark, producer.results) == (0, [])
    world.fetch(A, 3)
    assert (world.partition.high_watermark, producer.results) == (3, [ErrorCode.NONE])


@pytest.mark.parametrize("leader", [A, -1])
def test_waiters_are_refused_when_the_leader_steps_down(world: World, leader: int) -> None:
    world.become()
    producer, fetch = world.append(), Waiting()
    world.partition.waiters.for_high_watermark[fetch] = None
    world.partition.waiters.for_log_end[fetch] = None
    world.become(leader=leader, epoch=1, version=1)
    assert producer.results == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert fetch.notified == 2
    with pytest.raises(KafkaError) as refusal:
        world.append()
    assert refusal.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.partition.source == (leader if leader == A else None)


def test_image_of_an_older_partition_epoch_is_ignored(world: World) -> None:
    world.become(version=5)
    world.become(version=4, leader=A, epoch=0)
    assert world.partition.leads


def test_waiters_are_refused_when_the_log_directory_fails(world: World) -> None:
    world.become()
    producer, fetch = world.append(), Waiting()
    world.partition.waiters.for_high_watermark[fetch] = None
    world.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    assert (producer.results, fetch.notified) == ([ErrorCode.KAFKA_STORAGE_ERROR], 1)
    assert not world.partition.answers_at_once


# In-sync replicas


def test_smaller_isr_commits_waiting_records(world: World) -> None:
    world.become()
    producer = world.append()
    world.fetch(A, 1)
    world.become(version=1, isr=(LOCAL, A))
    assert producer.results == [ErrorCode.NONE]


def test_high_watermark_stays_below_min_isr_kip_966(world: World) -> None:
    """KIP-966."""
    world.partition.configure(config(min_insync_replicas=2))
    world.become()
    producer = world.append()
    world.become(version=1, isr=(LOCAL,))
    assert (producer.results, world.partition.high_watermark) == ([], 0)
    with pytest.raises(KafkaError) as refusal:
        world.append()
    assert refusal.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    world.partition.configure(config(min_insync_replicas=1))
    assert (producer.results, world.partition.high_watermark) == ([ErrorCode.NONE], 1)


def test_min_insync_replicas_is_bounded_by_the_number_of_replicas(world: World) -> None:
    world.partition.configure(config(min_insync_replicas=4))
    world.become()
    world.append()
    world.fetch(A, 1)
    world.fetch(B, 1)
    assert world.partition.high_watermark == 1


def test_proposed_isr_counts_until_the_controller_responds_kip_497(world: World) -> None:
    """KIP-497."""
    world.become(isr=(LOCAL, A))
    world.fetch(A, 0)
    world.fetch(B, 0)
    assert (world.proposed, world.proposal.isr) == (1, ALL)
    world.now_ms = 5_000  # B is no longer caught up, but may be in the ISR by now
    producer = world.append()
    world.fetch(A, 1)
    assert producer.results == []

    proposal_accepted(world.partition, world.proposal, leader_epoch=0, partition_epoch=1, isr=ALL)
    assert (world.isr, world.partition.partition_epoch, producer.results) == (ALL, 1, [])
    propose_shrinking(world.partition)
    assert world.proposal.isr == (LOCAL, A)
    assert producer.results == []  # B remains a member until the outcome is certain
    proposal_accepted(world.partition, world.proposal, leader_epoch=0, partition_epoch=2, isr=(LOCAL, A))
    assert producer.results == [ErrorCode.NONE]


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_proposal_that_was_not_committed_is_dropped(world: World, code: ErrorCode) -> None:
    world.become(isr=(LOCAL,))
    world.fetch(A, 0)
    producer = world.append()
    world.fenced = (A,)
    assert not proposal_refused(world.partition, world.proposal, code)
    assert world.partition.in_sync is not None
    assert world.partition.in_sync.proposal is None
    assert producer.results == [ErrorCode.NONE]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_proposal_of_unknown_outcome_counts_until_the_metadata_changes(world: World, code: ErrorCode) -> None:
    world.become(isr=(LOCAL,))
    world.fetch(A, 0)
    producer = world.append()
    world.fenced = (A,)
    assert not proposal_refused(world.partition, world.proposal, code)
    world.partition.advance_high_watermark()
    assert producer.results == []
    world.become(version=1, isr=(LOCAL,))
    assert producer.results == [ErrorCode.NONE]


def test_proposal_with_other_errors_is_retried(world: World) -> None:
    world.become(isr=(LOCAL,))
    world.fetch(A, 0)
    assert proposal_refused(world.partition, world.proposal, ErrorCode.REQUEST_TIMED_OUT)
    assert proposal_refused(world.partition, world.proposal, ErrorCode.NOT_CONTROLLER)


def test_response_to_a_dropped_proposal_is_ignored(world: World) -> None:
    world.become(isr=(LOCAL,))
    world.fetch(A, 0)
    proposal = world.proposal
    world.become(version=3, isr=(LOCAL, B))
    proposal_accepted(world.partition, proposal, leader_epoch=0, partition_epoch=1, isr=(LOCAL, A))
    assert not proposal_refused(world.partition, proposal, ErrorCode.REQUEST_TIMED_OUT)
    assert (world.isr, world.partition.partition_epoch) == ((LOCAL, B), 3)


def test_metadata_that_confirms_a_response_keeps_the_next_proposal(world: World) -> None:
    """If it were dropped and the controller still committed it, the leader would not wait for the new member."""
    world.become(isr=(LOCAL,))
    world.fetch(A, 0)
    proposal_accepted(world.partition, world.proposal, leader_epoch=0, partition_epoch=1, isr=(LOCAL, A))
    world.fetch(B, 0)
    assert world.proposal.isr == ALL
    world.become(version=1, isr=(LOCAL, A))
    assert world.proposal.isr == ALL


def test_response_with_an_unchanged_isr_ends_the_proposal(world: World) -> None:
    world.become(isr=(LOCAL,))
    world.fetch(A, 0)
    proposal_accepted(world.partition, world.proposal, leader_epoch=0, partition_epoch=0, isr=(LOCAL,))
    assert world.partition.in_sync is not None
    assert world.partition.in_sync.proposal is None


# Flushes


def config(*, min_insync_replicas: int = 1, flush_messages: int | None = None) -> TopicConfig:
    log = LogConfig() if flush_messages is None else LogConfig(flush_messages=flush_messages)
    return TopicConfig(log=log, min_insync_replicas=min_insync_replicas)


def test_flush_messages_delays_the_high_watermark_until_the_flush(world: World) -> None:
    world.partition.configure(config(flush_messages=1))
    world.become(replicas=(LOCAL,), isr=(LOCAL,))
    producer = world.append()
    assert (producer.results, world.to_flush, world.partition.high_watermark) == ([], [world.partition], 0)
    assert world.partition.awaits(1, 1) is world.partition.waiters.for_flush
    world.partition.flushed(1)
    assert (producer.results, world.partition.high_watermark) == ([ErrorCode.NONE], 1)
    assert world.partition.awaits(1, 1) is None


def test_unflushed_records_are_replicated_but_not_committed(world: World) -> None:
    world.partition.configure(config(flush_messages=1))
    world.become()
    producer = world.append()
    world.fetch(A, 1)
    world.fetch(B, 1)
    assert producer.results == []
    world.partition.flushed(1)
    assert producer.results == [ErrorCode.NONE]


def test_flush_waiter_completes_when_flush_messages_is_unset(world: World) -> None:
    world.partition.configure(config(flush_messages=1))
    world.become(replicas=(LOCAL,), isr=(LOCAL,))
    committed, flushed = world.append(), Waiting()
    world.partition.waiters.for_flush.add(flushed, 1)
    world.partition.configure(config())
    assert (committed.results, flushed.results) == ([ErrorCode.NONE], [ErrorCode.NONE])
    assert world.partition.answers_at_once


def heard(world: World, epoch: int) -> None:
    """Apply a response of the current leader with a high watermark and no records."""
    nothing = memoryview(b"")
    append_fetched(world.partition, epoch, nothing, leader_high_watermark=0, leader_log_start_offset=0, now_ms=NOW_MS)


def is_served(world: World) -> bool:
    """True if this replica serves consumers."""
    try:
        return world.partition.committed_log() is world.partition.log
    except KafkaError as error:
        if error.code != ErrorCode.OFFSET_NOT_AVAILABLE:
            raise
        return False


def test_follower_serves_consumers_after_its_first_fetch_from_the_leader(world: World) -> None:
    """The leader's first response may truncate records that the follower counts as committed."""
    world.become(leader=A, epoch=3, version=0)
    assert not is_served(world)
    heard(world, 3)
    assert is_served(world)
    world.become(leader=A, isr=(LOCAL, A), epoch=3, version=1)
    assert is_served(world), "the same leader in the same epoch"
    world.become(leader=-1, epoch=4, version=2)
    assert is_served(world), "nobody leads that could have lost something"
    world.become(leader=B, epoch=5, version=3)
    assert not is_served(world)
    with pytest.raises(KafkaError):
        heard(world, 4)
    assert not is_served(world)
    world.become(epoch=6, version=4)
    assert is_served(world), "it leads"


def test_debug_reader_reads_uncommitted_records(world: World) -> None:
    world.become(leader=A)
    target = FetchTarget("topic", 0, 0, 1000, 0, -1)
    assert DebuggingPolicy().log(world.partition, target) is world.partition.log
    with pytest.raises(KafkaError):
        FetchPolicy(READ_UNCOMMITTED, leader_only=False).log(world.partition, target)
