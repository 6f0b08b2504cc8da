"""Replication scenarios of the KIPs, with unmodified nodes, and again with a bug that removes the rule."""

import trio

from broker.wire.errors import ErrorCode
from jepsen.simulation.subjects.node_plan import LOG_DIRECTORIES
from tests.simulation.scenarios import Breach, Scenario, ScenarioRun, scenario_runs
from tests.simulation.scripted_replicas import GLANCE_SECONDS, ScriptedReplicas

HOLD = "InSyncReplicasHoldWhatIsCommitted"

# Longer than a broker session, after which the broker is fenced.
SESSION_SECONDS = 12.0
# Longer than the interval between checkpoints of high watermarks.
CHECKPOINT_SECONDS = 6.0
# After this time the directory entries of a moved log are durable. Its records are not flushed again meanwhile.
MOVE_SECONDS = 2.0


async def a_follower_that_knows_less_of_what_is_committed(stage: ScriptedReplicas) -> None:
    """KIP-101, scenario 1: a follower's high watermark lags, and it becomes leader before it learns of another one."""
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    await stage.produce(a, "m0")
    stage.start_soon(stage.produce, a, "m1")
    await stage.until(lambda: stage.holds(b, "m1") and stage.holds(c, "m1"), "m1 is not replicated", GLANCE_SECONDS)
    stage.cut(a, b, c)
    await stage.acknowledges("m1")
    stage.part(b, c)
    stage.kill(a)
    await stage.leads(b)
    await stage.follows(c, stage.epoch)
    await trio.sleep(1)
    stage.kill(b)
    await stage.leads(c)


async def two_power_cuts(stage: ScriptedReplicas) -> None:
    """KIP-101, scenario 2: the first replica to return leads without its lost records, and reuses their offsets."""
    a, b, _ = stage.brokers
    await stage.lay_out(a, b, min_insync_replicas=1, unclean_leader_election_enable=True)
    await stage.produce(a, "m0")
    await stage.restart(b)
    await stage.in_sync(a, b, by=a)
    await stage.produce(a, "m1", acks=1)
    await stage.has(b, "m1")
    stage.cut_power(a, keeps="all")
    stage.cut_power(b, keeps="none")
    await stage.start(b)
    await stage.leads(b)
    assert stage.values(b) == ["m0"]
    assert await stage.produce(b, "x1") is ErrorCode.NONE
    assert stage.values(a) == ["m0", "m1"]


async def fast_fail_overs(stage: ScriptedReplicas) -> None:
    """KIP-279: a follower has an epoch that its leader never had, and the leader has an end of the epoch before."""
    a, b, _ = stage.brokers
    await stage.lay_out(a, b, min_insync_replicas=2)
    await stage.produce(a, "m0")
    stage.part(a, b)
    await stage.produce(a, "m1", acks=1)
    stage.part(a, stage.controller)
    await stage.leads(b, after=0)
    await stage.in_sync(b, by=b)
    await stage.produce(b, "x1", acks=1)
    stage.mend(a, stage.controller)
    await stage.follows(a, stage.epoch)
    await trio.sleep(3)  # until it is unfenced again
    stage.kill(b)
    await stage.leads(a, after=1)
    assert [(each.epoch, each.value) for each in stage.log(a)] == [(0, "m0"), (0, "m1")]
    assert [(each.epoch, each.value) for each in stage.log(b)] == [(0, "m0"), (1, "x1")]
    stage.cluster.heal()
    await stage.in_sync(a, b, by=a, within=4)


async def fail_overs_by_turns(stage: ScriptedReplicas) -> None:
    """KIP-279 with several epochs: two logs share only the first epoch, and need a round trip per epoch to find that
    out.
    """
    a, b, _ = stage.brokers
    await stage.lay_out(a, b, min_insync_replicas=2)
    await stage.produce(a, "m0")
    stage.part(a, b)
    for turn in range(3):
        for leader, other in ((a, b), (b, a)):
            await stage.leads(leader)
            await stage.produce(leader, f"{leader}-{turn}-0", f"{leader}-{turn}-1", acks=1)
            epoch = stage.epoch
            stage.reset(leader, stage.controller)
            stage.part(leader, stage.controller)
            await stage.leads(other, after=epoch)
            stage.mend(leader, stage.controller)
            await stage.follows(leader, stage.epoch)
            await trio.sleep(3)  # until it is unfenced again
    assert {each.epoch for each in stage.log(a)} & {each.epoch for each in stage.log(b)} == {0}


async def the_last_replica_standing(stage: ScriptedReplicas) -> None:
    """KIP-966: the ISR shrinks to one broker, which loses all records in a power cut. Others still have the committed
    ones.
    """
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    await stage.produce(a, "m0")
    stage.part(c, a, b, stage.controller)
    await stage.in_sync(a, b, by=a)
    await stage.produce(a, "m1")
    stage.part(b, a, stage.controller)
    await stage.in_sync(a, by=a)
    assert await stage.produce(a, "refused") is ErrorCode.NOT_ENOUGH_REPLICAS
    assert await stage.produce(a, "m2", acks=1) is ErrorCode.NONE
    await stage.consume(a, 0)
    stage.cut_power(a, keeps="none")
    await stage.start(a)
    await trio.sleep(3)
    assert stage.values(a) == []


async def an_unclean_election(stage: ScriptedReplicas) -> None:
    """The only replica in sync is down, and there is no leader until it returns: nothing is lost."""
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=1, unclean_leader_election_enable=True)
    await _lead_alone_and_go(stage, acks=1)
    assert await stage.produce(stage.leader or b, "x1", "x2") is ErrorCode.NONE
    await stage.start(a)


