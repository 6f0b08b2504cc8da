"""A replica's roles: the effects of changed leaders, epochs, replicas and configs on it and on waiting requests."""

from pathlib import Path

import pytest

from broker.config.effective import TopicConfig
from broker.handlers.fetch.policies import DebuggingPolicy, FetchPolicy
from broker.replication.cached_partition import CachedPartition
from broker.replication.commit_state import READ_UNCOMMITTED
from broker.replication.follower_role import following
from broker.storage.log_config import LogConfig
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.logs import NOW_MS
from tests.support.partition_harness import ALL, LOCAL, A, B, Harness, Waiting


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


# Leading


def test_single_replica_commits_at_once(harness: Harness) -> None:
    harness.become(replicas=(LOCAL,), isr=(LOCAL,))
    assert harness.partition.role.answers_at_once
    assert harness.append(3).results == [ErrorCode.NONE]
    assert harness.partition.high_watermark == 3


def test_leader_waits_for_all_in_sync_replicas(harness: Harness) -> None:
    harness.become()
    producer = harness.append(3)
    consumer, follower = Waiting(), Waiting()
    harness.partition.waiters.for_high_watermark[consumer] = None
    harness.partition.waiters.for_log_end[follower] = None
    harness.fetch(A, 3)
    assert (harness.partition.high_watermark, producer.results, consumer.notified) == (0, [], 0)
    harness.fetch(B, 2)
    assert (harness.partition.high_watermark, producer.results, consumer.notified) == (2, [], 1)
    harness.fetch(B, 3)
    assert (harness.partition.high_watermark, producer.results) == (3, [ErrorCode.NONE])
    assert follower.notified == 0  # the log has not grown since
    harness.append()
    assert follower.notified == 1


def test_high_watermark_of_a_leader_never_moves_back(harness: Harness) -> None:
    harness.become()
    harness.append(3)
    harness.fetch(A, 3)
    harness.fetch(B, 3)
    harness.fetch(B, 1)
    assert harness.partition.high_watermark == 3


def test_new_leader_epoch_starts_at_the_log_end_without_a_record_kip_101(harness: Harness) -> None:
    """KIP-101: a follower may ask for the start of the epoch."""
    harness.become()
    harness.append(3)
    harness.become(epoch=2, version=2)
    assert harness.partition.log is not None
    assert harness.partition.log.epochs.entries == [(0, 0), (2, 3)]
    assert harness.leader.in_sync.epoch_start_offset == 3


def test_new_leader_learns_the_high_watermark_from_its_followers_kip_207(harness: Harness) -> None:
    """KIP-207: until then it must not return the log end to consumers."""
    harness.become()
    assert harness.partition.role.knows_committed
    harness.append(3)
    harness.become(epoch=1, version=1)
    assert not harness.partition.role.knows_committed
    harness.fetch(A, 3)
    harness.fetch(B, 2)
    assert not harness.partition.role.knows_committed
    harness.fetch(B, 3)
    assert harness.partition.role.knows_committed


def test_follower_progress_of_an_earlier_epoch_does_not_count(harness: Harness) -> None:
    """Another leader in between may have made the follower truncate its log."""
    harness.become()
    producer = harness.append(3)
    harness.fetch(A, 3)
    harness.become(epoch=2, version=2)
    harness.fetch(B, 3)
    assert (harness.partition.high_watermark, producer.results) == (0, [])
    harness.fetch(A, 3)
    assert (harness.partition.high_watermark, producer.results) == (3, [ErrorCode.NONE])


@pytest.mark.parametrize("leader", [A, -1])
def test_waiters_are_refused_when_the_leader_steps_down(harness: Harness, leader: int) -> None:
    harness.become()
    producer, fetch = harness.append(), Waiting()
    harness.partition.waiters.for_high_watermark[fetch] = None
    harness.partition.waiters.for_log_end[fetch] = None
    harness.become(leader=leader, epoch=1, version=1)
    assert producer.results == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert fetch.notified == 2
    with pytest.raises(KafkaError) as refusal:
        harness.append()
    assert refusal.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert harness.partition.source == (leader if leader == A else None)


