"""The group coordinator's interface for handlers: each method completes with the parts of a response, or an error."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from broker.config import KafkaConfig
from broker.coordinator.group.administration import (
    delete_groups,
    describe_consumer_group,
    describe_group,
    list_groups,
)
from broker.coordinator.group.classic.requests import JoiningClient
from broker.coordinator.group.consumer.heartbeat import HeartbeatClient
from broker.coordinator.group.consumer.heartbeat import validate as validate_heartbeat
from broker.coordinator.group.mixed.classic_requests import (
    heartbeat,
    join_group,
    leave_group,
    new_member_id,
    sync_group,
)
from broker.coordinator.group.mixed.upgrade import consumer_group_heartbeat
from broker.coordinator.group.offsets.requests import (
    Committer,
    OffsetToCommit,
    commit_offsets,
    committed_partitions,
    delete_offsets,
    fetch_offsets,
)
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.runtime.completion import Completion, Gathered, failed, gather
from broker.coordinator.runtime.decision import Decision, Producer
from broker.coordinator.runtime.runtime import CoordinatorRuntime
from broker.wire.api.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from broker.wire.api.describe_groups import DescribedGroup
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from broker.wire.api.leave_group import MemberIdentity
from broker.wire.api.list_groups import ListedGroup
from broker.wire.api.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.uuids import encode_uuid, new_uuid
from metadata.request_context import RequestContext

_MEMBER_ID_NEEDED_FROM: Final = 4
_SKIPPING_FROM: Final = 9
_CONSUMER_PROTOCOL: Final = "consumer"

T = TypeVar("T")


class GroupCoordinator:
    """Routes requests to the shard of their group.

    `config` returns the configuration in force; `rng` makes member ids. `has_consumer_groups` is true if the cluster's
    group.version allows consumer groups.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupCoordinatorShard],
        config: Callable[[], KafkaConfig],
        rng: Random,
        *,
        has_consumer_groups: Callable[[], bool],
    ) -> None:
        self.runtime = runtime
        self._config = config
        self._rng = rng
        self._has_consumer_groups = has_consumer_groups

    def _write(self, group_id: str, decide: Callable[[GroupCoordinatorShard, int], Decision[T]]) -> Completion[T]:
        return self.runtime.write(self.runtime.partition_for(group_id), decide)

    def _park(
        self, group_id: str, decide: Callable[[GroupCoordinatorShard, int], Decision[Completion[T]]]
    ) -> Completion[T]:
        """As `_write`, for a response that the state parks: it completes later, with what the state completes it."""
        completion: Completion[Any] = self._write(group_id, decide)
        return completion

    def _read(self, group_id: str, ask: Callable[[GroupCoordinatorShard, int], T]) -> Completion[T]:
        return self.runtime.read(self.runtime.partition_for(group_id), ask)

    # Classic groups

    def join_group(self, request: JoinGroupRequest, context: RequestContext) -> Completion[JoinGroupResponse]:
        """Completes when the generation begins that the member belongs to."""
        if not request.group_id:
            return failed(KafkaError(ErrorCode.INVALID_GROUP_ID))
        config = self._config()
        shortest_ms, longest_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not shortest_ms <= request.session_timeout_ms <= longest_ms:
            return failed(KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT))
        client_id = context.client_id or ""
        joiner = JoiningClient(
            client_id=client_id,
            client_host=_java_host(context),
            new_member_id=new_member_id(request.group_instance_id or client_id, self._rng.getrandbits(128)),
            needs_member_id=context.api_version >= _MEMBER_ID_NEEDED_FROM,
            can_skip_assignment=context.api_version >= _SKIPPING_FROM,
            topic_filter=context.topic_filter,
        )
        return self._park(request.group_id, lambda state, now_ms: join_group(state, request, joiner, now_ms))

    def sync_group(self, request: SyncGroupRequest) -> Completion[SyncGroupResponse]:
        """Completes when the leader has sent the assignment."""
        return self._park(request.group_id, lambda state, now_ms: sync_group(state, request, now_ms))

    def heartbeat(self, request: HeartbeatRequest) -> Completion[ErrorCode]:
        """Completes with NONE, REBALANCE_IN_PROGRESS if the member has to join again, or an error."""
        return self._write(request.group_id, lambda state, now_ms: heartbeat(state, request))

    def leave_group(self, group_id: str, members: Sequence[MemberIdentity]) -> Completion[list[ErrorCode]]:
        """Completes with an error code for each of the members."""
        return self._write(group_id, lambda state, now_ms: leave_group(state, group_id, members, now_ms))

    def describe_group(self, group_id: str) -> Completion[DescribedGroup]:
        """Completes with the description of a classic group."""
        return self._read(group_id, lambda state, now_ms: describe_group(state, group_id))

    def list_groups(
        self, states: Collection[str], types: Collection[str], partition: int
    ) -> Completion[list[ListedGroup]]:
        """Completes with the groups of a partition that this broker coordinates. The filters are in lower case."""
        return self.runtime.read(partition, lambda state, now_ms: list_groups(state, states, types))

    def delete_groups(self, group_ids: Sequence[str]) -> tuple[list[list[str]], Gathered[dict[str, ErrorCode]]]:
        """Returns the group ids by partition, and a completion with the outcome of each partition in the same order."""
        by_partition: dict[int, list[str]] = {}
        for group_id in group_ids:
            by_partition.setdefault(self.runtime.partition_for(group_id), []).append(group_id)
        completions = [
            self.runtime.write(partition, partial(delete_groups, group_ids=theirs))
            for partition, theirs in by_partition.items()
        ]
        return list(by_partition.values()), gather(completions)

    # Groups of the consumer protocol

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> Completion[ConsumerGroupHeartbeatResponse]:
        """Completes with the member's epoch, and with its assignment if that has changed (KIP-848)."""
        if not self._serves_consumer_groups():
            return failed(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
        new_id = "" if request.member_id else encode_uuid(new_uuid(self._rng.randbytes))
        client_id, api_version = context.client_id or "", context.api_version
        caller = HeartbeatClient(
            client_id=client_id,
            client_host=_java_host(context),
            new_member_id=new_id,
            topic_filter=context.topic_filter,
        )

        def decide(state: GroupCoordinatorShard, now_ms: int) -> Decision[ConsumerGroupHeartbeatResponse]:
            validate_heartbeat(request, api_version, state.config.consumer.assignors)
            return consumer_group_heartbeat(state, request, caller, now_ms)

        return self._write(request.group_id, decide)

    def consumer_group_describe(self, group_id: str) -> Completion[DescribedConsumerGroup]:
        """Completes with the description of a consumer group."""
        if not self._serves_consumer_groups():
            return failed(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
        if not group_id:
            return failed(KafkaError(ErrorCode.INVALID_GROUP_ID))
        return self._read(group_id, lambda state, now_ms: describe_consumer_group(state, group_id))

    def _serves_consumer_groups(self) -> bool:
        protocols = self._config().group_coordinator_rebalance_protocols
        return _CONSUMER_PROTOCOL in protocols and self._has_consumer_groups()

    # Offsets

    def offset_commit(
        self,
        committer: Committer,
        offsets: Sequence[OffsetToCommit],
        retention_time_ms: int,
        producer: Producer | None = None,
    ) -> Completion[list[ErrorCode]]:
        """Completes with an error code for each of the offsets. With a `producer` they are part of its transaction."""
        return self._write(
            committer.group_id,
            lambda state, now_ms: commit_offsets(state, committer, offsets, retention_time_ms, now_ms, producer),
        )

    def offset_fetch(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool, only_committed: bool = False
    ) -> Completion[OffsetFetchResponseGroup]:
        """Completes with the committed offsets of the topics that the request names; see `fetch_offsets`."""
        return self._read(
            request.group_id,
            lambda state, now_ms: fetch_offsets(
                state, request, require_stable=require_stable, only_committed=only_committed
            ),
        )

    def committed_partitions(self, request: OffsetFetchRequestGroup) -> Completion[list[OffsetFetchRequestTopics]]:
        """Completes with all partitions for which the request's group has committed offsets."""
        return self._read(request.group_id, lambda state, now_ms: committed_partitions(state, request))

    def offset_delete(self, group_id: str, partitions: Sequence[tuple[str, int]]) -> Completion[list[ErrorCode]]:
        """Completes with an error code for each of the partitions."""
        return self._write(group_id, lambda state, now_ms: delete_offsets(state, group_id, partitions))


def _java_host(context: RequestContext) -> str:
    """The client's address as Java prints it, which is what groups are described with."""
    return f"/{context.client_host}"
