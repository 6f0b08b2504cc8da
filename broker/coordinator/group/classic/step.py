"""What a request, or a timer, makes of one group: the group as it will be, and what else follows from it.

A step works on a copy. Nothing has happened before `apply`, which the runtime calls once the record, if the step needs
one, is appended; where that fails, the group is what it was.
"""

from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

import attrs

from broker.coordinator.group.classic.classic_group import ClassicGroup, Waiter
from broker.wire.api.join_group import JoinGroupResponse
from broker.wire.api.sync_group import SyncGroupResponse

# Before a generation has begun, a member is given this long for it: it cannot say that it is alive, since it does not
# know its id, and its connection says nothing while the answer is due.
NEWCOMER_TIMEOUT_MS: Final = 5 * 60 * 1000

TimerKey: TypeAlias = Hashable
# What a timer does with the group, if it is there still.
OnDue: TypeAlias = "Callable[[Step], None]"


@attrs.frozen
class Timer:
    delay_ms: int
    on_due: OnDue


@attrs.frozen
class Limits:
    """`group.initial.rebalance.delay.ms` and `group.max.size`."""

    initial_delay_ms: int
    members_max: int


@attrs.define
class Step:
    """`group` is changed by the rules of the other modules here. Times in ms since 1970.

    `answers` are given when everything is committed; `timers` are set in place of those of the same key, or taken away
    (None). `is_stored` says that the group has to be written down.
    """

    group: ClassicGroup
    limits: Limits
    now_ms: int
    answers: list[tuple[Waiter, JoinGroupResponse | SyncGroupResponse]] = attrs.Factory(list)
    timers: dict[TimerKey, Timer | None] = attrs.Factory(dict)
    is_stored: bool = False

    def answer(self, waiter: Waiter, response: JoinGroupResponse | SyncGroupResponse) -> None:
        self.answers.append((waiter, response))

    def answer_join(self, member_id: str, response: JoinGroupResponse) -> None:
        """Answer the member's JoinGroup, if it waits for that."""
        waiter = self.group.members[member_id].joining
        if waiter is not None:
            self.group.update(member_id, joining=None)
            self.answer(waiter, response)

    def answer_sync(self, member_id: str, response: SyncGroupResponse) -> bool:
        """Answer the member's SyncGroup; False if it does not wait for that."""
        waiter = self.group.members[member_id].syncing
        if waiter is None:
            return False
        self.group.update(member_id, syncing=None)
        self.answer(waiter, response)
        return True

    def set_timer(self, key: TimerKey, delay_ms: int, on_due: OnDue) -> None:
        self.timers[key] = Timer(delay_ms, on_due)

    def cancel_timer(self, key: TimerKey) -> None:
        self.timers[key] = None


def join_key(group_id: str) -> TimerKey:
    """Of the timer that ends the waiting for members to join."""
    return "classic-join", group_id


def sync_key(group_id: str) -> TimerKey:
    """Of the timer that ends the waiting for members to fetch their assignment."""
    return "classic-sync", group_id
