"""The client of share coordinators: messages to other brokers, repetitions and their end (KIP-932)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.coordinator.broker_connections import BrokerConnections
from broker.coordinator.runtime.completion import Completion, completed, failed
from broker.coordinator.share.share_state import UNINITIALIZED
from broker.coordinator.share.state_client import RETRY_S, UNKNOWN_TOPIC_RETRY_S, ShareStateClient
from broker.net.deadlines import Deadlines
from broker.wire.api.read_share_group_state import PartitionResult as ReadResult
from broker.wire.api.read_share_group_state import ReadShareGroupStateResponse, ReadStateResult, StateBatch
from broker.wire.api.write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image.cluster import BrokerImage
from metadata.records import BrokerEndpoint
from tests.support.scripted_node import ScriptedNode, scripted_node

LOCAL, OTHER, NO_LEADER = 1, 2, -1
GROUP, TOPIC_ID = "group", bytes(15) + b"\1"
LISTENER = "PLAINTEXT"
COUNT = 500
MESSAGE_MAX = 200


class Cluster:
    """A cluster with one share coordinator, on the broker `leader`. Without a topic, no broker is the coordinator yet.

    The coordinator of this broker answers with `local`; `commits` counts turns, `created` attempts to create the topic,
    and `routed` has the times at which the client looked for the coordinator.
    """

    def __init__(self, leader: int) -> None:
        self.topic: Any = SimpleNamespace(partitions={0: SimpleNamespace(leader=leader)})
        self.local: Completion[None] = completed(None)
        self.commits = self.created = 0
        self.routed: list[float] = []
        settings = SimpleNamespace(topic="__share_group_state")
        self.runtime = SimpleNamespace(settings=settings, partition_for=lambda key: 0)

    def write(self, *_: Any) -> Completion[None]:
        return self.local

    async def create_topic(self) -> ErrorCode:
        self.created += 1
        return ErrorCode.INVALID_REPLICATION_FACTOR

    def commit(self) -> None:
        self.commits += 1

    @property
    def image(self) -> Any:
        self.routed.append(trio.current_time())
        topics = {} if self.topic is None else {"__share_group_state": self.topic}
        return SimpleNamespace(topics=SimpleNamespace(by_name=topics))

    @asynccontextmanager
    async def client(self, port: int = 1) -> AsyncIterator[ShareStateClient]:
        endpoint = BrokerEndpoint(LISTENER, "127.0.0.1", port, "PLAINTEXT")
        broker = BrokerImage(OTHER, 1, bytes(16), {LISTENER: endpoint}, {}, None, False, False, ())
        connections = BrokerConnections("broker-1-share", LISTENER, {OTHER: broker}.get, lambda: 2_000)
        deadlines, coordinator = Deadlines(), self
        client = ShareStateClient(
            LOCAL,
            coordinator,  # type: ignore[arg-type]
            lambda: self.image,
            connections,
            self.create_topic,
            deadlines,
            self.commit,
            Random(0),
            lambda kind, /, **fields: None,
        )
        async with trio.open_nursery() as nursery:
            for run in (connections.run, deadlines.run, client.run):
                nursery.start_soon(run)
            yield client
            nursery.cancel_scope.cancel()


def write(client: ShareStateClient, partition: int = 0, group: str = GROUP) -> Completion[None]:
    return client.write(group, TOPIC_ID, partition, 0, 0, UNINITIALIZED, 0, ())


async def outcome(completion: Completion[None]) -> ErrorCode:
    """The error code, or NONE."""
    with trio.fail_after(60):
        found = await completion.wait()
    return found.code if isinstance(found, KafkaError) else ErrorCode.NONE


def places(request: WriteShareGroupStateRequest) -> list[int]:
    return [each.partition for topic in request.topics for each in topic.partitions]


class Answers:
    """The results of another broker: those of the first requests have `codes`, with None for a lost connection."""

    def __init__(self, *codes: ErrorCode | None) -> None:
        self.codes = [*codes]
        self.node: ScriptedNode

    def answer(self, request: WriteShareGroupStateRequest) -> Any:
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code is None:
            self.node.drop_connections()
            return None
        results = [PartitionResult(partition=index, error_code=code) for index in places(request)]
        return WriteShareGroupStateResponse(results=[WriteStateResult(topic_id=TOPIC_ID, partitions=results)])


async def test_requests_of_a_group_that_come_together_share_messages() -> None:
    answers = Answers()
    async with scripted_node(answers.answer) as node, Cluster(OTHER).client(node.port) as client:
        again = [write(client, 3), write(client, 3), write(client, 4, "another")]
        many = [write(client, index) for index in range(10, 10 + COUNT)]
        for each in (*again, *many):
            assert await outcome(each) is ErrorCode.NONE
    by_group = {
        group: [places(each) for each in node.requests if each.group_id == group] for group in (GROUP, "another")
    }
    assert by_group["another"] == [[4]]
    assert sorted(index for each in by_group[GROUP] for index in each) == [3, 3, *range(10, 10 + COUNT)]
    for each in by_group[GROUP]:
        assert len(each) == len(set(each)) <= MESSAGE_MAX, "results are told apart by their partitions"
    assert len(by_group[GROUP]) < COUNT / 10


@pytest.mark.parametrize(("batch_count", "sizes"), [(0, [8, 16, 32, 64]), (2_000, [8, 2, 2, 2])])
async def test_reads_of_large_states_come_in_small_messages(batch_count: int, sizes: list[int]) -> None:
    """200 states of 2,000 batches each take 8 MB, and a broker decoded such a response for 0.7 s."""
    batches = [StateBatch(first_offset=offset, last_offset=offset) for offset in range(batch_count)]

    def answer(request: Any) -> Any:
        read = [ReadResult(partition=index, state_batches=batches) for index in places(request)]
        return ReadShareGroupStateResponse(results=[ReadStateResult(topic_id=TOPIC_ID, partitions=read)])

    async with scripted_node(answer) as node, Cluster(OTHER).client(node.port) as client:
        for read in [client.read(GROUP, TOPIC_ID, index, 0) for index in range(sum(sizes))]:
            state = await read.wait()
            assert len(state.batches) == batch_count
    assert [len(places(request)) for request in node.requests] == sizes


async def test_request_is_repeated_while_its_coordinator_moves_and_is_loaded() -> None:
    moving = (ErrorCode.NOT_COORDINATOR, None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    answers, cluster = Answers(*moving), Cluster(NO_LEADER)
    async with scripted_node(answers.answer) as answers.node, cluster.client(answers.node.port) as client:
        written = write(client)
        while not cluster.commits:
            await trio.lowlevel.checkpoint()
        assert not answers.node.requests
        cluster.topic.partitions[0].leader = OTHER
        assert await outcome(written) is ErrorCode.NONE
        assert len(answers.node.requests) == len(moving) + 1
        answers.codes = [ErrorCode.NOT_COORDINATOR]
        written = write(client)
        await answers.node.wait_for(len(moving) + 2)
        cluster.topic.partitions[0].leader = LOCAL
        assert await outcome(written) is ErrorCode.NONE
        assert len(answers.node.requests) == len(moving) + 2, "this broker coordinates it now"
        assert cluster.commits


async def test_final_errors_are_not_repeated() -> None:
    answers = Answers(ErrorCode.FENCED_LEADER_EPOCH)
    async with scripted_node(answers.answer) as node, Cluster(OTHER).client(node.port) as client:
        assert await outcome(write(client)) is ErrorCode.FENCED_LEADER_EPOCH
        assert len(node.requests) == 1
        node.script = lambda request: WriteShareGroupStateResponse()
        assert await outcome(write(client)) is ErrorCode.UNKNOWN_SERVER_ERROR, "the answer has no result for it"
        out_of_range = client.write(GROUP, TOPIC_ID, 1 << 31, 0, 0, 0, 0, ())
        assert await outcome(out_of_range) is ErrorCode.INVALID_REQUEST


async def test_pauses_of_repetitions_double_up_to_a_second_give_or_take_a_fifth(autojump_clock: MockClock) -> None:
    """Clients whose coordinator fails do not come back at the same moment."""
    cluster = Cluster(NO_LEADER)
    async with cluster.client() as client:
        assert await outcome(write(client)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    pauses = [after - before for before, after in pairwise(cluster.routed)]
    expected = [min(0.02 * 2**attempt, 1.0) for attempt in range(len(pauses))]
    ratios = [pause / each for pause, each in zip(pauses, expected, strict=True)]
    assert 0.79 < min(ratios) < 0.9
    assert 1.1 < max(ratios) < 1.21


async def test_other_tasks_run_between_the_turns_of_many_requests() -> None:
    async with Cluster(LOCAL).client() as client:
        writes = [write(client) for _ in range(100)]
        done = 0
        while done < len(writes):
            await trio.lowlevel.checkpoint()
            before, done = done, sum(each.done for each in writes)
            assert done - before <= 20


async def test_repetitions_end(autojump_clock: MockClock) -> None:
    cluster = Cluster(LOCAL)
    async with cluster.client() as client:
        for code, retry_s in (
            (ErrorCode.NOT_COORDINATOR, RETRY_S),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_RETRY_S),
        ):
            cluster.local, began = failed(KafkaError(code)), trio.current_time()
            assert await outcome(write(client)) is code
            assert retry_s - 2 < trio.current_time() - began <= retry_s
        cluster.topic = None
        assert await outcome(write(client)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert 5 < cluster.created < 50, "each repetition tries to create the topic, at most once per second"
