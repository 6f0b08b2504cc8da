"""Brokers with scripted responses to share consumers: leaders of "topic", and the coordinator of the group."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from broker.client import ShareConsumer
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersion
from broker.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from broker.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.api.share_acknowledge import (
    PartitionData as AcknowledgedPartition,
)
from broker.wire.api.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from broker.wire.api.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from broker.wire.api.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.support.scripted_broker import TOPIC_ID, batch
from tests.support.scripted_node import ScriptedNode, scripted_node

Answers = Callable[[Any], Any]
SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79
LOCK_MS = 30_000
FAST: dict[str, Any] = {
    "group_id": "g",
    "retry_backoff_ms": 5,
    "reconnect_backoff_ms": 5,
    "request_timeout_ms": 2_000,
    "fetch_max_wait_ms": 20,
    "default_api_timeout_ms": 2_000,
}


@attrs.define(eq=False)
class ShareLeaders:
    """The scripted cluster. `leaders` has the node id of the leader of each partition.

    `available` has what the next ShareFetch of a partition returns. Before that, `answers` may respond to any request.
    """

    leaders: list[int]
    answers: Answers = lambda request: None
    nodes: dict[int, ScriptedNode] = attrs.field(factory=dict)
    available: dict[int, PartitionData] = attrs.field(factory=dict)
    sessions: dict[int, set[int]] = attrs.field(factory=dict)
    requests: list[tuple[int, Any]] = attrs.field(factory=list)
    lock_ms: int = LOCK_MS
    stored: trio.Event = attrs.field(factory=trio.Event)

    def store(self, partition: int, first: int, count: int, *, delivery_count: int = 1, **fields: Any) -> None:
        """Makes records available, which one ShareFetch acquires."""
        acquired = AcquiredRecords(first_offset=first, last_offset=first + count - 1, delivery_count=delivery_count)
        data = PartitionData(
            partition_index=partition, records=batch(first, count), acquired_records=[acquired], **fields
        )
        self.available[partition] = data
        self.stored.set()

    def fetches(self, node_id: int = 1) -> list[ShareFetchRequest]:
        return [request for at, request in self.requests if at == node_id and isinstance(request, ShareFetchRequest)]

    def acknowledgements(self, node_id: int = 1) -> list[ShareAcknowledgeRequest]:
        of_class = ShareAcknowledgeRequest
        return [request for at, request in self.requests if at == node_id and isinstance(request, of_class)]

    def outcomes(self, node_id: int = 1) -> list[tuple[str, int, int, list[int]]]:
        """The acknowledgements: the request, the first and the last offset, and the types."""
        return [
            (type(request).__name__, each.first_offset, each.last_offset, each.acknowledge_types)
            for at, request in self.requests
            if at == node_id and isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest)
            for topic in request.topics
            for partition in topic.partitions
            for each in partition.acknowledgement_batches
        ]

    async def answer(self, node_id: int, request: Any) -> Any:
        self.requests.append((node_id, request))
        if isinstance(request, ShareFetchRequest):
            self._note_session(node_id, request)
        answer = self.answers(request)
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer is not None:
            return answer
        if isinstance(request, MetadataRequest):
            return self._metadata()
        if isinstance(request, FindCoordinatorRequest):
            found = Coordinator(key=request.coordinator_keys[0], node_id=1, host="127.0.0.1", port=self.nodes[1].port)
            return FindCoordinatorResponse(coordinators=[found])
        if isinstance(request, ShareGroupHeartbeatRequest):
            return self._heartbeat(request)
        if isinstance(request, ShareAcknowledgeRequest):
            return acknowledged(request, acquisition_lock_timeout_ms=self.lock_ms)
        assert isinstance(request, ShareFetchRequest)
        return await self._fetched(node_id, request)

    def _metadata(self) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=0)
            for index, leader in enumerate(self.leaders)
        ]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=node.port)
                for node_id, node in self.nodes.items()
            ],
            controller_id=1,
            topics=[MetadataResponseTopic(name="topic", topic_id=TOPIC_ID, partitions=partitions)],
        )

    def _heartbeat(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        if request.member_epoch < 0:
            return ShareGroupHeartbeatResponse(member_epoch=request.member_epoch)
        assigned = TopicPartitions(topic_id=TOPIC_ID, partitions=list(range(len(self.leaders))))
        return ShareGroupHeartbeatResponse(
            member_epoch=1, heartbeat_interval_ms=100, assignment=Assignment(topic_partitions=[assigned])
        )

    def _note_session(self, node_id: int, request: ShareFetchRequest) -> None:
        if request.share_session_epoch == 0:
            self.sessions[node_id] = set()
        session = self.sessions[node_id]
        session.update(each.partition_index for topic in request.topics for each in topic.partitions)
        for forgotten in request.forgotten_topics_data:
            session.difference_update(forgotten.partitions)

    async def _fetched(self, node_id: int, request: ShareFetchRequest) -> ShareFetchResponse:
        session = self.sessions[node_id]
        acknowledged_ones = {
            each.partition_index
            for topic in request.topics
            for each in topic.partitions
            if each.acknowledgement_batches
        }
        with trio.move_on_after(request.max_wait_ms / 1000):
            while not session & set(self.available):
                self.stored = trio.Event()
                await self.stored.wait()
        parts = [self.available.pop(each) for each in sorted(session) if each in self.available]
        named = {each.partition_index for each in parts}
        parts += [PartitionData(partition_index=each) for each in sorted(acknowledged_ones - named)]
        return fetched(*parts, acquisition_lock_timeout_ms=self.lock_ms)


def fetched(*parts: PartitionData, **fields: Any) -> ShareFetchResponse:
    topic = ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(parts))
    return ShareFetchResponse(responses=[topic] if parts else [], **fields)


def acknowledged(request: ShareAcknowledgeRequest, code: int = 0, **fields: Any) -> ShareAcknowledgeResponse:
    topics = [
        ShareAcknowledgeTopicResponse(
            topic_id=topic.topic_id,
            partitions=[
                AcknowledgedPartition(partition_index=each.partition_index, error_code=code)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ShareAcknowledgeResponse(responses=topics, **fields)


def first_of(request_class: type[Any], answer: Callable[[Any], Any], *, at: int = 0, times: int = 1) -> Answers:
    """Gives this answer to the requests of a class from number `at` on, so often."""
    seen = 0

    def answers(request: Any) -> Any:
        nonlocal seen
        if not isinstance(request, request_class):
            return None
        seen += 1
        return answer(request) if at < seen <= at + times else None

    return answers


@asynccontextmanager
async def share_leaders(
    leaders: Iterable[int] = (1,), *, answers: Answers = lambda request: None, versions: tuple[int, int] = (1, 2)
) -> AsyncIterator[ShareLeaders]:
    """Brokers 1, 2, ... that lead partitions of "topic". `versions` are those of ShareFetch and ShareAcknowledge."""
    cluster = ShareLeaders(list(leaders), answers)
    async with trio.open_nursery() as nursery:
        stop = trio.Event()

        async def serve(node_id: int, *, task_status: trio.TaskStatus[None]) -> None:
            async with scripted_node(lambda request: cluster.answer(node_id, request)) as node:
                node.api_versions = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
                for each in node.api_versions:
                    if each.api_key in (SHARE_FETCH, SHARE_ACKNOWLEDGE):
                        each.min_version, each.max_version = versions
                cluster.nodes[node_id] = node
                task_status.started()
                await stop.wait()

        for node_id in range(1, max(cluster.leaders) + 1):
            await nursery.start(serve, node_id)
        yield cluster
        stop.set()


@asynccontextmanager
async def share_consumer_of(cluster: ShareLeaders, **settings: Any) -> AsyncIterator[ShareConsumer]:
    async with ShareConsumer(cluster.nodes[1].address, topics=["topic"], **{**FAST, **settings}) as consumer:
        yield consumer
