"""ConsumerGroupHeartbeat for a group of either kind: a joining consumer turns a classic group into a consumer group."""

from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.consumer.heartbeat import HeartbeatClient, heartbeat, heartbeat_of_member
from broker.coordinator.group.consumer.leaving import fenced
from broker.coordinator.group.consumer.member import JOIN_EPOCH
from broker.coordinator.group.consumer.shard import ConsumerGroupShard
from broker.coordinator.group.mixed.upgrade import upgrade
from broker.coordinator.runtime.decision import Decision
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


def consumer_group_heartbeat(
    shard: ConsumerGroupShard, request: ConsumerGroupHeartbeatRequest, caller: HeartbeatClient, now_ms: int
) -> Decision[ConsumerGroupHeartbeatResponse]:
    """Decides about a heartbeat, and upgrades a classic group that the member joins. Raises CoordinatorError."""
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ClassicGroup) or request.member_epoch < JOIN_EPOCH:
        return heartbeat(shard, request, caller, now_ms)
    if request.member_epoch != JOIN_EPOCH:
        _check_not_replaced(group, request)
        return heartbeat(shard, request, caller, now_ms)
    upgraded = upgrade(group, shard.config.consumer, shard.context.image)
    joined = heartbeat_of_member(shard, upgraded.group, request, caller, now_ms)

    def apply() -> None:
        upgraded.apply(shard)
        if joined.apply is not None:
            joined.apply()

    return Decision([*upgraded.records, *joined.records], joined.response, apply)


def _check_not_replaced(group: ClassicGroup, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raises CoordinatorError if a classic member with the same instance id has replaced the member in the group.

    The error fences the member. With GROUP_ID_NOT_FOUND it would rejoin and replace the classic member, which would
    rejoin in turn, and so on.
    """
    instance_id = request.instance_id
    if instance_id is not None and group.static_members.get(instance_id, request.member_id) != request.member_id:
        raise fenced(request.member_id, instance_id, group.static_members[instance_id])
