"""Membership in the ISR, and the leader's high watermark during pending ISR changes: KIP-497, 841, 903, 966."""

import trio

from tests.simulation.scenarios import Breach, Scenario, ScenarioRun, scenario_runs
from tests.simulation.scripted_replicas import GLANCE_SECONDS, TIMEOUT_SECONDS, ScriptedReplicas

HOLD = "InSyncReplicasHoldWhatIsCommitted"


async def _is_left_behind(stage: ScriptedReplicas, name: str) -> None:
    """A broker's process dies and restarts without reaching the leader: it is active, but not in the ISR."""
    leader, *_ = stage.replicas
    stage.kill(name)
    await stage.in_sync(*stage.others(name), by=leader)
    stage.part(name, *stage.others(name))
    await stage.start(name)
    await stage.until_described(
        leader,
        lambda told: stage.ids[name] not in told.offline_replicas,
        f"{leader} does not know that {name} is back",
        TIMEOUT_SECONDS,
    )


async def a_proposal_of_which_nothing_is_heard(stage: ScriptedReplicas) -> None:
    """KIP-497: the controller adds a replica to the ISR, and the leader dies before it learns of it."""
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    await _is_left_behind(stage, c)
    await stage.produce(a, "m0")
    stage.cut(stage.controller, a)
    stage.mend(c, a)
    await stage.in_sync(a, b, c, by=b)
    stage.part(c, a, b)
    await stage.produce(a, "m1")
    stage.kill(a)
    stage.kill(b)
    await stage.leads(c)


async def a_leader_that_is_behind_what_is_committed(stage: ScriptedReplicas) -> None:
    """The new leader has the records, but not the high watermark: a replica with fewer records may not join
    (KIP-101).
    """
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    await stage.produce(a, "m0")
    await _is_left_behind(stage, c)
    stage.start_soon(stage.produce, a, "m1")
    await stage.has(b, "m1")
    stage.cut(a, b)
    await stage.acknowledges("m1")

    stage.mend(b, c)
    stage.kill(a)
    await stage.until(lambda: stage.is_connected(c, b), f"{c} does not fetch from {b}", GLANCE_SECONDS)
    stage.cut(b, c)  # so that the new leader gets its follower's request, and its response does not arrive
    await trio.sleep(3)
    stage.kill(b)
    await trio.sleep(3)


async def a_fenced_broker_catches_up(stage: ScriptedReplicas) -> None:
    """KIP-841: a leader that does not know of the fencing proposes a fenced broker."""
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    await _is_left_behind(stage, c)
    stage.cut(stage.controller, a)
    stage.reset(stage.controller, c)
    stage.part(stage.controller, c)
    await trio.sleep(1)
    stage.mend(c, a)
    await trio.sleep(2)
    told = await stage.described(b)
    assert told is not None
    if stage.ids[c] in told.isr_nodes:
        stage.fail(f"FencedBrokersAreNotInSync: {told}")


async def a_former_incarnation_caught_up(stage: ScriptedReplicas) -> None:
    """KIP-903: when the controller learns that a broker has caught up, its process has restarted with an empty disk."""
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    await _is_left_behind(stage, c)
    await stage.produce(a, "m0")
    stage.cut(a, stage.controller)
    stage.mend(c, a)
    await stage.has(c, "m0")
    await trio.sleep(0.1)
    stage.kill(c)
    stage.host(c).volume.power_cut("none")
    stage.part(c, a, b)
    await stage.start(c)
    stage.mend(a, stage.controller)
    await trio.sleep(2)
    stage.kill(a)
    stage.kill(b)
    await trio.sleep(3)


@scenario_runs(
    Scenario(
        a_proposal_of_which_nothing_is_heard,
        {"a joining replica is not waited for": Breach("AcknowledgedRecordsStay", [HOLD])},
    ),
    Scenario(
        a_leader_that_is_behind_what_is_committed,
        {"followers join below the start of the epoch": Breach("AcknowledgedRecordsStay", [HOLD])},
    ),
    Scenario(
        a_fenced_broker_catches_up,
        {"fenced brokers may be in sync": Breach("FencedBrokersAreNotInSync", ["NoFencedBrokerIsInSync"])},
    ),
    Scenario(
        a_former_incarnation_caught_up,
        {"broker epochs are ignored in ISR changes": Breach("AcknowledgedRecordsStay", [HOLD])},
    ),
)
def test_in_sync(scenario_run: ScenarioRun) -> None:
    assert scenario_run.violation() in scenario_run.expected
