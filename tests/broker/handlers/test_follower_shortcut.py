"""A follower's requests for one partition take a shortcut within its fetch session, and must get the same responses.

Two nodes get the same requests, and one of them takes no shortcuts. All responses have to be equal.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from broker.node import Dispatchers
from broker.server.context import BrokerContext
from broker.server.dispatch import Dispatcher
from broker.server.handler import Handler
from broker.server.services import Services
from broker.server.session import Session
from broker.wire.api.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.api.delete_topics import DeleteTopicsRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, produce, records_of
from tests.support.running_node import RunningNode, running_node
from tests.support.scripted_follower import FETCH_VERSION, ScriptedFollower, scripted_follower
from tests.support.wire_client import WireClient, connected, only

LEADER, FOLLOWER = 1, 2
PARTITIONS = (0, 1)
ROUNDS = 60
SOON_MS = 20
FOREVER_MS = 600_000


class CountingDispatcher(Dispatcher[Services]):
    """Counts the Fetch requests that the handler serves."""

    learns = True
    fetches = 0

    def carry_out(self, context: BrokerContext, handler: Handler, request: Any, payload: bytes | bytearray) -> Any:
        self.fetches += isinstance(request, FetchRequest)
        return super().carry_out(context, handler, request, payload)

    def may_learn(self, session: Session) -> bool:
        return self.learns and super().may_learn(session)


class Replication:
    """A node with a topic of two partitions, and a follower with a fetch session."""

    def __init__(self, node: RunningNode, dispatcher: CountingDispatcher, follower: ScriptedFollower) -> None:
        self.node = node
        self.dispatcher = dispatcher
        self.follower = follower
        self.client = follower.client
        self.topic_id = b""
        self.ends = dict.fromkeys(PARTITIONS, 0)
        self.session_id = self.session_epoch = 0
        self.producer: WireClient

    async def create_topic(self) -> None:
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=[LEADER, FOLLOWER]) for index in PARTITIONS
        ]
        topic = CreatableTopic(name="topic", num_partitions=-1, replication_factor=-1, assignments=assignments)
        created = only((await self.client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)).topics)
        self.topic_id = created.topic_id

    async def produce(self, index: int) -> None:
        answer = await produce(self.producer, batch(b"value"), index=index, acks=1)
        assert answer.error_code == 0

    async def send_fetch(self, named: Mapping[int, Mapping[str, int]], max_wait_ms: int, epoch: int | None) -> None:
        """Send the session's next request; `named` has fields that differ from the follower's position."""
        partitions = []
        for index, fields in named.items():
            usual = {"current_leader_epoch": 0, "fetch_offset": self.ends[index], "last_fetched_epoch": -1}
            if usual["fetch_offset"]:
                usual["last_fetched_epoch"] = 0
            partitions.append(
                FetchPartition(partition=index, log_start_offset=0, partition_max_bytes=1 << 20, **{**usual, **fields})
            )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=FOLLOWER, replica_epoch=self.follower.broker_epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=10 << 20,
            session_id=self.session_id,
            session_epoch=self.session_epoch if epoch is None else epoch,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=partitions)] if partitions else [],
        )
        await self.client.send(request, FETCH_VERSION)
        if epoch is None and self.session_id:
            session = self.dispatcher.services.fetch_sessions.by_id[self.session_id]
            with trio.fail_after(10):
                while session.epoch == self.session_epoch:  # the request has not arrived
                    await trio.sleep(0.001)

    async def receive(self) -> list[Any]:
        """The error and the partitions of the next response, without ids."""
        response = await self.client.receive()
        if response.error_code == ErrorCode.NONE:
            self.session_id, self.session_epoch = response.session_id, self.session_epoch + 1
        partitions = [each for topic in response.responses for each in topic.partitions]
        for each in partitions:
            if each.records:
                end = records_of(each)[-1].offset + 1
                self.ends[each.partition_index] = max(self.ends[each.partition_index], end)
        shown = [(repr(each).replace(repr(each.records), ""), bytes(each.records or b"")) for each in partitions]
        return [response.error_code, *sorted(shown)]

    async def fetch(
        self, named: Mapping[int, Mapping[str, int]], max_wait_ms: int = 0, epoch: int | None = None
    ) -> list[Any]:
        await self.send_fetch(named, max_wait_ms, epoch)
        return await self.receive()

    async def round(self, index: int) -> list[Any]:
        """Fetch one partition, and produce to it while the request waits."""
        await self.send_fetch({index: {}}, FOREVER_MS, None)
        await self.produce(index)
        return await self.receive()

    async def delete_records(self, index: int, offset: int) -> None:
        partition = DeleteRecordsPartition(partition_index=index, offset=offset)
        topics = [DeleteRecordsTopic(name="topic", partitions=[partition])]
        await self.producer.call(DeleteRecordsRequest(topics=topics, timeout_ms=1), 2)

    async def delete_topic(self) -> None:
        await self.producer.call(DeleteTopicsRequest(topic_names=["topic"], timeout_ms=1_000), 4)


@asynccontextmanager
async def replication(directory: Path, *, learns: bool) -> AsyncIterator[Replication]:
    made: list[CountingDispatcher] = []

    def dispatcher(*arguments: Any, **options: Any) -> CountingDispatcher:
        made.append(CountingDispatcher(*arguments, **options))
        made[-1].learns = learns
        return made[-1]

    async with (
        running_node(directory, dispatchers=Dispatchers(broker=dispatcher), replica_lag_time_max_ms=60_000) as node,
        scripted_follower(node, FOLLOWER) as follower,
        connected(node.port) as producer,
    ):
        replicated = Replication(node, made[0], follower)
        replicated.producer = producer
        await replicated.create_topic()
        await replicated.fetch({index: {} for index in PARTITIONS})
        yield replicated
        assert not node.traced.of("handler_failed")


@pytest.fixture
async def shortened(tmp_path: Path) -> AsyncIterator[Replication]:
    async with replication(tmp_path, learns=True) as replicated:
        yield replicated


async def test_rounds_of_one_partition_after_the_first_take_the_shortcut(shortened: Replication) -> None:
    await shortened.round(0)
    served = shortened.dispatcher.fetches
    for _ in range(5):
        error, (_, records) = await shortened.round(0)
        assert (error, records.count(b"value")) == (ErrorCode.NONE, 1)
    assert shortened.dispatcher.fetches == served
    assert shortened.ends == {0: 6, 1: 0}


async def test_rounds_of_partitions_in_turn_take_the_shortcut_once_each_is_known(shortened: Replication) -> None:
    for _ in range(2):
        for index in PARTITIONS:
            await shortened.round(index)
            await shortened.fetch({index: {}}, SOON_MS)
    served = shortened.dispatcher.fetches
    for index in PARTITIONS:
        await shortened.round(index)
        await shortened.fetch({index: {}}, SOON_MS)
    assert shortened.dispatcher.fetches == served


async def test_request_that_waits_is_forgotten_when_its_connection_closes(shortened: Replication) -> None:
    for _ in range(2):
        await shortened.round(0)
    await shortened.send_fetch({0: {}}, FOREVER_MS, None)
    async with connected(shortened.node.port) as other:
        shortened.client, before = other, shortened.client
        await before._stream.aclose()
        shortened.session_epoch += 1
        await shortened.produce(0)
        error, (_, records) = await shortened.fetch({0: {}}, FOREVER_MS)
    assert (error, records.count(b"value")) == (ErrorCode.NONE, 1)


async def test_fetches_of_a_former_incarnation_are_refused_after_the_shortcut_was_learned(
    shortened: Replication,
) -> None:
    """KIP-903: the former incarnation's records may have been lost since."""
    for _ in range(2):
        await shortened.round(0)
    before = shortened.follower.broker_epoch
    await shortened.follower.heartbeat(want_fence=True)
    await shortened.follower.register()
    shortened.follower.broker_epoch = before
    error, *partitions = await shortened.fetch({0: {}}, FOREVER_MS)
    assert error == ErrorCode.NONE
    assert f"error_code={int(ErrorCode.NOT_LEADER_OR_FOLLOWER)}" in partitions[0][0]


