"""Topics described: by name in pages (KIP-966), by id, or from Metadata where brokers know no pages."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs

from broker.client.admin.acls import authorized_operations
from broker.client.admin.routing import Deadline, Routing
from broker.client.brokers import Broker
from broker.client.errors import ConnectionLost, UnsupportedByBroker, check
from broker.client.every_broker import ask_every_broker
from broker.client.results import Failure, Outcomes, Results, failure
from broker.client.types import Count, Uuid
from broker.wire.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from broker.wire.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation

# Metadata describes topics by id from this version on (KIP-516).
_IDS_SINCE = 12
_NO_LEADER = -1
_ABSENT = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


@attrs.frozen
class PartitionDescription:
    """Node ids of a partition's replicas. `leader` is None while there is none.

    The eligible leader replicas (KIP-966) are None where the brokers do not report them.
    """

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@attrs.frozen
class TopicDescription:
    """`partitions` are sorted by number; `topic_id` has 16 bytes.

    `authorized_operations` is None unless the call asked for it.
    """

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None


_Descriptions: TypeAlias = Outcomes[str | bytes, TopicDescription]


class TopicDescriptionCalls(Routing):
    """Describes topics."""

    async def describe_topics(
        self,
        topics: Iterable[str | Uuid],
        *,
        include_authorized_operations: bool = False,
        partition_limit: Count = 2000,
        timeout_ms: float | None = None,
    ) -> Results[str | bytes, TopicDescription]:
        """Describes topics by name (str) or id (16 bytes), with at most `partition_limit` partitions per request.

        A topic is missing if every broker that can be reached says so: one of them may not know yet of a new topic.
        """

        async def describe(broker: Broker, topics: Iterable[str | bytes]) -> _Descriptions:
            names = [topic for topic in topics if isinstance(topic, str)]
            ids = [topic for topic in topics if isinstance(topic, bytes)]
            outcomes: _Descriptions = {}
            if names:
                outcomes.update(await _describe_names(broker, names, partition_limit, include_authorized_operations))
            if ids:
                outcomes.update(await _describe_ids(broker, ids, include_authorized_operations))
            return outcomes

        async def ask(pending: Sequence[str | bytes], deadline: Deadline, outcomes: _Descriptions) -> None:
            described = await self._ask_once(lambda broker: describe(broker, pending))
            absent = [topic for topic, outcome in described.items() if _is_absent(outcome)]
            if absent and not self._uses_controllers:
                others, _ = await ask_every_broker(self._cluster, lambda broker: describe(broker, absent))
                for other in others:
                    described.update({topic: found for topic, found in other.items() if not _is_absent(found)})
            outcomes.update(described)

        return await self._settle(topics, ask, timeout_ms, is_retried_in_descriptions)


def is_retried_in_descriptions(code: ErrorCode) -> bool:
    """True while a topic's first leaders are being elected. That a topic does not exist is a final answer."""
    return code == ErrorCode.LEADER_NOT_AVAILABLE


def _is_absent(outcome: TopicDescription | Failure) -> bool:
    return isinstance(outcome, KafkaError) and outcome.code in _ABSENT


async def _describe_names(
    broker: Broker, names: Sequence[str], partition_limit: int, has_operations: bool
) -> _Descriptions:
    try:
        broker.version_of(DescribeTopicPartitionsRequest)
    except UnsupportedByBroker:
        asked = [MetadataRequestTopic(name=name) for name in names]
        response = await _ask_for_metadata(broker, asked, has_operations, lowest=0)
        return {topic.name or "": _of_metadata(topic) for topic in response.topics}
    described: dict[str, list[DescribeTopicPartitionsResponseTopic]] = {}
    async for page in _Pages(broker, names, partition_limit):
        for topic in page.topics:
            described.setdefault(topic.name or "", []).append(topic)
    return {name: _of_pages(parts, has_operations) for name, parts in described.items()}


async def _describe_ids(broker: Broker, ids: Sequence[bytes], has_operations: bool) -> _Descriptions:
    asked = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids]
    response = await _ask_for_metadata(broker, asked, has_operations, lowest=_IDS_SINCE)
    return {topic.topic_id: _of_metadata(topic) for topic in response.topics}


async def _ask_for_metadata(
    broker: Broker, topics: list[MetadataRequestTopic], has_operations: bool, lowest: int
) -> MetadataResponse:
    request = MetadataRequest(
        topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=has_operations
    )
    response: MetadataResponse = await broker.call(request, lowest=lowest)
    check(response.error_code)
    return response


class _Pages:
    """The pages of a description, each beginning where the one before it ends."""

    def __init__(self, broker: Broker, names: Sequence[str], partition_limit: int) -> None:
        self._broker = broker
        self._names = sorted(names)
        self._partition_limit = partition_limit
        self._cursor: Cursor | None = None
        self._is_over = False

    def __aiter__(self) -> "_Pages":
        return self

    async def __anext__(self) -> DescribeTopicPartitionsResponse:
        if self._is_over:
            raise StopAsyncIteration
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in self._names],
            response_partition_limit=self._partition_limit,
            cursor=self._cursor,
        )
        response: DescribeTopicPartitionsResponse = await self._broker.call(request)
        self._advance_to(response.next_cursor)
        return response

    def _advance_to(self, cursor: Cursor | None) -> None:
        """Raises ConnectionLost if the broker's cursor does not advance, which would go on for ever."""
        if cursor is None:
            self._is_over = True
            return
        before = self._cursor
        if before is not None and _place(cursor) <= _place(before):
            raise ConnectionLost(f"broker {self._broker.node.id} keeps describing the same partitions")
        self._cursor = cursor
        self._names = [name for name in self._names if name >= cursor.topic_name]


def _place(cursor: Cursor) -> tuple[str, int]:
    return cursor.topic_name, cursor.partition_index


def _of_pages(
    parts: Sequence[DescribeTopicPartitionsResponseTopic], has_operations: bool
) -> TopicDescription | Failure:
    """Joins the parts of a topic that are on several pages."""
    for part in parts:
        error = failure(part.error_code)
        if error is not None:
            return error
    first = parts[0]
    partitions = {each.partition_index: _paged_partition(each) for part in parts for each in part.partitions}
    return TopicDescription(
        name=first.name or "",
        topic_id=first.topic_id,
        is_internal=first.is_internal,
        partitions=tuple(partitions[index] for index in sorted(partitions)),
        # These brokers report the operations unasked.
        authorized_operations=authorized_operations(first.topic_authorized_operations) if has_operations else None,
    )


def _of_metadata(topic: MetadataResponseTopic) -> TopicDescription | Failure:
    error = failure(topic.error_code)
    if error is not None:
        return error
    if topic.name is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    partitions = {each.partition_index: _partition(each) for each in topic.partitions}
    return TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(partitions[index] for index in sorted(partitions)),
        authorized_operations=authorized_operations(topic.topic_authorized_operations),
    )


def _paged_partition(partition: DescribeTopicPartitionsResponsePartition) -> PartitionDescription:
    elr, last_known = partition.eligible_leader_replicas, partition.last_known_elr
    return attrs.evolve(
        _partition(partition),
        eligible_leader_replicas=None if elr is None else tuple(elr),
        last_known_elr=None if last_known is None else tuple(last_known),
    )


def _partition(partition: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        partition=partition.partition_index,
        leader=None if partition.leader_id == _NO_LEADER else partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        offline_replicas=tuple(partition.offline_replicas),
    )
