"""The interface of share groups for handlers (KIP-932): the group coordinator's part of it."""

from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from broker.config import KafkaConfig
from broker.coordinator.group.config import ShareGroupConfig
from broker.coordinator.group.partition_sets import PartitionSets
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.group.share.description import describe_share_group
from broker.coordinator.group.share.heartbeat import (
    HeartbeatOutcome,
    ShareHeartbeatClient,
    share_group_heartbeat,
    validate,
)
from broker.coordinator.group.share.offsets import (
    STEP_ITEMS,
    UNKNOWN_PARTITION,
    alter_offsets,
    delete_offsets,
    delete_states,
    initialized_partitions,
    start_offsets,
)
from broker.coordinator.group.share.share_group import ShareGroup
from broker.coordinator.group.share_states import ShareStates
from broker.coordinator.runtime.completion import Completion, failed, gather
from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.runtime import CoordinatorRuntime
from broker.coordinator.share.share_state import UNINITIALIZED, PartitionSummary
from broker.net.completion import Completion as CompletionOf
from broker.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponseTopic,
)
from broker.wire.api.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic
from broker.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from broker.wire.api.share_group_describe import DescribedGroup
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import MetadataImage, TopicImage
from metadata.request_context import RequestContext

T = TypeVar("T")

# Work of a handler that yields what it waits for, and None between steps; see `broker.server.scheduler`.
Work: TypeAlias = Generator[Coroutine[Any, Any, Any] | None, Any, T]
# The number of topics or partitions that are looked up in one step: some 0.1 ms.
_STEP_PLACES: Final = 256
# The number of groups in one decision about the deletion of their states: some 2 ms with 500 partitions each.
_DELETED_AT_ONCE: Final = 8

NO_OFFSET: Final = -1
_NO_LAG: Final = -1
_NOT_SERVED: Final = "This cluster has no share groups (KIP-932): share.version is 0. Consume with a consumer group."
_NO_COUNT: Final = -1
# Errors of a share coordinator that cannot answer now. Kafka answers other errors like these with no offset, too, so
# that a state that is missing for a moment looks as if the group had never consumed.
_UNAVAILABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class Ends(Protocol):
    """Looks up the ends of partitions; see `broker.coordinator.latest_offsets.LatestOffsets`."""

    async def of(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int | KafkaError]: ...