async def a_follower_that_has_not_heard_of_the_leader(stage: ScriptedReplicas) -> None:
    """An unclean election has lost records that a follower considers committed, and it serves before it
    learns of that.
    """
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=1, unclean_leader_election_enable=True)
    await _lead_alone_and_go(stage, acks=1)
    assert await stage.produce(stage.leader or b, "x1") is ErrorCode.NONE
    stage.part(a, b, c)
    await stage.start(a)
    await stage.follows(a, stage.epoch)
    await stage.consume(a, 0)


async def no_unclean_election(stage: ScriptedReplicas) -> None:
    """The only replica in sync is down, and there is no leader until it returns: nothing is lost."""
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=1)
    await _lead_alone_and_go(stage, acks=-1)
    await stage.produce(stage.leader or b, "x1", "x2")
    await stage.start(a)


async def _lead_alone_and_go(stage: ScriptedReplicas, acks: int) -> None:
    """The first broker has records that the others lack, and dies; then the others return."""
    a, b, c = stage.brokers
    await stage.produce(a, "m0")
    stage.part(a, b, c)
    stage.part(stage.controller, b, c)
    await stage.in_sync(a, by=a)
    await stage.produce(a, "m1", "m2", "m3", acks=acks)
    await trio.sleep(CHECKPOINT_SECONDS)
    stage.kill(a)
    stage.cluster.simulation.network.heal()
    await trio.sleep(SESSION_SECONDS)


async def a_leader_out_of_the_controllers_reach(stage: ScriptedReplicas) -> None:
    """Only clients can reach the leader. It never acknowledges its own records, and later truncates them."""
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=1)
    await stage.produce(a, "m0")
    stage.part(a, stage.controller)
    for serial in range(60):
        stage.start_soon(stage.produce, a, f"a{serial}")
        if stage.leader == b:
            stage.start_soon(stage.produce, b, f"b{serial}")
        await stage.consume(a, 0)
        await trio.sleep(1)
    assert stage.leader == b
    assert "a1" in stage.acknowledged
    assert "a59" in stage.values(a)
    assert "b59" in stage.acknowledged


async def a_move_to_another_log_directory(stage: ScriptedReplicas) -> None:
    """KIP-113: every append is flushed, so a power cut of all replicas must not lose what their moves have copied."""
    replicas = stage.brokers[:2]
    await stage.lay_out(*replicas, min_insync_replicas=2, flush_messages=1)
    await stage.produce(replicas[0], "m0", "m1", "m2")
    before = {name: stage.log_directory(name) for name in replicas}
    for name in replicas:
        (destination,) = [path for path in LOG_DIRECTORIES if path != before[name]]
        await stage.move_log_dir(name, destination)
    await stage.until(
        lambda: all(stage.traced("replica_moved", by=name) for name in replicas), f"not all of {replicas} move"
    )
    await trio.sleep(MOVE_SECONDS)
    for name in replicas:
        stage.cut_power(name, keeps="none")
    await stage.start(*replicas)
    assert all(stage.log_directory(name) != before[name] for name in replicas)


@scenario_runs(
    Scenario(
        a_follower_that_knows_less_of_what_is_committed,
        {"followers truncate to the high watermark": Breach("AcknowledgedRecordsStay", [HOLD])},
    ),
    Scenario(two_power_cuts, {"leaders do not detect diverging logs": Breach("LogsAgree", ["ReplicasAreEqual", HOLD])}),
    Scenario(
        fast_fail_overs,
        {
            "leaders answer with epochs that they never had": Breach("LogsAgree", [HOLD]),
            "followers ignore where their own epochs end": Breach("Liveness"),
        },
    ),
    Scenario(fail_overs_by_turns, {"leaders answer with epochs that they never had": Breach("LogsAgree", [HOLD])}),
    Scenario(
        the_last_replica_standing,
        {
            "eligible leader replicas are ignored": Breach("AcknowledgedRecordsStay", ["NoFencedBrokerIsInSync"]),
            "crashes count as clean shutdowns": Breach("AcknowledgedRecordsStay", [HOLD]),
            "the high watermark advances below min.insync.replicas": Breach("ConsumedRecordsStay", [HOLD]),
        },
    ),
    Scenario(an_unclean_election, {"leaders do not detect diverging logs": Breach("LogsAgree", [HOLD])}),
    Scenario(
        a_follower_that_has_not_heard_of_the_leader,
        {"followers serve consumers before they agree with the leader": Breach("ConsumedRecordsStay")},
    ),
    Scenario(
        no_unclean_election, {"elections are unclean": Breach("AcknowledgedRecordsStay", ["CommittedRecordsStay"])}
    ),
    Scenario(
        a_leader_out_of_the_controllers_reach,
        {
            "leaders commit alone": Breach("AcknowledgedRecordsStay", [HOLD]),
            "a proposed ISR counts as decided": Breach("AcknowledgedRecordsStay", ["ReplicasAreEqual"]),
        },
    ),
    Scenario(
        a_move_to_another_log_directory,
        {"copies replace logs before they are durable": Breach("AcknowledgedRecordsStay", ["CommittedRecordsStay"])},
        log_directories=LOG_DIRECTORIES,
    ),
)
def test_replication(scenario_run: ScenarioRun) -> None:
    assert scenario_run.violation() in scenario_run.expected
