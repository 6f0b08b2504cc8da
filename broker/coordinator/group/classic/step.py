"""A step of one classic group: the changes that a request or a timer makes, and what follows from them.

A step works on a copy of the group. It takes effect in the `apply` of its decision, which the runtime calls when the
step's record, if there is one, is appended. If that fails, the group is unchanged.
"""

from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

import attrs

from broker.coordinator.group.classic.classic_group import ClassicGroup, ParkedResponse
from broker.wire.api.join_group import JoinGroupResponse
from broker.wire.api.sync_group import SyncGroupResponse
from kraft import lazy_attrs

# The session timeout of a new member until its first generation begins. It cannot send heartbeats yet: it does not know
# its member id, and it sends nothing on its connection before it has the response.
NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60 * 1000

TimerKey: TypeAlias = Hashable
# Called when a timer is due, if the group still exists.
OnDue: TypeAlias = "Callable[[Step], None]"


@lazy_attrs.frozen
class Timer:
    delay_ms: int
    on_due: OnDue


@lazy_attrs.frozen
class Limits:
    """The configs `group.initial.rebalance.delay.ms` and `group.max.size`."""

    initial_delay_ms: int
    members_max: int


@lazy_attrs.define
class Step:
    """The changes of one step. The other modules of this package change `group`. Times are in ms since 1970.

    `answers` are responses that leave when the step is committed. `timers` are set in place of those of the same key,
    or cancelled if None. `is_stored` is true if the group has to be written.
    """

    group: ClassicGroup
    limits: Limits
    now_ms: int
    answers: list[tuple[ParkedResponse, JoinGroupResponse | SyncGroupResponse]] = attrs.Factory(list)
    timers: dict[TimerKey, Timer | None] = attrs.Factory(dict)
    is_stored: bool = False

    def answer(self, waiter: ParkedResponse, response: JoinGroupResponse | SyncGroupResponse) -> None:
        self.answers.append((waiter, response))

    def answer_join(self, member_id: str, response: JoinGroupResponse) -> None:
        """Completes the member's parked JoinGroup, if there is one."""
        waiter = self.group.members[member_id].joining
        if waiter is not None:
            self.group.update(member_id, joining=None)
            self.answer(waiter, response)

    def answer_sync(self, member_id: str, response: SyncGroupResponse) -> bool:
        """Completes the member's parked SyncGroup; False if there is none."""
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
    """The key of the timer that ends a rebalance's wait for members to join."""
    return "classic-join", group_id


def sync_key(group_id: str) -> TimerKey:
    """The key of the timer that ends the wait for members to fetch their assignment."""
    return "classic-sync", group_id
