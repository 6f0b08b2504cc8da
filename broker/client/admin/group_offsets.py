"""The offsets that groups have committed: listed, altered, deleted (KIP-496, KIP-709)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from broker.client.admin.routing import Deadline, Routing, by_topic
from broker.client.brokers import Broker
from broker.client.errors import check, is_stale_coordinator
from broker.client.results import Failure, Outcomes, Results, failure, missing, outcome_of
from broker.client.types import OffsetAndMetadata, TopicPartition
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from broker.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from broker.wire.errors import ErrorCode, KafkaError

GroupOffsets: TypeAlias = Results[TopicPartition, OffsetAndMetadata | None]
"""The committed offsets of a group by partition; None for a partition without one."""

# From version 8 on OffsetFetch takes many groups (KIP-709), from 10 on topics by id, which this call does not know.
_MANY_GROUPS_SINCE: Final = 8
_NAMES_UNTIL: Final = 9
# OffsetFetch takes null for all partitions (KIP-88), and waits for transactions (KIP-447), from these versions on.
_ALL_SINCE: Final = 2
_STABLE_SINCE: Final = 7
_NOTHING: Final = -1
_UNSTABLE: Final = (ErrorCode.UNSTABLE_OFFSET_COMMIT,)

V = TypeVar("V")


class GroupOffsetCalls(Routing):
    """Calls on committed offsets."""

    async def list_group_offsets(
        self,
        groups: Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, GroupOffsets]:
        """Returns the offsets of groups, each with the partitions of interest (None: all with an offset).

        The offset of a partition is None if the group has committed none. With `require_stable`, a partition with an
        open transaction has no offset until the transaction ends: UNSTABLE_OFFSET_COMMIT is retried.
        """
        wanted = {group_id: None if each is None else list(each) for group_id, each in groups.items()}

        async def ask(broker: Broker, pending: Sequence[str], deadline: Deadline) -> Outcomes[str, GroupOffsets]:
            lowest = max(_STABLE_SINCE if require_stable else 1, _ALL_SINCE if None in wanted.values() else 1)
            version = broker.version_of(OffsetFetchRequest, lowest=lowest, highest=_NAMES_UNTIL)
            if version >= _MANY_GROUPS_SINCE:
                return await _fetch_groups(broker, {each: wanted[each] for each in pending}, require_stable, version)
            outcomes: Outcomes[str, GroupOffsets] = {}
            for group_id in pending:
                outcomes[group_id] = await _fetch_group(broker, group_id, wanted[group_id], require_stable, version)
            return outcomes

        return await self._by_coordinator(wanted, ask, timeout_ms)

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Sets offsets of a group that has no members; a group that does not exist is created. Raises KafkaError."""
        topics = [
            OffsetCommitRequestTopic(
                name=topic, partitions=[_commit(partition, offsets[partition]) for partition in partitions]
            )
            for topic, partitions in by_topic(offsets).items()
        ]

        async def ask(
            broker: Broker, pending: Sequence[str], deadline: Deadline
        ) -> Outcomes[str, Results[TopicPartition, None]]:
            request = OffsetCommitRequest(group_id=group_id, topics=topics)
            response: OffsetCommitResponse = await broker.call(request, highest=_NAMES_UNTIL)
            return _by_group(
                group_id,
                offsets,
                {
                    TopicPartition(topic.name, each.partition_index): failure(each.error_code)
                    for topic in response.topics
                    for each in topic.partitions
                },
            )

        return (await self._by_coordinator([group_id], ask, timeout_ms)).value(group_id)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> Results[TopicPartition, None]:
        """Deletes offsets of a group, of topics that no member of it subscribes to. Raises KafkaError."""
        wanted = list(dict.fromkeys(partitions))
        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=each.partition) for each in of_topic],
            )
            for topic, of_topic in by_topic(wanted).items()
        ]

        async def ask(
            broker: Broker, pending: Sequence[str], deadline: Deadline
        ) -> Outcomes[str, Results[TopicPartition, None]]:
            response: OffsetDeleteResponse = await broker.call(OffsetDeleteRequest(group_id=group_id, topics=topics))
            check(response.error_code)
            return _by_group(
                group_id,
                wanted,
                {
                    TopicPartition(topic.name, each.partition_index): failure(each.error_code)
                    for topic in response.topics
                    for each in topic.partitions
                },
            )

        return (await self._by_coordinator([group_id], ask, timeout_ms)).value(group_id)


