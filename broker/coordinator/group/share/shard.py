"""The part of a shard of groups that share groups need."""

from collections.abc import Hashable
from typing import Protocol

from broker.coordinator.group.config import GroupConfig, ShareGroupConfig
from broker.coordinator.group.group_kind import Group
from broker.coordinator.group.share.share_group import ShareGroup
from broker.coordinator.runtime.shard import ShardContext
from broker.wire.errors import ErrorCode, KafkaError


class ShareGroupShard(Protocol):
    """The part of a shard that share groups need."""

    context: ShardContext
    config: GroupConfig
    groups: dict[str, Group]

    def is_simple(self, group_id: str) -> bool:
        """True if the group has offsets, and neither members nor metadata."""
        ...


def share_group(state: ShareGroupShard, group_id: str) -> ShareGroup:
    """The share group of this id. Raises KafkaError if there is none."""
    group = state.groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    if group is None and not state.is_simple(group_id):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")


def share_group_or_new(state: ShareGroupShard, group_id: str) -> ShareGroup:
    """The share group of this id, or a new one, which its first records create. Raises KafkaError if a group of
    another type has the id.
    """
    if group_id not in state.groups and not state.is_simple(group_id):
        return ShareGroup(group_id)
    return share_group(state, group_id)


def config_of(state: ShareGroupShard, group_id: str, broker: ShareGroupConfig) -> ShareGroupConfig:
    """The configs in force for this group: its own where they are set, otherwise the broker's."""
    return broker.of_group(state.context.image.configs.group(group_id))


def session_key(group_id: str, member_id: str) -> Hashable:
    """The key of the timer that ends a member's session."""
    return "share-session", group_id, member_id