class ShareGroups:
    """Routes requests about share groups to the shard of the group, and to the share coordinator.

    `config` returns the configuration in force, `image` the metadata. `is_served` is true if the cluster's
    share.version allows share groups. Callers ask `refusal` first. `rebalance_count` counts the heartbeats that have
    increased the epoch of their group.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupCoordinatorShard],
        states: ShareStates,
        ends: Ends,
        config: Callable[[], KafkaConfig],
        image: Callable[[], MetadataImage],
        *,
        is_served: Callable[[], bool],
        commit: Callable[[], None],
    ) -> None:
        self.states = states
        self._runtime = runtime
        self._ends = ends
        self._config = config
        self._image = image
        self._is_served = is_served
        self._commit = commit
        self.rebalance_count = 0
        self._known: tuple[KafkaConfig, ShareGroupConfig] | None = None

    def _share_config(self) -> ShareGroupConfig:
        """The broker's configs in force, which are read again when they have changed."""
        config = self._config()
        if self._known is None or self._known[0] is not config:
            self._known = config, ShareGroupConfig.of(config)
        return self._known[1]

    def refusal(self) -> KafkaError | None:
        """The error for all requests if the cluster's `share.version` is 0. Handlers ask before they authorize, as
        Kafka does.
        """
        return None if self._is_served() else KafkaError(ErrorCode.UNSUPPORTED_VERSION, _NOT_SERVED)

    # Members

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, context: RequestContext
    ) -> Completion[ShareGroupHeartbeatResponse]:
        """Completes with the member's epoch, and with its assignment if that has changed."""
        client = ShareHeartbeatClient(
            client_id=context.client_id or "", client_host=f"/{context.client_host}", config=self._share_config()
        )

        def decide(state: GroupCoordinatorShard, now_ms: int) -> Decision[HeartbeatOutcome]:
            validate(request)
            return share_group_heartbeat(state, request, client, now_ms)

        response: Completion[ShareGroupHeartbeatResponse] = CompletionOf()
        decided = self._runtime.write(self._runtime.partition_for(request.group_id), decide)
        decided.then(partial(self._complete_heartbeat, response))
        return response

    def _complete_heartbeat(
        self,
        response: Completion[ShareGroupHeartbeatResponse],
        outcome: HeartbeatOutcome | KafkaError,
    ) -> None:
        if isinstance(outcome, KafkaError):
            response.complete(outcome)
            return
        self.rebalance_count += outcome.changes_epoch
        if outcome.initialization is not None:
            self.states.begin_initialization(outcome.initialization)
        response.complete(outcome.response)

    def describe(self, group_id: str) -> Completion[DescribedGroup]:
        """Completes with the description of a share group."""
        if not group_id:
            return failed(KafkaError(ErrorCode.INVALID_GROUP_ID))
        partition = self._runtime.partition_for(group_id)
        return self._runtime.read(partition, lambda state, now_ms: describe_share_group(state, group_id))

    # Offsets

    def describe_offsets(
        self, group_id: str, topics: Sequence[DescribeShareGroupOffsetsRequestTopic] | None
    ) -> Work[list[DescribeShareGroupOffsetsResponseTopic]]:
        """The start offset and the lag of partitions: of these, or, with None, of all that the group has.

        A partition without an offset has offset -1. Raises KafkaError.
        """
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        initialized = yield self._read(group_id, lambda state: initialized_partitions(state, group_id))
        images = self._image().topics
        wanted: list[tuple[TopicImage, Sequence[int]]] = []
        unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
        if topics is None:
            known = ((images.by_id.get(topic_id), indexes) for topic_id, indexes in initialized.items())
            wanted = [(image, sorted(indexes)) for image, indexes in known if image is not None]
        for number, topic in enumerate(topics or (), 1):
            image = images.by_name.get(topic.topic_name)
            if image is not None:
                wanted.append((image, list(dict.fromkeys(topic.partitions))))
            else:
                unknown.append((yield from _without_offsets(topic.topic_name, topic.partitions)))
            if not number % STEP_ITEMS:
                yield None
        described = yield from self._described(group_id, wanted)
        return described + unknown

    def _described(
        self, group_id: str, wanted: Sequence[tuple[TopicImage, Sequence[int]]]
    ) -> Work[list[DescribeShareGroupOffsetsResponseTopic]]:
        places = yield from _existing(wanted)
        summaries = yield self.states.summaries(group_id, places)
        names = {image.topic_id: image.name for image, _ in wanted}
        ends = yield self._ends.of(
            (names[topic_id], index)
            for (topic_id, index), summary in summaries.items()
            if not isinstance(summary, KafkaError) and _has_lag(summary)
        )
        described = []
        for number, (image, indexes) in enumerate(wanted, 1):
            topic = DescribeShareGroupOffsetsResponseTopic(topic_name=image.name, topic_id=image.topic_id)
            for index in indexes:
                summary, end = summaries.get((image.topic_id, index)), ends.get((image.name, index))
                topic.partitions.append(_described_partition(index, summary, end))
                if not len(topic.partitions) % STEP_ITEMS:
                    yield None
            described.append(topic)
            if not number % STEP_ITEMS:
                yield None
        return described

    def alter_offsets(
        self, group_id: str, topics: Sequence[AlterShareGroupOffsetsRequestTopic]
    ) -> Work[list[AlterShareGroupOffsetsResponseTopic]]:
        """Sets start offsets of a group without members, which may be a new one. Raises KafkaError."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        responses, offsets = yield from start_offsets(topics, self._image())
        initialization = yield self._write(
            group_id, lambda state, now_ms: alter_offsets(state, group_id, offsets, now_ms)
        )
        errors = (yield self.states.initialize(initialization)) if offsets else {}
        for topic in responses if errors else ():
            for number, each in enumerate(topic.partitions, 1):
                error = errors.get((topic.topic_id, each.partition_index))
                if error is not None and each.error_code == ErrorCode.NONE:
                    each.error_code, each.error_message = error.code, error.message or None
                if not number % STEP_ITEMS:
                    yield None
            yield None
        return responses

    def delete_offsets(
        self, group_id: str, topic_names: Sequence[str]
    ) -> Work[list[DeleteShareGroupOffsetsResponseTopic]]:
        """Removes topics from a group without members. Raises KafkaError."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        names = list(dict.fromkeys(topic_names))
        existing = yield from _existing_topics(names, self._image())
        partitions, without = yield self._write(
            group_id, lambda state, now_ms: delete_offsets(state, group_id, existing)
        )
        errors = (yield self.states.delete(group_id, partitions)) if partitions else {}
        topics = self._image().topics
        responses = []
        for number, name in enumerate(names, 1):
            image = topics.by_name.get(name)
            error = errors.get(b"" if image is None else image.topic_id)
            if image is None:
                error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION)
            elif name in without:
                error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")
            responses.append(_deleted(name, image, error))
            if not number % STEP_ITEMS:
                yield None
        return responses

    # Deletion

    def has_any(self, group_ids: Iterable[str]) -> bool:
        """True if one of these groups is a share group that this broker coordinates."""
        wanted = list(group_ids)
        return any(
            isinstance(state.groups.get(group_id), ShareGroup)
            for state in self._runtime.active_states
            for group_id in wanted
        )

    def delete_states(self, group_ids: Sequence[str]) -> Work[dict[str, KafkaError]]:
        """Deletes all states of those groups that are share groups, before the groups themselves are deleted. Returns
        the errors of groups that must not be deleted now.
        """
        by_partition: dict[int, list[str]] = {}
        for group_id in group_ids:
            by_partition.setdefault(self._runtime.partition_for(group_id), []).append(group_id)
        portions, decided = list[list[str]](), []
        for partition, theirs in by_partition.items():
            for first in range(0, len(theirs), _DELETED_AT_ONCE):
                portions.append(theirs[first : first + _DELETED_AT_ONCE])
                decided.append(self._runtime.write(partition, partial(_delete_states, portions[-1])))
                yield None
        errors: dict[str, KafkaError] = {}
        for theirs, outcome in zip(portions, (yield gather(decided).wait()), strict=True):
            if isinstance(outcome, KafkaError):
                errors.update(dict.fromkeys(theirs, outcome))
                continue
            for group_id, partitions in outcome.items():
                error = partitions if isinstance(partitions, KafkaError) else (yield self._delete(group_id, partitions))
                if error is not None:
                    errors[group_id] = error
        return errors

    async def _delete(self, group_id: str, partitions: PartitionSets) -> KafkaError | None:
        return next(iter((await self.states.delete(group_id, partitions)).values()), None) if partitions else None

    # Shards

    async def _write(self, group_id: str, decide: Callable[[GroupCoordinatorShard, int], Decision[T]]) -> T:
        completion = self._runtime.write(self._runtime.partition_for(group_id), decide)
        self._commit()
        outcome = await completion.wait()
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    async def _read(self, group_id: str, ask: Callable[[GroupCoordinatorShard], T]) -> T:
        return await self._write(group_id, lambda state, now_ms: Decision((), ask(state)))


