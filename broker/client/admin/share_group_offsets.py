"""The start offsets of share groups: listed with the lag, altered, deleted (KIP-932, KIP-1226)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from broker.client.admin.routing import Deadline, Routing, by_topic
from broker.client.brokers import Broker
from broker.client.errors import check, is_stale_coordinator
from broker.client.results import Failure, Outcomes, Results, failure, missing, outcome_of
from broker.client.types import TopicPartition
from broker.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from broker.wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from broker.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
)
from broker.wire.errors import KafkaError
from kraft import lazy_attrs

_NOTHING: Final = -1


@lazy_attrs.frozen
class ShareGroupOffset:
    """The first offset of a partition whose record a share group has yet to complete.

    `lag` is the number of records that it has yet to complete; None if brokers do not report it.
    """

    start_offset: int
    leader_epoch: int
    lag: int | None


ShareGroupOffsets: TypeAlias = Results[TopicPartition, ShareGroupOffset | None]
"""The start offsets of a share group by partition; None for a partition without one."""


class ShareGroupOffsetCalls(Routing):
    """Calls on the start offsets of share groups."""

    async def list_share_group_offsets(
        self, groups: Mapping[str, Iterable[TopicPartition] | None], *, timeout_ms: float | None = None
    ) -> Results[str, ShareGroupOffsets]:
        """Returns the start offsets of share groups, each with the partitions of interest (None: all that it has).

        The offset of a partition is None if the group has none, as before its first record is delivered.
        """
        wanted = {group_id: None if each is None else list(each) for group_id, each in groups.items()}

        async def ask(broker: Broker, pending: Sequence[str], deadline: Deadline) -> Outcomes[str, ShareGroupOffsets]:
            request = DescribeShareGroupOffsetsRequest(
                groups=[
                    DescribeShareGroupOffsetsRequestGroup(group_id=each, topics=_asked(wanted[each]))
                    for each in pending
                ]
            )
            response: DescribeShareGroupOffsetsResponse = await broker.call(request)
            return {group.group_id: _described(group) for group in response.groups}

        return await self._by_coordinator(wanted, ask, timeout_ms)

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> Results[TopicPartition, None]:
        """Sets start offsets of a share group that has no members; a group that does not exist is created.

        Raises KafkaError.
        """
        topics = [
            AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=each.partition, start_offset=offsets[each])
                    for each in partitions
                ],
            )
            for topic, partitions in by_topic(offsets).items()
        ]

        async def ask(
            broker: Broker, pending: Sequence[str], deadline: Deadline
        ) -> Outcomes[str, Results[TopicPartition, None]]:
            request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
            response: AlterShareGroupOffsetsResponse = await broker.call(request)
            check(response.error_code, response.error_message)
            found = {
                TopicPartition(topic.topic_name, each.partition_index): failure(each.error_code, each.error_message)
                for topic in response.responses
                for each in topic.partitions
            }
            results: Results[TopicPartition, None] = Results({each: found.get(each, missing(each)) for each in offsets})
            return {group_id: _waiting(results.failed.values()) or results}

        return (await self._by_coordinator([group_id], ask, timeout_ms)).value(group_id)

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, None]:
        """Removes topics from a share group that has no members. The results are by topic. Raises KafkaError."""
        names = list(dict.fromkeys(topics))

        async def ask(broker: Broker, pending: Sequence[str], deadline: Deadline) -> Outcomes[str, Results[str, None]]:
            request = DeleteShareGroupOffsetsRequest(
                group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=each) for each in names]
            )
            response: DeleteShareGroupOffsetsResponse = await broker.call(request)
            check(response.error_code, response.error_message)
            found = {each.topic_name: failure(each.error_code, each.error_message) for each in response.responses}
            results: Results[str, None] = Results({each: found.get(each, missing(each)) for each in names})
            return {group_id: _waiting(results.failed.values()) or results}

        return (await self._by_coordinator([group_id], ask, timeout_ms)).value(group_id)


def _asked(partitions: Sequence[TopicPartition] | None) -> list[DescribeShareGroupOffsetsRequestTopic] | None:
    if partitions is None:
        return None
    return [
        DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[each.partition for each in of_topic])
        for topic, of_topic in by_topic(partitions).items()
    ]


def _described(group: DescribeShareGroupOffsetsResponseGroup) -> ShareGroupOffsets | Failure:
    error = failure(group.error_code, group.error_message)
    if error is not None:
        return error
    results: ShareGroupOffsets = Results(
        {
            TopicPartition(topic.topic_name, each.partition_index): outcome_of(
                each.error_code, each.error_message, _offset(each)
            )
            for topic in group.topics
            for each in topic.partitions
        }
    )
    return _waiting(results.failed.values()) or results


def _offset(partition: DescribeShareGroupOffsetsResponsePartition) -> ShareGroupOffset | None:
    if partition.start_offset == _NOTHING:
        return None
    lag = None if partition.lag == _NOTHING else partition.lag
    return ShareGroupOffset(partition.start_offset, partition.leader_epoch, lag)


def _waiting(errors: Iterable[Failure]) -> Failure | None:
    """Returns the first error of a coordinator that is being replaced or loaded, after which the call is repeated."""
    return next((error for error in errors if isinstance(error, KafkaError) and is_stale_coordinator(error.code)), None)