async def _fetch_groups(
    broker: Broker, groups: Mapping[str, Sequence[TopicPartition] | None], require_stable: bool, version: int
) -> Outcomes[str, GroupOffsets]:
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id=group_id, topics=_asked(partitions))
            for group_id, partitions in groups.items()
        ],
        require_stable=require_stable,
    )
    response: OffsetFetchResponse = await broker.call(request, version=version)
    return {
        group.group_id: _fetched(
            group.error_code,
            {
                TopicPartition(topic.name, each.partition_index): each
                for topic in group.topics
                for each in topic.partitions
            },
        )
        for group in response.groups
    }


async def _fetch_group(
    broker: Broker, group_id: str, partitions: Sequence[TopicPartition] | None, require_stable: bool, version: int
) -> GroupOffsets | Failure:
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if partitions is None
        else [
            OffsetFetchRequestTopic(name=topic, partition_indexes=[each.partition for each in of_topic])
            for topic, of_topic in by_topic(partitions).items()
        ],
        require_stable=require_stable,
    )
    response: OffsetFetchResponse = await broker.call(request, version=version)
    return _fetched(
        response.error_code,
        {
            TopicPartition(topic.name, each.partition_index): each
            for topic in response.topics
            for each in topic.partitions
        },
    )


def _asked(partitions: Sequence[TopicPartition] | None) -> list[OffsetFetchRequestTopics] | None:
    if partitions is None:
        return None
    return [
        OffsetFetchRequestTopics(name=topic, partition_indexes=[each.partition for each in of_topic])
        for topic, of_topic in by_topic(partitions).items()
    ]


def _fetched(
    code: int, partitions: Mapping[TopicPartition, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]
) -> GroupOffsets | Failure:
    error = failure(code)
    if error is not None:
        return error
    results: GroupOffsets = Results(
        {
            partition: outcome_of(
                each.error_code,
                None,
                None
                if each.committed_offset == _NOTHING
                else OffsetAndMetadata(
                    each.committed_offset,
                    None if each.committed_leader_epoch < 0 else each.committed_leader_epoch,
                    each.metadata or "",
                ),
            )
            for partition, each in partitions.items()
        }
    )
    return _waiting(results) or results


def _by_group(
    group_id: str, asked: Iterable[TopicPartition], outcomes: Mapping[TopicPartition, Failure | None]
) -> Outcomes[str, Results[TopicPartition, None]]:
    results: Results[TopicPartition, None] = Results({each: outcomes.get(each, missing(each)) for each in asked})
    return {group_id: _waiting(results) or results}


def _waiting(results: Results[TopicPartition, V]) -> Failure | None:
    """Returns the first retriable error: of the coordinator, or UNSTABLE_OFFSET_COMMIT of an open transaction."""
    for error in results.failed.values():
        if isinstance(error, KafkaError) and (is_stale_coordinator(error.code) or error.code in _UNSTABLE):
            return error
    return None


def _commit(partition: TopicPartition, offset: OffsetAndMetadata | int) -> OffsetCommitRequestPartition:
    committed = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
    return OffsetCommitRequestPartition(
        partition_index=partition.partition,
        committed_offset=committed.offset,
        committed_leader_epoch=_NOTHING if committed.leader_epoch is None else committed.leader_epoch,
        committed_metadata=committed.metadata,
    )
