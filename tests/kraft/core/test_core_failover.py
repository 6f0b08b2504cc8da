"""One election replaces a leader that died, with any latency of messages: rivals do not split the votes for long."""

from random import Random

import pytest

from tests.support.raft_world import RaftWorld

LIVES = 40


def epochs_of_a_failover(seed: int, pace_ms: float, *, noticed: bool) -> int:
    """The number of epochs of a failover, if the leader of three voters dies and both others detect it at once."""
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
def test_failover_takes_one_election(pace_ms: float, noticed: bool) -> None:
    assert [epochs_of_a_failover(seed, pace_ms, noticed=noticed) for seed in range(LIVES)] == [1] * LIVES
