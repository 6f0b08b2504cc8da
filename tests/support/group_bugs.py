"""Bugs to plant into coordinators of groups; see `planted_bugs`."""

from math import inf
from typing import Any

from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.consumer import reconciliation
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.runtime.hosted_shard import HostedShard
from broker.coordinator.runtime.partition_writer import PartitionWriter
from broker.coordinator.runtime.runtime import CoordinatorRuntime
from broker.wire.errors import ErrorCode
from tests.support.planted_bugs import Bug, PatchedFunction, PatchedFunctions, always, does_nothing


def _replay_before_append(perform: Any) -> Any:
    """Replay the records of a decision before their append, which may fail."""

    def wrong(shard: HostedShard[Any], decision: Any, now_ms: int) -> None:
        for record in decision.records:
            shard.state.replay(record.key, record.value, shard.end_offset)
        perform(shard, decision, now_ms)

    return wrong


def _ignore_generation(validate_offset_commit: Any) -> Any:
    def wrong(group: ClassicGroup, member_id: str, instance_id: str | None, epoch: int, **request: Any) -> Any:
        epoch = group.generation if epoch >= 0 else epoch
        return validate_offset_commit(group, member_id, instance_id, epoch, **request)

    return wrong


def _admit_replaced_members(member_error: Any) -> Any:
    def wrong(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
        error: ErrorCode = member_error(group, member_id, instance_id)
        return ErrorCode.NONE if error is ErrorCode.FENCED_INSTANCE_ID else error

    return wrong


def _ignore_member_epoch(validate_offset_commit: Any) -> Any:
    def wrong(group: ConsumerGroup, member_id: str, instance_id: str | None, epoch: int, **request: Any) -> Any:
        member = group.members.get(member_id)
        epoch = epoch if member is None else member.member_epoch
        return validate_offset_commit(group, member_id, instance_id, epoch, **request)

    return wrong


def _ignore_owners(step: Any) -> Any:
    def wrong(member: ConsumerMember, epoch: int, target: Any, owner_of: Any, owned: Any) -> Any:
        return step(member, epoch, target, lambda topic_id, index: None, owned)

    return wrong


GROUP_BUGS: dict[str, Bug] = {
    "responses leave before their records are committed": PatchedFunction(
        PartitionWriter, "committed_end", always(inf)
    ),
    "decisions are replayed before they are appended": PatchedFunction(HostedShard, "_perform", _replay_before_append),
    "deposed coordinators are not fenced": PatchedFunctions(
        PatchedFunction(HostedShard, "is_fenced", always(False)),
        PatchedFunction(CoordinatorRuntime, "_unload", does_nothing),
    ),
    "commits of any generation are accepted": PatchedFunction(
        ClassicGroup, "validate_offset_commit", _ignore_generation
    ),
    "static members are not fenced": PatchedFunction(ClassicGroup, "member_error", _admit_replaced_members),
    "commits of any member epoch are accepted": PatchedFunction(
        ConsumerGroup, "validate_offset_commit", _ignore_member_epoch
    ),
    "partitions are assigned before they are revoked": PatchedFunction(reconciliation, "_next", _ignore_owners),
}
