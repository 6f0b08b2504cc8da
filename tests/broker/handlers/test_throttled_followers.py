"""The followers that a leader throttles (KIP-73): those for which no producer waits."""

from math import inf
from pathlib import Path

import pytest

from broker.handlers.fetch.policies import FollowerPolicy
from broker.replication.in_sync_replicas import Proposal
from broker.replication.throttles import Throttle
from broker.wire.api.fetch import ReplicaState
from tests.support.partition_harness import LOCAL, A, B, Harness

LAG_MAX_MS = 1_000


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    """B is in sync, and A is not."""
    harness = Harness(tmp_path)
    harness.become(isr=(LOCAL, B))
    harness.partition.throttled_as_leader = True
    return harness


def allowance(harness: Harness, broker_id: int) -> float:
    throttle = Throttle(11, 1_000, quota=lambda: 1_000, now_ms=lambda: harness.now_ms)
    throttle.record(50_000)
    policy = FollowerPolicy(
        ReplicaState(replica_id=broker_id, replica_epoch=7), throttle, sends_high_watermark_at_once=False
    )
    policy.reset_planned_bytes()
    return policy.throttle_allowance(harness.partition)


def test_lagging_follower_is_throttled_and_one_in_sync_is_not(harness: Harness) -> None:
    harness.append(3)
    harness.fetch(B, 3)
    harness.fetch(A, 0)
    assert allowance(harness, B) == inf
    assert allowance(harness, A) < 0


def test_follower_that_is_about_to_join_is_not_throttled(harness: Harness) -> None:
    """The high watermark already waits for it, although another proposal is still pending."""
    harness.leader.in_sync.proposal = Proposal((LOCAL, B))
    harness.fetch(A, 0)
    harness.append()
    harness.fetch(B, 1)
    assert harness.partition.high_watermark == 0
    assert allowance(harness, A) == inf
    harness.now_ms = LAG_MAX_MS + 1
    assert allowance(harness, A) < 0
    harness.fetch(B, 1)
    harness.leader.advance_high_watermark()
    assert harness.partition.high_watermark == 1


def test_proposed_follower_is_not_throttled(harness: Harness) -> None:
    harness.fetch(A, 0)
    assert harness.proposal.joining == A
    harness.now_ms = 10 * LAG_MAX_MS
    harness.append()
    assert allowance(harness, A) == inf


def test_followers_of_other_topics_are_not_throttled(harness: Harness) -> None:
    harness.partition.throttled_as_leader = False
    harness.append()
    harness.fetch(A, 0)
    assert allowance(harness, A) == inf
