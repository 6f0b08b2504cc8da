"""With sequence numbers, every record is stored once, despite leader changes and truncations."""

from functools import partial

from broker.wire.errors import ErrorCode
from tests.simulation.scenarios import Breach, Scenario, ScenarioRun, scenario_runs
from tests.simulation.scripted_clients import PRODUCE_VERSION, IdempotentProducer
from tests.simulation.scripted_replicas import ScriptedReplicas


async def an_acknowledgement_is_lost(stage: ScriptedReplicas) -> None:
    """The leader dies before it responds, and the producer sends the same record to its successor."""
    a, b, c = stage.brokers
    producer = IdempotentProducer(7)
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    await stage.produce(a, "m0", producer=producer)
    stage.start_soon(partial(stage.produce, a, "m1", producer=producer))
    await stage.has(b, "m1")
    stage.cut(a, stage.client.name)
    await stage.has(c, "m1")
    stage.kill(a)
    await stage.leads(b)
    if await stage.produce(b, "m1", "m2", producer=producer) is not ErrorCode.NONE:
        stage.fail("SessionsGoOn: though nothing was lost")


async def sequences_are_cut_off(stage: ScriptedReplicas) -> None:
    """An isolated leader accepts records that are truncated later. When it leads again, it accepts the same records
    again.
    """
    a, b, c = stage.brokers
    producer = IdempotentProducer(7)
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    await stage.produce(a, "m0", producer=producer)
    stage.part(a, b, c, stage.controller)
    stage.reset(a, stage.controller)
    await stage.produce(a, "m1", "m2", "m3", producer=producer)
    await stage.leads(b)
    await stage.produce(b, "x1")
    assert stage.values(a) == ["m0", "m1", "m2", "m3"]
    stage.mend(a, b, c, stage.controller)
    await stage.in_sync(a, b, c, by=b)
    stage.kill(b)
    await stage.leads(a, after=1)
    if await stage.produce(a, "m1", producer=producer) is not ErrorCode.NONE:
        stage.fail("SessionsGoOn: though nothing was lost")


async def the_second_batch_is_the_first_to_come(stage: ScriptedReplicas) -> None:
    """Two batches are sent to a broker that is about to lead, and the first one arrives before it does
    (KAFKA-15591).
    """
    a, b, c = stage.brokers
    producer = IdempotentProducer(7)
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    await stage.produce(a, "x0")
    first, second = stage.produce_request("m0", producer=producer), stage.produce_request("m1", producer=producer)
    connection = await stage.connect(b)
    await stage.ask_over(connection, first, PRODUCE_VERSION)
    stage.kill(a)
    await stage.leads(b)
    await stage.ask_over(connection, second, PRODUCE_VERSION)
    if [await stage.produce(b, each, producer=producer) for each in ("m0", "m1", "m2")] != [ErrorCode.NONE] * 3:
        stage.fail("SessionsGoOn: though nothing was lost")


@scenario_runs(
    Scenario(an_acknowledgement_is_lost, {"followers keep no producer states": Breach("NothingIsThereTwice")}),
    Scenario(
        sequences_are_cut_off,
        {"truncation keeps producer states": Breach("AcknowledgedRecordsStay")},
    ),
    Scenario(
        the_second_batch_is_the_first_to_come, {"batches after refused ones are accepted": Breach("SessionsGoOn")}
    ),
)
def test_idempotence(scenario_run: ScenarioRun) -> None:
    assert scenario_run.violation() in scenario_run.expected
