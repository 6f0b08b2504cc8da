"""Classic groups as a kind of group: how their records are replayed, and how their sessions start."""

from typing import Final

from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.classic.decisions import ClassicGroupShard, apply_step, begin_step
from broker.coordinator.group.classic.rebalance import begin_rebalance, restart_session
from broker.coordinator.group.classic.stored_group import group_from
from broker.coordinator.group.group_kind import Group, GroupKind
from broker.coordinator.group.record_formats import GroupMetadataKey, GroupMetadataValue


def _replay(groups: dict[str, Group], key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    if value is not None:
        groups[key.group] = group_from(key.group, value)
    elif isinstance(groups.get(key.group), ClassicGroup):
        del groups[key.group]


def _on_loaded(state: ClassicGroupShard, now_ms: int) -> None:
    """Starts new sessions for all members, since only their former coordinator knows their last heartbeats.

    A group begins a rebalance if it has more members than `group.max.size` now allows: the last ones to join are
    refused. A group without a leader begins one too.
    """
    for group in list(state.groups.values()):
        if isinstance(group, ClassicGroup) and group.members:
            step = begin_step(state, group, now_ms)
            for member in group.members.values():
                restart_session(step, member)
            if group.leader_id is None or len(group.members) > step.limits.members_max:
                begin_rebalance(step)
            assert not step.is_stored, "a group with members is written when its leader has assigned"
            apply_step(state, step)


CLASSIC_GROUPS: Final = GroupKind(replay={GroupMetadataKey: _replay}, on_loaded=_on_loaded)