async def test_request_of_an_ended_session_is_refused_whatever_its_epoch(shortened: Replication) -> None:
    """The session ends before it has left its partitions, which takes steps."""
    for _ in range(2):
        await shortened.round(0)
    sessions = shortened.dispatcher.services.fetch_sessions
    session = sessions.by_id[shortened.session_id]
    sessions._remove(session.id)
    error, *partitions = await shortened.fetch({0: {}}, SOON_MS, epoch=session.epoch)
    assert (error, partitions) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


@pytest.mark.parametrize("seed", range(6))
async def test_shortcut_and_handler_give_the_same_responses(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    async with AsyncExitStack() as stack:
        both = [
            await stack.enter_async_context(replication(tmp_path / str(learns), learns=learns))
            for learns in (True, False)
        ]
        for _ in range(ROUNDS):
            responses = [await _step(replicated, Random(step)) for step in [rng.random()] for replicated in both]
            assert responses[0] == responses[1]
            assert both[0].ends == both[1].ends
        waiting = [(await each.send_fetch({0: {}}, FOREVER_MS, None), await each.delete_topic()) for each in both]
        assert len(waiting) == len(both)
        assert await both[0].receive() == await both[1].receive()
        assert both[0].dispatcher.fetches < both[1].dispatcher.fetches


async def _step(replicated: Replication, rng: Random) -> list[Any]:
    """A random step: mostly rounds, and all that may come between them."""
    index = rng.choice(PARTITIONS[:1] * 3 + PARTITIONS)
    kind = rng.choices(
        ["round", "behind", "idle", "other", "both", "none", "refetch", "epoch", "range", "session", "deletion"],
        [12, 4, 2, 2, 2, 1, 1, 1, 1, 1, 1],
    )[0]
    end = replicated.ends[index]
    match kind:
        case "round":
            return await replicated.round(index)
        case "behind":
            await replicated.produce(index)
            return await replicated.fetch({index: {}}, FOREVER_MS)
        case "idle":
            return await replicated.fetch({index: {}}, SOON_MS)
        case "other":
            await replicated.send_fetch({index: {}}, FOREVER_MS, None)
            await replicated.produce(1 - index)
            return await replicated.receive()
        case "both":
            await replicated.produce(index)
            return await replicated.fetch({each: {} for each in PARTITIONS}, FOREVER_MS)
        case "none":
            return await replicated.fetch({}, SOON_MS)
        case "refetch":
            return await replicated.fetch({index: {"fetch_offset": max(end - 1, 0)}}, SOON_MS)
        case "epoch":
            return await replicated.fetch({index: {"current_leader_epoch": rng.choice((-1, 1))}}, SOON_MS)
        case "range":
            return await replicated.fetch({index: {"fetch_offset": end + 1_000}}, SOON_MS)
        case "session":
            return await replicated.fetch({index: {}}, SOON_MS, epoch=replicated.session_epoch + 1)
        case _:
            await replicated.send_fetch({index: {}}, SOON_MS, None)
            await replicated.delete_records(index, end)
            return await replicated.receive()
