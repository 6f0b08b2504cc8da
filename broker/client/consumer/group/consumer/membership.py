"""The state machine of a consumer protocol member (KIP-848): epoch, target, owned partitions. No clock, no socket.

    UNJOINED --join--> JOINING --on_heartbeat--> STABLE <--> RECONCILING --reconciled--> ACKNOWLEDGING --> STABLE
        ^                 |                         |                                          |
        +---- fenced by the coordinator, or left ---+------------------------------------------+

In RECONCILING the target differs from what the member owns; its driver commits, revokes and assigns, and says so with
`reconciled`. The next heartbeat acknowledges that, and is due at once. Everything follows AbstractMembershipManager
and ConsumerHeartbeatRequestManager.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final, TypeAlias

import attrs

from broker.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from broker.wire.errors import ErrorCode

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2

# Partitions by topic id, as the protocol has them.
Partitions: TypeAlias = frozenset[tuple[bytes, int]]
NO_PARTITIONS: Final[Partitions] = frozenset()


class State(Enum):
    UNJOINED = auto()
    JOINING = auto()
    STABLE = auto()
    RECONCILING = auto()
    ACKNOWLEDGING = auto()


class Next(Enum):
    """The next step after a response: retry after a back-off (with FIND_COORDINATOR, at another coordinator), release
    everything and join again, or fail.
    """

    GO_ON = auto()
    RETRY = auto()
    FIND_COORDINATOR = auto()
    REJOIN = auto()
    FAIL = auto()


_NEXT: Final[Mapping[int, Next]] = {
    ErrorCode.NONE: Next.GO_ON,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Next.RETRY,
    ErrorCode.REQUEST_TIMED_OUT: Next.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Next.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Next.FIND_COORDINATOR,
    ErrorCode.FENCED_MEMBER_EPOCH: Next.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Next.REJOIN,
}


def next_step(code: int) -> Next:
    """The next step after a response to a heartbeat with this error code."""
    return _NEXT.get(code, Next.FAIL)


@attrs.frozen(kw_only=True)
class ConsumerSettings:
    """A member's settings that do not change. `assignor` is one of the coordinator's; None leaves the choice to it."""

    group_id: str
    instance_id: str | None
    rack: str | None
    rebalance_timeout_ms: int
    assignor: str | None


@attrs.frozen
class Subscription:
    """Topics by name, or by a regular expression that the coordinator evaluates ("" for none)."""

    topics: tuple[str, ...] = ()
    regex: str = ""


class ConsumerMembership:
    """See the module's docstring. `target` is None until the coordinator has named one."""

    def __init__(self, settings: ConsumerSettings, member_id: str, subscription: Subscription) -> None:
        self.settings = settings
        self.member_id = member_id
        self.subscription = subscription
        self.state = State.UNJOINED
        self.epoch = JOIN_EPOCH
        self.target: Partitions | None = None
        self.owned: Partitions = NO_PARTITIONS
        self._sent_subscription: Subscription | None = None
        self._sent_owned: Partitions | None = None
        self._has_sent_regex = False

    @property
    def is_member(self) -> bool:
        """True while the coordinator knows this member by its epoch."""
        return self.epoch > JOIN_EPOCH

    @property
    def is_heartbeat_urgent(self) -> bool:
        """True if the next heartbeat is due at once, since the coordinator waits for it."""
        is_subscription_new = self.is_member and self.subscription != self._sent_subscription
        return self.state in (State.JOINING, State.ACKNOWLEDGING) or is_subscription_new

    def join(self) -> None:
        """Makes the next heartbeat join. The member has released all partitions that it owned before."""
        self._forget()
        self.state = State.JOINING

    def fence(self) -> None:
        """Ends the membership: what the member owns is lost."""
        self._forget()
        self.state = State.UNJOINED

    def heartbeat_request(self) -> ConsumerGroupHeartbeatRequest:
        """Builds the next heartbeat: with all fields when joining, only with changed fields afterwards."""
        settings, is_joining = self.settings, self.state is State.JOINING
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=settings.instance_id,
        )
        if is_joining or self._sent_subscription is None:
            request.rack_id = settings.rack
            request.rebalance_timeout_ms = settings.rebalance_timeout_ms
            request.server_assignor = settings.assignor
        if is_joining or self.subscription != self._sent_subscription:
            request.subscribed_topic_names = list(self.subscription.topics)
            if self.subscription.regex or self._has_sent_regex:
                request.subscribed_topic_regex = self.subscription.regex
                self._has_sent_regex = True
            self._sent_subscription = self.subscription
        if is_joining or self._sent_owned is None:
            request.topic_partitions = _by_topic(self.owned)
            self._sent_owned = self.owned
        if self.state is State.ACKNOWLEDGING:
            self._compare()
        return request

    def on_heartbeat(self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse) -> Next:
        """Takes the epoch and the target. A response that the member's rejoining has overtaken means nothing."""
        if self.state is State.UNJOINED or request.member_epoch != self.epoch:
            return Next.GO_ON
        follows = next_step(response.error_code)
        if follows is not Next.GO_ON:
            self.on_heartbeat_lost()
            if follows is Next.REJOIN:
                self.fence()
            return follows
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            self.target = frozenset((each.topic_id, index) for each in topics for index in each.partitions)
        if self.state is not State.ACKNOWLEDGING:
            self._compare()
        return Next.GO_ON

    def on_heartbeat_lost(self) -> None:
        """The coordinator may not have heard the last heartbeat: the next one says everything again."""
        self._sent_subscription = self._sent_owned = None

    def reconciled(self, owned: Partitions) -> None:
        """The member owns exactly these partitions now; the target may have changed meanwhile."""
        self.owned, self._sent_owned, self.state = owned, None, State.ACKNOWLEDGING

    def leave_request(self) -> ConsumerGroupHeartbeatRequest | None:
        """Ends the membership; None where there is nothing to leave. A static member's place is kept for it."""
        is_member = self.is_member or self.state is State.JOINING
        self.fence()
        if not is_member:
            return None
        settings = self.settings
        return ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_EPOCH if settings.instance_id is None else LEAVE_STATIC_EPOCH,
            instance_id=settings.instance_id,
        )

    def _forget(self) -> None:
        self.epoch, self.target, self.owned = JOIN_EPOCH, None, NO_PARTITIONS
        self.on_heartbeat_lost()

    def _compare(self) -> None:
        is_there = self.target is None or self.target == self.owned
        self.state = State.STABLE if is_there else State.RECONCILING


def _by_topic(partitions: Iterable[tuple[bytes, int]]) -> list[TopicPartitions]:
    topics: dict[bytes, TopicPartitions] = {}
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, TopicPartitions(topic_id=topic_id)).partitions.append(index)
    return list(topics.values())
