"""Whom a leader's throttle holds back (KIP-73): no follower that producers wait for."""

from math import inf
from pathlib import Path

import pytest

from broker.handlers.fetch.readers import FollowerReader
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
    reader = FollowerReader(ReplicaState(replica_id=broker_id, replica_epoch=7), throttle, hurries=False)
    reader.begin()
    return reader.allowance(world.partition)


def test_who_lags_is_held_back_and_who_is_in_sync_is_not(world: World) -> None:
    world.append(3)
    world.fetch(B, 3)
    world.fetch(A, 0)
    assert allowance(world, B) == inf
    assert allowance(world, A) < 0


def test_who_has_caught_up_and_is_about_to_join_is_not(world: World) -> None:
    """What is committed waits for it already, though another proposal has to be answered first."""
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


def test_who_is_proposed_is_not(world: World) -> None:
    world.fetch(A, 0)
    assert world.proposal.joining == A
    world.now_ms = 10 * LAG_MAX_MS
    world.append()
    assert allowance(world, A) == inf


def test_topics_that_are_not_throttled_hold_back_nobody(world: World) -> None:
    world.partition.throttled_as_leader = False
    world.append()
    world.fetch(A, 0)
    assert allowance(world, A) == inf