def test_image_of_an_older_partition_epoch_is_ignored(harness: Harness) -> None:
    harness.become(version=5)
    harness.become(version=4, leader=A, epoch=0)
    assert harness.partition.leads


def test_waiters_are_refused_when_the_log_directory_fails(harness: Harness) -> None:
    harness.become()
    producer, fetch = harness.append(), Waiting()
    harness.partition.waiters.for_high_watermark[fetch] = None
    harness.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    assert (producer.results, fetch.notified) == ([ErrorCode.KAFKA_STORAGE_ERROR], 1)
    assert not harness.partition.role.answers_at_once


# In-sync replicas


def test_smaller_isr_commits_waiting_records(harness: Harness) -> None:
    harness.become()
    producer = harness.append()
    harness.fetch(A, 1)
    harness.become(version=1, isr=(LOCAL, A))
    assert producer.results == [ErrorCode.NONE]


def test_high_watermark_stays_below_min_isr_kip_966(harness: Harness) -> None:
    """KIP-966."""
    harness.partition.configure(config(min_insync_replicas=2))
    harness.become()
    producer = harness.append()
    harness.become(version=1, isr=(LOCAL,))
    assert (producer.results, harness.partition.high_watermark) == ([], 0)
    with pytest.raises(KafkaError) as refusal:
        harness.append()
    assert refusal.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    harness.partition.configure(config(min_insync_replicas=1))
    assert (producer.results, harness.partition.high_watermark) == ([ErrorCode.NONE], 1)


def test_min_insync_replicas_is_bounded_by_the_number_of_replicas(harness: Harness) -> None:
    harness.partition.configure(config(min_insync_replicas=4))
    harness.become()
    harness.append()
    harness.fetch(A, 1)
    harness.fetch(B, 1)
    assert harness.partition.high_watermark == 1


def test_proposed_isr_counts_until_the_controller_responds_kip_497(harness: Harness) -> None:
    """KIP-497."""
    harness.become(isr=(LOCAL, A))
    harness.fetch(A, 0)
    harness.fetch(B, 0)
    assert (harness.proposed, harness.proposal.isr) == (1, ALL)
    harness.now_ms = 5_000  # B is no longer caught up, but may be in the ISR by now
    producer = harness.append()
    harness.fetch(A, 1)
    assert producer.results == []

    harness.leader.proposal_accepted(harness.proposal, leader_epoch=0, partition_epoch=1, isr=ALL)
    assert (harness.isr, harness.partition.partition_epoch, producer.results) == (ALL, 1, [])
    harness.leader.propose_shrinking()
    assert harness.proposal.isr == (LOCAL, A)
    assert producer.results == []  # B remains a member until the outcome is certain
    harness.leader.proposal_accepted(harness.proposal, leader_epoch=0, partition_epoch=2, isr=(LOCAL, A))
    assert producer.results == [ErrorCode.NONE]


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_proposal_that_was_not_committed_is_dropped(harness: Harness, code: ErrorCode) -> None:
    harness.become(isr=(LOCAL,))
    harness.fetch(A, 0)
    producer = harness.append()
    harness.fenced = (A,)
    assert not harness.leader.proposal_refused(harness.proposal, code)
    assert harness.leader.in_sync.proposal is None
    assert producer.results == [ErrorCode.NONE]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_proposal_of_unknown_outcome_counts_until_the_metadata_changes(harness: Harness, code: ErrorCode) -> None:
    harness.become(isr=(LOCAL,))
    harness.fetch(A, 0)
    producer = harness.append()
    harness.fenced = (A,)
    assert not harness.leader.proposal_refused(harness.proposal, code)
    harness.leader.advance_high_watermark()
    assert producer.results == []
    harness.become(version=1, isr=(LOCAL,))
    assert producer.results == [ErrorCode.NONE]


