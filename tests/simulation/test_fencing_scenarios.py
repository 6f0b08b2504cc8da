"""Requests name the leader epoch and the end of the client's log, and are refused if these are outdated (KIP-320,
KIP-595).
"""

import attrs
import trio

from broker.wire.errors import ErrorCode
from tests.simulation.scenarios import Breach, Scenario, ScenarioRun, scenario_runs
from tests.simulation.scripted_clients import NONE, records_of
from tests.simulation.scripted_replicas import GLANCE_SECONDS, ScriptedReplicas

HOLD = "InSyncReplicasHoldWhatIsCommitted"


@attrs.define
class EpochConsumer:
    """A consumer that continues at its position.

    `seen` has the values by offset; `leader_epoch` is the epoch from its metadata, `last_epoch` that of the last
    record.
    """

    stage: ScriptedReplicas
    leader_epoch: int = 0
    last_epoch: int = NONE
    seen: dict[int, str] = attrs.field(factory=dict)

    @property
    def position(self) -> int:
        return max(self.seen, default=-1) + 1

    async def poll(self, name: str) -> ErrorCode:
        """Fetch the next records, if this broker has the same leader epoch."""
        data = await self.stage.fetch(name, self.position, leader_epoch=self.leader_epoch)
        assert data is not None
        for record in records_of(data):
            self.seen[record.offset], self.last_epoch = record.value, record.epoch
        return ErrorCode(data.error_code)

    async def validate(self, name: str) -> None:
        """Get the new leader epoch, ask the leader for the end of the last record's epoch, and go back to there."""
        told = await self.stage.described(name)
        assert told is not None
        self.leader_epoch = told.leader_epoch
        answer = await self.stage.epoch_end(name, self.last_epoch, leader_epoch=self.leader_epoch)
        assert answer.error_code == 0
        self.go_back_to(answer.end_offset)

    def go_back_to(self, offset: int) -> None:
        self.seen = {at: value for at, value in self.seen.items() if at < offset}

    def check(self, name: str) -> None:
        """Check that the consumer has seen all records."""
        stored = {record.offset: record.value for record in self.stage.log(name)}
        if self.seen != stored:
            self.stage.fail(f"ConsumersSeeAllThereIs: {stored}, and not {self.seen}")


async def _lose_what_was_consumed(stage: ScriptedReplicas) -> EpochConsumer:
    """The first broker is down, and some records that a consumer has read are lost; the second one leads
    without them.
    """
    a, b, _ = stage.brokers
    await stage.lay_out(a, b, min_insync_replicas=1, unclean_leader_election_enable=True)
    await stage.produce(a, "m0")
    stage.part(b, a, stage.controller)
    await stage.in_sync(a, by=a)
    await stage.produce(a, "m1", "m2", acks=1)
    consumer = EpochConsumer(stage)
    assert await consumer.poll(a) is ErrorCode.NONE
    assert list(consumer.seen.values()) == ["m0", "m1", "m2"]
    stage.kill(a)
    stage.mend(b, a, stage.controller)
    await stage.leads(b)
    await stage.produce(b, "x1", "x2", "x3")
    return consumer


async def a_consumer_is_fenced(stage: ScriptedReplicas) -> None:
    """The consumer fetches with an old leader epoch, is fenced, and asks the new leader where its epoch ended."""
    _, b, _ = stage.brokers
    consumer = await _lose_what_was_consumed(stage)
    if await consumer.poll(b) is ErrorCode.FENCED_LEADER_EPOCH:
        await consumer.validate(b)
        await consumer.poll(b)
    consumer.check(b)


async def a_consumer_hears_where_logs_part(stage: ScriptedReplicas) -> None:
    """The consumer sends the epoch of its last record with every fetch (KIP-595)."""
    _, b, _ = stage.brokers
    consumer = await _lose_what_was_consumed(stage)
    data = await stage.fetch(b, consumer.position, last_epoch=consumer.last_epoch)
    assert data is not None
    if data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
        consumer.go_back_to(data.diverging_epoch.end_offset)
    consumer.leader_epoch = NONE
    await consumer.poll(b)
    consumer.check(b)


