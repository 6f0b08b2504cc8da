"""However slow messages are, one election replaces a leader that died: rivals do not split the votes for long."""

from random import Random

import pytest

from tests.support.raft_world import RaftWorld

LIVES = 40


def epochs_of_a_failover(seed: int, pace_ms: float, *, noticed: bool) -> int:
    """How many epochs three voters go through when the leader dies, and two are left that both notice at once."""
    rng = Random(seed)

    def delay_ms() -> float:
        return rng.uniform(0.1, 2) * pace_ms

    world = RaftWorld((1, 2, 3), rng=Random(seed + 1), latency_ms=delay_ms, sync_ms=delay_ms)
    world.start_all()
    world.run(10_000)
    former = world.leader
    assert former is not None
    epoch = former.live.epoch
    world.crash(former.node_id)
    if noticed:
        world.reset_connections(former.node_id)
    assert world.run_until(lambda: world.leader is not None, 60_000)
    assert world.leader is not None
    return world.leader.live.epoch - epoch


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("pace_ms", [10.0, 30.0])
def test_one_election_is_enough(pace_ms: float, noticed: bool) -> None:
    assert [epochs_of_a_failover(seed, pace_ms, noticed=noticed) for seed in range(LIVES)] == [1] * LIVES