def test_proposal_with_other_errors_is_retried(harness: Harness) -> None:
    harness.become(isr=(LOCAL,))
    harness.fetch(A, 0)
    assert harness.leader.proposal_refused(harness.proposal, ErrorCode.REQUEST_TIMED_OUT)
    assert harness.leader.proposal_refused(harness.proposal, ErrorCode.NOT_CONTROLLER)


def test_response_to_a_dropped_proposal_is_ignored(harness: Harness) -> None:
    harness.become(isr=(LOCAL,))
    harness.fetch(A, 0)
    proposal = harness.proposal
    harness.become(version=3, isr=(LOCAL, B))
    harness.leader.proposal_accepted(proposal, leader_epoch=0, partition_epoch=1, isr=(LOCAL, A))
    assert not harness.leader.proposal_refused(proposal, ErrorCode.REQUEST_TIMED_OUT)
    assert (harness.isr, harness.partition.partition_epoch) == ((LOCAL, B), 3)


def test_metadata_that_confirms_a_response_keeps_the_next_proposal(harness: Harness) -> None:
    """If it were dropped and the controller still committed it, the leader would not wait for the new member."""
    harness.become(isr=(LOCAL,))
    harness.fetch(A, 0)
    harness.leader.proposal_accepted(harness.proposal, leader_epoch=0, partition_epoch=1, isr=(LOCAL, A))
    harness.fetch(B, 0)
    assert harness.proposal.isr == ALL
    harness.become(version=1, isr=(LOCAL, A))
    assert harness.proposal.isr == ALL


def test_response_with_an_unchanged_isr_ends_the_proposal(harness: Harness) -> None:
    harness.become(isr=(LOCAL,))
    harness.fetch(A, 0)
    harness.leader.proposal_accepted(harness.proposal, leader_epoch=0, partition_epoch=0, isr=(LOCAL,))
    assert harness.leader.in_sync.proposal is None


# Flushes


def config(*, min_insync_replicas: int = 1, flush_messages: int | None = None) -> TopicConfig:
    log = LogConfig() if flush_messages is None else LogConfig(flush_messages=flush_messages)
    return TopicConfig(log=log, min_insync_replicas=min_insync_replicas)


def test_flush_messages_delays_the_high_watermark_until_the_flush(harness: Harness) -> None:
    harness.partition.configure(config(flush_messages=1))
    harness.become(replicas=(LOCAL,), isr=(LOCAL,))
    producer = harness.append()
    assert (producer.results, harness.to_flush, harness.partition.high_watermark) == ([], [harness.partition], 0)
    assert harness.leader.awaits(1, 1) is harness.partition.waiters.for_flush
    harness.leader.flushed(1)
    assert (producer.results, harness.partition.high_watermark) == ([ErrorCode.NONE], 1)
    assert harness.leader.awaits(1, 1) is None


def test_unflushed_records_are_replicated_but_not_committed(harness: Harness) -> None:
    harness.partition.configure(config(flush_messages=1))
    harness.become()
    producer = harness.append()
    harness.fetch(A, 1)
    harness.fetch(B, 1)
    assert producer.results == []
    harness.leader.flushed(1)
    assert producer.results == [ErrorCode.NONE]


def test_flush_waiter_completes_when_flush_messages_is_unset(harness: Harness) -> None:
    harness.partition.configure(config(flush_messages=1))
    harness.become(replicas=(LOCAL,), isr=(LOCAL,))
    committed, flushed = harness.append(), Waiting()
    harness.partition.waiters.for_flush.add(flushed, 1)
    harness.partition.configure(config())
    assert (committed.results, flushed.results) == ([ErrorCode.NONE], [ErrorCode.NONE])
    assert harness.partition.role.answers_at_once


def heard(harness: Harness, epoch: int) -> None:
    """Apply a response of the current leader with a high watermark and no records."""
    nothing = memoryview(b"")
    following(harness.partition, epoch).append_fetched(
        nothing, leader_high_watermark=0, leader_log_start_offset=0, now_ms=NOW_MS
    )


