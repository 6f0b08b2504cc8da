"""Turns steps of classic groups into decisions of a shard, and timers into steps."""

from functools import partial
from typing import Protocol, TypeVar

from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.classic.step import Limits, OnDue, Step
from broker.coordinator.group.classic.stored_group import stored_key, stored_value
from broker.coordinator.group.config import GroupConfig
from broker.coordinator.group.group_kind import Group
from broker.coordinator.group.record_formats import encode_key, encode_value
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
    return Decision(records, response, partial(apply_step, state, step))


def apply_step(state: ClassicGroupShard, step: Step) -> None:
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
