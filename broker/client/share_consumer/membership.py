"""The state machine of a member of a share group (KIP-932): epoch and assignment. No clock, no socket.

    UNJOINED --join--> JOINING --on_heartbeat--> STABLE
        ^                 |                         |
        +---- fenced by the coordinator, or left ---+

A share group does not wait for members to give up partitions: the assignment of a response holds at once.
"""

from enum import Enum, auto

from broker.client.consumer.group.consumer.membership import JOIN_EPOCH, LEAVE_EPOCH, Next, Partitions, next_step
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


class State(Enum):
    """See the module's docstring."""

    UNJOINED = auto()
    JOINING = auto()
    STABLE = auto()


class ShareMembership:
    """See the module's docstring. `target` is None until the coordinator has assigned, and after the membership."""

    def __init__(self, group_id: str, member_id: str, rack: str | None, topics: tuple[str, ...] = ()) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.topics = topics
        self.state = State.UNJOINED
        self.target: Partitions | None = None
        self._rack = rack
        self._epoch = JOIN_EPOCH
        self._sent_topics: tuple[str, ...] | None = None

    @property
    def is_heartbeat_urgent(self) -> bool:
        """True if the next heartbeat is due at once."""
        is_subscription_new = self.state is State.STABLE and self.topics != self._sent_topics
        return self.state is State.JOINING or is_subscription_new

    def join(self) -> None:
        """Makes the next heartbeat join."""
        self.fence()
        self.state = State.JOINING

    def fence(self) -> None:
        """Ends the membership, and so the assignment."""
        self.state, self._epoch, self.target = State.UNJOINED, JOIN_EPOCH, None
        self.on_heartbeat_lost()

    def heartbeat_request(self) -> ShareGroupHeartbeatRequest:
        """Builds the next heartbeat: with all fields when joining, only with changed fields afterwards."""
        request = ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=self._epoch)
        if self._sent_topics is None:
            request.rack_id = self._rack
        if self.topics != self._sent_topics:
            request.subscribed_topic_names = list(self.topics)
            self._sent_topics = self.topics
        return request

    def on_heartbeat(self, request: ShareGroupHeartbeatRequest, response: ShareGroupHeartbeatResponse) -> Next:
        """Takes the epoch and the assignment. A response that the member's rejoining has overtaken means nothing."""
        if self.state is State.UNJOINED or request.member_epoch != self._epoch:
            return Next.GO_ON
        follows = next_step(response.error_code)
        if follows is not Next.GO_ON:
            self.on_heartbeat_lost()
            if follows is Next.REJOIN:
                self.join()
            return follows
        self.state, self._epoch = State.STABLE, response.member_epoch
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            self.target = frozenset((each.topic_id, index) for each in topics for index in each.partitions)
        return Next.GO_ON

    def on_heartbeat_lost(self) -> None:
        """The coordinator may not have heard the last heartbeat: the next one says everything again."""
        self._sent_topics = None

    def leave_request(self) -> ShareGroupHeartbeatRequest | None:
        """Ends the membership; None where there is nothing to leave."""
        was_member = self.state is not State.UNJOINED
        self.fence()
        if not was_member:
            return None
        return ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH)