async def a_consumer_knows_more_than_a_leader(stage: ScriptedReplicas) -> None:
    """A deposed leader continues alone, because it is the whole ISR that it knows; its successor was not in sync."""
    a, b, _ = stage.brokers
    await stage.lay_out(a, b, min_insync_replicas=1, unclean_leader_election_enable=True)
    await stage.produce(a, "m0")
    stage.part(b, a, stage.controller)
    await stage.in_sync(a, by=a)
    stage.part(a, stage.controller)
    stage.mend(b, stage.controller)
    await stage.leads(b)
    await stage.produce(b, "x1", acks=1)
    consumer = EpochConsumer(stage)
    await consumer.poll(a)
    await consumer.validate(b)
    await stage.produce(a, "m1", acks=1)
    await consumer.poll(a)
    await consumer.poll(b)
    consumer.check(b)


async def a_leader_knows_less_than_a_consumer(stage: ScriptedReplicas) -> None:
    """KIP-207: until a new leader knows what was committed before, it returns an error instead of a lower offset."""
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    await stage.produce(a, "m0")
    stage.start_soon(stage.produce, a, "m1")
    await stage.until(lambda: stage.holds(b, "m1") and stage.holds(c, "m1"), "m1 is not replicated", GLANCE_SECONDS)
    stage.cut(a, b, c)
    await stage.acknowledges("m1")
    assert await stage.latest_offset(a) == 2
    stage.part(b, c)
    stage.kill(a)
    await stage.leads(b)
    offset = await stage.latest_offset(b)
    if offset is not None and offset < 2:
        stage.fail(f"OffsetsDoNotGoBack: from 2 to {offset}")
    stage.mend(b, c)
    await stage.until(lambda: stage.is_connected(c, b), f"{c} does not fetch from {b}")
    await trio.sleep(1)
    assert await stage.latest_offset(b) == 2


async def a_follower_knows_less_than_its_leader(stage: ScriptedReplicas) -> None:
    """The follower uses an outdated epoch, and would be counted as in sync. It does not know of a leader in between.

    That leader is still alive, has a different record at the same offset, and makes the follower truncate its log.
    """
    a, b, c = stage.brokers
    await stage.lay_out(b, a, c, min_insync_replicas=2)
    await stage.produce(b, "m0")
    stage.kill(b)
    await stage.leads(a)
    await stage.start(b)
    await stage.in_sync(a, b, c, by=a)
    stage.part(a, b)
    await stage.produce(a, "m1", acks=1)
    await stage.has(c, "m1")
    written = len(stage.traced("log_written", by=c))
    stage.start_soon(stage.elect_preferred, a)
    await stage.until(
        lambda: len(stage.traced("log_written", by=c)) > written, f"{c} hears of no election", GLANCE_SECONDS
    )
    stage.cut(stage.controller, c)  # before it learns that the election is committed
    await stage.leads(b, after=1)
    between = stage.epoch
    await stage.produce(b, "x1", acks=1)
    stage.reset(b, stage.controller)
    stage.part(b, stage.controller)
    await stage.leads(a, after=between)
    await trio.sleep(0.5)
    await stage.consume(a, 0)
    stage.mend(stage.controller, c)
    await stage.follows(c, between, every=GLANCE_SECONDS)
    stage.cut(stage.controller, c)
    await stage.has(c, "x1")
    stage.kill(a)
    stage.mend(stage.controller, c)
    await stage.leads(c)


@scenario_runs(
    Scenario(
        a_consumer_is_fenced,
        {
            "fetches of any leader epoch are served": Breach("ConsumersSeeAllThereIs"),
            "every epoch ends at the log end": Breach("ConsumersSeeAllThereIs"),
        },
    ),
    Scenario(
        a_consumer_hears_where_logs_part, {"leaders do not detect diverging logs": Breach("ConsumersSeeAllThereIs")}
    ),
    Scenario(
        a_consumer_knows_more_than_a_leader,
        {"fetches of any leader epoch are served": Breach("ConsumersSeeAllThereIs")},
        is_watched=False,  # after an unclean election, two leaders may commit different records for a while
    ),
    Scenario(
        a_leader_knows_less_than_a_consumer,
        {"leaders list offsets before they know the high watermark": Breach("OffsetsDoNotGoBack")},
    ),
    Scenario(
        a_follower_knows_less_than_its_leader,
        {"fetches of any leader epoch are served": Breach("ConsumedRecordsStay", [HOLD])},
    ),
)
def test_fencing(scenario_run: ScenarioRun) -> None:
    assert scenario_run.violation() in scenario_run.expected
