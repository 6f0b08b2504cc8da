"""Brokers with scripted responses to consumers. Requests without a script are answered from a small log."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from broker.client import Consumer
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersion
from broker.wire.api.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from broker.wire.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from broker.wire.errors import ErrorCode
from broker.wire.records import Record, encode_batch
from tests.support.scripted_node import ScriptedNode, scripted_node
from tests.support.topics_for_consumers import ZERO

TOPIC_ID = b"t" * 16
FETCH = 1
FAST = {
    "retry_backoff_ms": 5,
    "reconnect_backoff_ms": 5,
    "request_timeout_ms": 2_000,
    "fetch_max_wait_ms": 20,
    "auto_offset_reset": "earliest",
}
Answer = FetchResponse | Awaitable[FetchResponse]
Answers = Callable[["ScriptedBroker", FetchRequest], Answer | None]


def batch(first: int, count: int, **fields: Any) -> bytes:
    records = [Record(value=b"%d" % each) for each in range(first, first + count)]
    return encode_batch(records, **{"base_offset": first, "leader_epoch": 0, **fields})


@attrs.define
class ScriptedBroker:
    """One broker of a cluster. It leads partition 0 of "topic" if it is `leader_id`, and answers Fetch from `answers`.

    It answers other requests from `log`, in a session.
    """

    node: ScriptedNode
    answers: Answers
    node_id: int = 1
    brokers: dict[int, int] = attrs.field(factory=dict)
    leader_id: int = 1
    log: list[bytes] = attrs.field(factory=list)
    fetches: list[FetchRequest] = attrs.field(factory=list)
    session_id: int = 7
    offset: int = 0
    topic_error: ErrorCode = ErrorCode.NONE
    topic_id: bytes = TOPIC_ID
    partition_count: int = 1

    async def answer(self, request: Any) -> Any:
        if isinstance(request, MetadataRequest):
            return self._metadata()
        if isinstance(request, ListOffsetsRequest):
            found = ListOffsetsPartitionResponse(partition_index=0, offset=0, leader_epoch=0)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="topic", partitions=[found])])
        if isinstance(request, OffsetForLeaderEpochRequest):
            end = EpochEndOffset(partition=0, leader_epoch=0, end_offset=10_000)
            return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="topic", partitions=[end])])
        assert isinstance(request, FetchRequest)
        self.fetches.append(request)
        for topic in request.topics:
            self.offset = topic.partitions[0].fetch_offset
        answer = self.answers(self, request)
        if isinstance(answer, Awaitable):
            answer = await answer
        return answer or await self.from_log(request)

    def _metadata(self) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=self.leader_id, leader_epoch=0)
            for index in range(self.partition_count)
        ]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=port)
                for node_id, port in self.brokers.items()
            ],
            controller_id=1,
            topics=[
                MetadataResponseTopic(
                    name="topic",
                    topic_id=self.topic_id,
                    error_code=self.topic_error,
                    partitions=[] if self.topic_error else partitions,
                )
            ],
        )

    async def from_log(self, request: FetchRequest) -> FetchResponse:
        if request.session_epoch == -1:
            return FetchResponse()
        if self.offset < len(self.log):
            return self.response(PartitionData(records=self.log[self.offset], high_watermark=len(self.log)))
        await trio.sleep(request.max_wait_ms / 1000)
        return self.response() if request.session_epoch else self.response(PartitionData())

    def response(self, *parts: PartitionData, **fields: Any) -> FetchResponse:
        topic = FetchableTopicResponse(topic_id=self.topic_id, topic="topic", partitions=list(parts))
        return FetchResponse(session_id=self.session_id, responses=[topic] if parts else [], **fields)


@asynccontextmanager
async def brokers(*answers: Answers, fetch_versions: tuple[int, int] = (4, 18)) -> AsyncIterator[list[ScriptedBroker]]:
    """Brokers 1, 2, ...; broker 1 leads, and has three batches of one record each."""
    made: list[ScriptedBroker] = []
    async with trio.open_nursery() as nursery:
        stop = trio.Event()

        async def serve(node_id: int, script: Answers, *, task_status: trio.TaskStatus[None]) -> None:
            async with scripted_node(lambda request: made[node_id - 1].answer(request)) as node:
                node.api_versions = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
                fetch = next(each for each in node.api_versions if each.api_key == FETCH)
                fetch.min_version, fetch.max_version = fetch_versions
                made.append(ScriptedBroker(node, script, node_id, log=[batch(each, 1) for each in range(3)]))
                task_status.started()
                await stop.wait()

        for node_id, script in enumerate(answers, 1):
            await nursery.start(serve, node_id, script)
        for broker in made:
            broker.brokers = {each.node_id: each.node.port for each in made}
        yield made
        stop.set()


@asynccontextmanager
async def consumer_of(broker: ScriptedBroker, **settings: Any) -> AsyncIterator[Consumer]:
    async with Consumer(broker.node.address, **{**FAST, **settings}) as consumer:
        consumer.assign([ZERO])
        yield consumer


def answer_from_log(broker: ScriptedBroker, request: FetchRequest) -> None:
    return None


def once(broker_answer: Callable[[ScriptedBroker, FetchRequest], Answer], *, at: int = 0) -> Answers:
    """Give this answer to the Fetch number `at`, and answer all others from the log."""

    def answer(broker: ScriptedBroker, request: FetchRequest) -> Answer | None:
        return broker_answer(broker, request) if len(broker.fetches) == at + 1 else None

    return answer


def refusal(code: ErrorCode, **fields: Any) -> Callable[[ScriptedBroker, FetchRequest], FetchResponse]:
    return lambda broker, _: broker.response(PartitionData(error_code=code, **fields))