def _delete_states(
    group_ids: list[str], state: GroupCoordinatorShard, now_ms: int
) -> Decision[dict[str, PartitionSets | KafkaError]]:
    return delete_states(state, group_ids)


def _existing(wanted: Iterable[tuple[TopicImage, Sequence[int]]]) -> Work[dict[tuple[bytes, int], None]]:
    """The partitions that exist, each once, in the order in which they are asked for."""
    places: dict[tuple[bytes, int], None] = {}
    count = 0
    for image, indexes in wanted:
        for index in indexes:
            if index in image.partitions:
                places[image.topic_id, index] = None
            count += 1
            if not count % _STEP_PLACES:
                yield None
    return places


def _existing_topics(names: Iterable[str], image: MetadataImage) -> Work[list[str]]:
    existing = []
    for number, name in enumerate(names, 1):
        if name in image.topics.by_name:
            existing.append(name)
        if not number % _STEP_PLACES:
            yield None
    return existing


def _has_lag(summary: PartitionSummary) -> bool:
    return summary.start_offset != UNINITIALIZED and summary.delivery_complete_count != _NO_COUNT


def _described_partition(
    index: int, summary: PartitionSummary | KafkaError | None, end: int | KafkaError | None
) -> DescribeShareGroupOffsetsResponsePartition:
    """The lag is the number of records that the group has yet to complete (KIP-1226)."""
    described = DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NO_OFFSET, lag=_NO_LAG)
    error = next((each for each in (summary, end) if isinstance(each, KafkaError)), None)
    if error is not None and (error is end or error.code in _UNAVAILABLE):
        described.error_code, described.error_message = error.code, error.message or None
    elif isinstance(summary, PartitionSummary):
        described.start_offset, described.leader_epoch = summary.start_offset, summary.leader_epoch
        if isinstance(end, int):
            described.lag = max(end - summary.start_offset - summary.delivery_complete_count, 0)
    return described


def _without_offsets(name: str, partitions: Iterable[int]) -> Work[DescribeShareGroupOffsetsResponseTopic]:
    topic = DescribeShareGroupOffsetsResponseTopic(topic_name=name)
    for index in partitions:
        topic.partitions.append(
            DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NO_OFFSET)
        )
        if not len(topic.partitions) % STEP_ITEMS:
            yield None
    return topic


def _deleted(name: str, image: TopicImage | None, error: KafkaError | None) -> DeleteShareGroupOffsetsResponseTopic:
    response = DeleteShareGroupOffsetsResponseTopic(topic_name=name)
    if image is not None:
        response.topic_id = image.topic_id
    if error is not None:
        response.error_code, response.error_message = error.code, error.message or None
    return response
