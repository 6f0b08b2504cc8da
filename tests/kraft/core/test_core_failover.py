"""One election replaces a leader that died, with any latency of messages: rivals do not split the votes for long."""

from random import Random

import pytest

from tests.support.raft_harness import RaftHarness

LIVES = 40


def epochs_of_a_failover(seed: int, pace_ms: float, *, noticed: bool) -> int:
    """The number of epochs of a failover, if the leader of three voters dies and both others detect it at once."""
    rng = Random(seed)

    def delay_ms() -> float:
        return rng.uniform(0.1, 2) * pace_ms

    harness = RaftHarness((1, 2, 3), rng=Random(seed + 1), latency_ms=delay_ms, sync_ms=delay_ms)
    harness.start_all()
    harness.run(10_000)
    former = harness.leader
    assert former is not None
    epoch = former.live.epoch
    harness.crash(former.node_id)
    if noticed:
        harness.reset_connections(former.node_id)
    assert harness.run_until(lambda: harness.leader is not None, 60_000)
    assert harness.leader is not None
    return harness.leader.live.epoch - epoch


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("pace_ms", [10.0, 30.0])
def test_failover_takes_one_election(pace_ms: float, noticed: bool) -> None:
    assert [epochs_of_a_failover(seed, pace_ms, noticed=noticed) for seed in range(LIVES)] == [1] * LIVES
