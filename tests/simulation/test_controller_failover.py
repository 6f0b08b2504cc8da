"""The death of the active controller, of which the others hear at once: its broker is fenced without another wait."""

from math import inf

import trio

from jepsen.simulation.cluster import Cluster
from jepsen.simulation.invariants import Replicas, process_invariants, raft_invariants
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects.node_plan import NodePlan
from tests.simulation.scripted_run import ScriptedRun

SEEDS = range(1, 9)
# Some round trips of half a millisecond, and four syncs; far less than any timeout.
FENCED_WITHIN_S = 0.3


def seconds_until_fenced(seed: int) -> float:
    """The time from the kill -9 of the active controller, a combined node of three, until its broker is fenced."""
    simulation = Simulation(str(seed))
    plan = NodePlan(3, 0, 0, simulation.rng("subject"))
    disks_lost = {each.name: 0 for each in plan.nodes}
    cluster = Cluster(simulation, {each.name: plan.factory(each, disks_lost) for each in plan.nodes})
    stage = ScriptedRun(simulation, cluster)
    seconds = inf

    async def script() -> None:
        nonlocal seconds
        await cluster.wait_serving()
        await trio.sleep(2)
        active = cluster.leader
        assert active is not None, "a controller is active"
        began, fenced_before = trio.current_time(), len(stage.events_by_kind.get("broker_fenced", ()))
        cluster.crash(active, power=False, down_seconds=inf)
        with trio.fail_after(20):
            while len(stage.events_by_kind.get("broker_fenced", ())) == fenced_before:
                await trio.sleep(0.001)
        seconds = trio.current_time() - began

    stage.perform([*process_invariants(simulation.hosts), *raft_invariants(Replicas())], script)
    assert stage.violation is None
    return seconds


def test_broker_of_a_dead_controller_is_fenced_as_soon_as_another_one_is_active() -> None:
    times = [seconds_until_fenced(seed) for seed in SEEDS]
    assert max(times) < FENCED_WITHIN_S, times
