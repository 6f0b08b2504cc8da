"""The followers that a leader throttles (KIP-73): those for which no producer waits."""

from math import inf
from pathlib import Path

import pytest

from broker.handlers.fetch.policies import FollowerPolicy
from broker.replication.in_sync_replicas import Proposal
from broker.replication.throttles import Throttle
from broker.wire.api.fetch import ReplicaState
from tests.support.partition_world import LOCAL, A, B, World

LAG_MAX_MS = 1_000


@pytest.fixture
def world(tmp_path: Path) -> World:
    """B is in sync, and A is not."""
    world = World(tmp_path)
    world.become(isr=(LOCAL, B))
    world.partition.throttled_as_leader = True
    return world


def allowance(world: World, broker_id: int) -> float:
    throttle = Throttle(11, 1_000, quota=lambda: 1_000, now_ms=lambda: world.now_ms)
    throttle.record(50_000)
    policy = FollowerPolicy(
        ReplicaState(replica_id=broker_id, replica_epoch=7), throttle, sends_high_watermark_at_once=False
    )
    policy.reset_planned_bytes()
    return policy.throttle_allowance(world.partition)


def test_lagging_follower_is_throttled_and_one_in_sync_is_not(world: World) -> None:
    world.append(3)
    world.fetch(B, 3)
    world.fetch(A, 0)
    assert allowance(world, B) == inf
    assert allowance(world, A) < 0


def test_follower_that_is_about_to_join_is_not_throttled(world: World) -> None:
    """The high watermark already waits for it, although another proposal is still pending."""
    assert world.partition.in_sync is not None
    world.partition.in_sync.proposal = Proposal((LOCAL, B))
    world.fetch(A, 0)
    world.append()
    world.fetch(B, 1)
    assert world.partition.high_watermark == 0
    assert allowance(world, A) == inf
    world.now_ms = LAG_MAX_MS + 1
    assert allowance(world, A) < 0
    world.fetch(B, 1)
    world.partition.advance_high_watermark()
    assert world.partition.high_watermark == 1


def test_proposed_follower_is_not_throttled(world: World) -> None:
    world.fetch(A, 0)
    assert world.proposal.joining == A
    world.now_ms = 10 * LAG_MAX_MS
    world.append()
    assert allowance(world, A) == inf


def test_followers_of_other_topics_are_not_throttled(world: World) -> None:
    world.partition.throttled_as_leader = False
    world.append()
    world.fetch(A, 0)
    assert allowance(world, A) == inf