def is_served(harness: Harness) -> bool:
    """True if this replica serves consumers."""
    try:
        return harness.partition.committed_log() is harness.partition.log
    except KafkaError as error:
        if error.code != ErrorCode.OFFSET_NOT_AVAILABLE:
            raise
        return False


def test_follower_serves_consumers_after_its_first_fetch_from_the_leader(harness: Harness) -> None:
    """The leader's first response may truncate records that the follower counts as committed."""
    harness.become(leader=A, epoch=3, version=0)
    assert not is_served(harness)
    heard(harness, 3)
    assert is_served(harness)
    harness.become(leader=A, isr=(LOCAL, A), epoch=3, version=1)
    assert is_served(harness), "the same leader in the same epoch"
    harness.become(leader=-1, epoch=4, version=2)
    assert is_served(harness), "nobody leads that could have lost something"
    harness.become(leader=B, epoch=5, version=3)
    assert not is_served(harness)
    with pytest.raises(KafkaError):
        heard(harness, 4)
    assert not is_served(harness)
    harness.become(epoch=6, version=4)
    assert is_served(harness), "it leads"


def test_debug_reader_reads_uncommitted_records(harness: Harness) -> None:
    harness.become(leader=A)
    cached = CachedPartition("topic", 0, 0, 1000, 0, -1)
    assert DebuggingPolicy().log(harness.partition, cached) is harness.partition.log
    with pytest.raises(KafkaError):
        FetchPolicy(READ_UNCOMMITTED, leader_only=False).log(harness.partition, cached)


# Damage


def test_leader_checks_its_log_where_a_follower_fetches_again_and_again(harness: Harness) -> None:
    """Less and less often, as a follower may also be held back by its throttle or by lost responses."""
    harness.become()
    harness.append(3)
    harness.fetch(A, 0)
    assert harness.checked == []
    for _ in range(16):
        harness.fetch(A, 0)
    assert harness.checked == [0] * 5  # after 1, 2, 4, 8 and 16 fetches
    harness.fetch(A, 3)
    harness.fetch(A, 3)
    assert harness.checked == [0] * 5


def test_leader_with_a_damaged_log_proposes_to_leave_the_isr(harness: Harness) -> None:
    """Until the controller has answered, all of the former ISR counts."""
    harness.become()
    harness.append(3)
    assert harness.leader.propose_handover()
    assert (harness.proposal.isr, harness.proposal.joining) == ((A, B), None)
    harness.fetch(A, 3)
    assert harness.partition.high_watermark == 0
    assert not harness.leader.proposal_refused(harness.proposal, ErrorCode.NEW_LEADER_ELECTED)
    assert harness.proposal.isr == (A, B)
    assert harness.leader.propose_handover()
    assert harness.proposed == 1


def test_handover_that_a_controller_of_an_earlier_version_refuses_is_dropped(harness: Harness) -> None:
    harness.become()
    harness.leader.propose_handover()
    assert not harness.leader.proposal_refused(harness.proposal, ErrorCode.INVALID_REQUEST)
    assert harness.leader.in_sync.proposal is None


@pytest.mark.parametrize("replicas", [(LOCAL,), ALL])
def test_leader_without_another_replica_in_sync_hands_nothing_over(harness: Harness, replicas: tuple[int, ...]) -> None:
    harness.become(replicas=replicas, isr=(LOCAL,))
    assert not harness.leader.propose_handover()
    assert harness.proposed == 0


@pytest.mark.parametrize("change", ["another leader", "smaller isr", "failed log directory"])
def test_waits_for_deletions_are_checked_again_when_role_or_isr_change(tmp_path: Path, change: str) -> None:
    harness, waiter = Harness(tmp_path), Waiting()
    harness.become()
    harness.partition.waiters.for_deletions[waiter] = None
    if change == "another leader":
        harness.become(epoch=1, version=1, leader=A)
    elif change == "smaller isr":
        harness.become(version=1, isr=(LOCAL, A))
    else:
        harness.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    assert waiter.notified == 1
    assert not harness.partition.waiters.for_deletions
