"""Classic groups as a kind of group: steps become decisions, records are replayed, timers and sessions start."""

from functools import partial
from typing import Final, Protocol, TypeVar

from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.classic.rebalance import begin_rebalance, restart_session
from broker.coordinator.group.classic.step import Limits, OnDue, Step
from broker.coordinator.group.classic.stored_group import group_from, stored_key, stored_value
from broker.coordinator.group.config import GroupConfig
from broker.coordinator.group.group_kind import Group, GroupKind
from broker.coordinator.group.record_formats import GroupMetadataKey, GroupMetadataValue, encode_key, encode_value
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.coordinator.runtime.shard import OnTimer, ShardContext

T = TypeVar("T")


class ClassicGroupShard(Protocol):
    """The part of a shard that classic groups need."""

    context: ShardContext
    config: GroupConfig
    groups: dict[str, Group]


def begin_step(state: ClassicGroupShard, group: ClassicGroup, now_ms: int) -> Step:
    """A step that begins with the group as it is."""
    limits = Limits(state.config.initial_rebalance_delay_ms, state.config.group_max_size)
    return Step(group.copy(), limits, now_ms)


def decided(state: ClassicGroupShard, step: Step, response: T) -> Decision[T]:
    """The decision that performs the step. The step's responses leave when it is committed."""
    records = []
    if step.is_stored:
        group = step.group
        records.append(CoordinatorRecord(encode_key(stored_key(group.group_id)), encode_value(stored_value(group))))
    return Decision(records, response, partial(_apply_step, state, step))


def _apply_step(state: ClassicGroupShard, step: Step) -> None:
    group, timers = step.group, state.context.timers
    if group.is_blank:
        state.groups.pop(group.group_id, None)
    else:
        state.groups[group.group_id] = group
    for key, timer in step.timers.items():
        if timer is None:
            timers.cancel(key)
        else:
            timers.schedule(key, timer.delay_ms, _on_timer(group.group_id, timer.on_due))
    for waiter, response in step.answers:
        waiter.complete(response)


def _on_timer(group_id: str, on_due: OnDue) -> OnTimer:
    def decide(state: ClassicGroupShard, now_ms: int) -> Decision[None]:
        group = state.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return Decision((), None)
        step = begin_step(state, group, now_ms)
        on_due(step)
        return decided(state, step, None)

    return decide


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
            _apply_step(state, step)


CLASSIC_GROUPS: Final = GroupKind(replay={GroupMetadataKey: _replay}, on_loaded=_on_loaded)
