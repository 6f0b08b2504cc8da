"""The state machine of a classic group's member: its state, its requests, and its transitions. No clock, no socket.

    UNJOINED --join_request--> JOINING --on_join--> SYNCING --on_sync--> STABLE
        ^                         |                    |                   |
        +------ the coordinator does not know the member or its generation, or the member leaves

A stable member stays so when it `needs_rejoin`: it sends heartbeats while its driver commits and revokes what `prepare`
says, and then joins again. `Next` is its reaction to an error code (AbstractCoordinator.java).
"""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto
from typing import Final

import attrs

from broker.client.consumer.errors import AssignmentError
from broker.client.consumer.group.assignors import Assignor, LastAssignment, MemberSubscription
from broker.client.consumer.group.assignors.assignor import NO_GENERATION, TopicRacks
from broker.client.consumer.group.classic.messages import (
    assignment_bytes,
    check_cooperative,
    read_assignment,
    read_member,
    subscription_bytes,
)
from broker.client.types import TopicPartition
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from broker.wire.errors import ErrorCode

PROTOCOL_TYPE: Final = "consumer"
NO_MEMBER: Final = ""
# Java's clients cut reasons there (KIP-800).
_REASON_LENGTH_MAX: Final = 255


class Next(Enum):
    """The next step after a response.

    RETRY: ask again after a back-off. FIND_COORDINATOR: the same, of another coordinator. REJOIN: join again at once,
    in the same generation. RESET_GENERATION: join again; the generation is over and so is the ownership of partitions.
    RESET_MEMBER: the same, and the member id is unknown to the coordinator. FAIL: raise the error to the application.
    """

    GO_ON = auto()
    RETRY = auto()
    FIND_COORDINATOR = auto()
    REJOIN = auto()
    RESET_GENERATION = auto()
    RESET_MEMBER = auto()
    FAIL = auto()


_ALWAYS: Final[dict[int, Next]] = {
    ErrorCode.NONE: Next.GO_ON,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Next.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Next.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Next.RETRY,
    ErrorCode.REQUEST_TIMED_OUT: Next.RETRY,
    ErrorCode.UNKNOWN_MEMBER_ID: Next.RESET_MEMBER,
    ErrorCode.ILLEGAL_GENERATION: Next.RESET_GENERATION,
}

# A coordinator that cannot finish a join tells all its members to try again.
_OF_JOIN: Final[dict[int, Next]] = {
    **_ALWAYS,
    ErrorCode.REBALANCE_IN_PROGRESS: Next.RETRY,
    ErrorCode.MEMBER_ID_REQUIRED: Next.REJOIN,
}

_OF_SYNC_AND_HEARTBEAT: Final[dict[int, Next]] = {**_ALWAYS, ErrorCode.REBALANCE_IN_PROGRESS: Next.REJOIN}


def _after_join(code: int) -> Next:
    return _OF_JOIN.get(code, Next.FAIL)


def _after_sync(code: int) -> Next:
    return _OF_SYNC_AND_HEARTBEAT.get(code, Next.FAIL)


def _after_heartbeat(code: int) -> Next:
    return _OF_SYNC_AND_HEARTBEAT.get(code, Next.FAIL)


class State(Enum):
    UNJOINED = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


@attrs.frozen(kw_only=True)
class ClassicSettings:
    """A member's settings that do not change. `assignors` are in the order of preference; there is at least one."""

    group_id: str
    instance_id: str | None
    rack: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignors: Sequence[Assignor]

    @property
    def is_cooperative(self) -> bool:
        """An assignor that can be cooperative can be eager too, so that all members move to it one by one."""
        return all(assignor.is_cooperative for assignor in self.assignors)


@attrs.frozen
class Preparation:
    """The partitions that a member gives up before it joins: those not in `kept`. With `is_lost`, it has lost them
    already.
    """

    kept: frozenset[TopicPartition]
    is_lost: bool


class ClassicMembership:
    """See the module's docstring. `needs_rejoin` is true until a join has succeeded that nothing has overtaken."""

    def __init__(self, settings: ClassicSettings) -> None:
        self.settings = settings
        self.state = State.UNJOINED
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION
        self.is_leader = False
        self.needs_rejoin = True
        self._reason = ""
        self._protocol: str | None = None
        self._last: LastAssignment | None = None
        self._members: dict[str, MemberSubscription] = {}
        self._skips_assignment = False

    @property
    def is_joined(self) -> bool:
        """True while the coordinator expects heartbeats of this member."""
        return self.state is State.STABLE and self.generation != NO_GENERATION

    @property
    def group_topics(self) -> frozenset[str]:
        """The topics that members read, as far as this one knows: the leader is told of all of them."""
        return frozenset(topic for member in self._members.values() for topic in member.topics)

    def request_rejoin(self, reason: str) -> None:
        """Requests a rejoin. Keeps the first reason since the last join."""
        if not self.needs_rejoin:
            self.needs_rejoin, self._reason = True, reason

    def reset(self, *, forgets_member: bool) -> None:
        """Ends the membership: what the member owns is lost."""
        self.state, self.generation, self.is_leader = State.UNJOINED, NO_GENERATION, False
        self.needs_rejoin, self._protocol = True, None
        if forgets_member:
            self.member_id = NO_MEMBER

    def prepare(self, owned: Collection[TopicPartition], topics: Collection[str]) -> Preparation:
        """Decides which partitions to give up before joining: all, or with cooperative assignors only those not read
        any more.
        """
        if self.generation == NO_GENERATION:
            return Preparation(frozenset(), is_lost=bool(owned))
        if not self.settings.is_cooperative:
            return Preparation(frozenset(), is_lost=False)
        return Preparation(frozenset(each for each in owned if each.topic in topics), is_lost=False)

    def join_request(self, topics: Collection[str], owned: Collection[TopicPartition]) -> JoinGroupRequest:
        """Builds the JoinGroup request. A later reason to rejoin causes another join."""
        self.state, self.needs_rejoin, self.is_leader = State.JOINING, False, False
        settings, reason, self._reason = self.settings, self._reason, ""
        protocols = [
            JoinGroupRequestProtocol(name=assignor.name, metadata=self._subscription(assignor, topics, owned))
            for assignor in settings.assignors
        ]
        return JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=reason[:_REASON_LENGTH_MAX],
        )

    def on_join(self, response: JoinGroupResponse) -> Next:
        """Takes the generation that a join has led to. Raises AssignmentError."""
        if self.state is not State.JOINING:
            return Next.REJOIN  # the member has left meanwhile
        follows = _after_join(response.error_code)
        if follows is not Next.GO_ON:
            reason = f"rebalance failed due to {_name(response.error_code)}"
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                reason = f"need to re-join with the given member-id: {response.member_id}"
            return self._fail_join(follows, reason)
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            raise AssignmentError(f"group {self.settings.group_id} is of {response.protocol_type}, not of consumers")
        self.member_id, self.generation = response.member_id, response.generation_id
        self._protocol, self.state = response.protocol_name, State.SYNCING
        self.is_leader = response.leader == response.member_id
        self._skips_assignment = response.skip_assignment
        self._members = {member.member_id: read_member(member) for member in response.members}
        return Next.GO_ON

    def sync_request(self, topics: TopicRacks) -> SyncGroupRequest:
        """Builds the SyncGroup request. The leader assigns `topics`, the existing ones. Raises AssignmentError."""
        assignments = self._assign(topics) if self.is_leader and not self._skips_assignment else {}
        return SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assignment_bytes(partitions))
                for member, partitions in assignments.items()
            ],
        )

    def on_sync(self, response: SyncGroupResponse) -> tuple[Next, frozenset[TopicPartition]]:
        """Returns the next step, and the partitions that this member may own. Raises AssignmentError."""
        if self.state is not State.SYNCING:
            return Next.REJOIN, frozenset()
        follows = _after_sync(response.error_code)
        if follows is not Next.GO_ON:
            return self._fail_join(follows, f"rebalance failed due to {_name(response.error_code)}"), frozenset()
        if response.protocol_name not in (None, self._protocol):
            raise AssignmentError(f"the group's assignor has changed to {response.protocol_name} within a generation")
        assigned = read_assignment(response.assignment)
        self.state = State.STABLE
        self._last = LastAssignment(assigned, self.generation)
        return Next.GO_ON, frozenset(assigned)

    def on_join_lost(self) -> None:
        """The response to a join or a sync was lost: the member joins again."""
        if self.state in (State.JOINING, State.SYNCING):
            self._fail_join(Next.RETRY, "the connection to the coordinator was lost")

    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
        )

    def on_heartbeat(self, request: HeartbeatRequest, code: int) -> Next:
        """Takes the response to `request`. A response to a heartbeat of an earlier generation is ignored."""
        if not self.is_joined or (request.generation_id, request.member_id) != (self.generation, self.member_id):
            return Next.GO_ON
        follows = _after_heartbeat(code)
        if follows is Next.REJOIN:
            self.request_rejoin("group is already rebalancing")
        elif follows in (Next.RESET_MEMBER, Next.RESET_GENERATION):
            self.reset(forgets_member=follows is Next.RESET_MEMBER)
        return follows

    def on_commit_refused(self, generation: int, code: int) -> bool:
        """A commit of `generation` was refused.

        True if the membership is over, false if the commit was overtaken by a rebalance.
        """
        if generation != self.generation or self.state is not State.STABLE:
            return False
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_rejoin("offset commit failed since group is already rebalancing")
            return False
        self.reset(forgets_member=code == ErrorCode.UNKNOWN_MEMBER_ID)
        return True

    def leave_request(self, reason: str) -> LeaveGroupRequest | None:
        """Ends the membership. None where there is nothing to leave; static members stay until they time out."""
        member_id, instance_id = self.member_id, self.settings.instance_id
        self.reset(forgets_member=True)
        if not member_id or instance_id is not None:
            return None
        identity = MemberIdentity(member_id=member_id, reason=reason[:_REASON_LENGTH_MAX])
        return LeaveGroupRequest(group_id=self.settings.group_id, member_id=member_id, members=[identity])

    def _subscription(self, assignor: Assignor, topics: Collection[str], owned: Collection[TopicPartition]) -> bytes:
        return subscription_bytes(
            MemberSubscription(
                topics=sorted(topics),
                owned=sorted(owned),
                generation=self.generation,
                user_data=assignor.user_data(self._last),
                rack=self.settings.rack,
            )
        )

    def _fail_join(self, follows: Next, reason: str) -> Next:
        self.request_rejoin(reason)
        if follows in (Next.RESET_MEMBER, Next.RESET_GENERATION):
            self.reset(forgets_member=follows is Next.RESET_MEMBER)
        else:
            self.state = State.UNJOINED
        return follows

    def _assign(self, topics: TopicRacks) -> Mapping[str, Sequence[TopicPartition]]:
        assignor = next((each for each in self.settings.assignors if each.name == self._protocol), None)
        if assignor is None:
            raise AssignmentError(
                f"the coordinator chose the assignor {self._protocol}, which this member did not offer"
            )
        assignments = assignor.assign(topics, self._members)
        if strangers := sorted(frozenset(assignments) - frozenset(self._members)):
            raise AssignmentError(f"the assignor {assignor.name} assigned to {strangers[0]}, which is not a member")
        if self.settings.is_cooperative and assignor.name != "cooperative-sticky":
            check_cooperative(self._members, assignments)
        return assignments


def _name(code: int) -> str:
    return ErrorCode(code).name if code in frozenset(ErrorCode) else f"error {code}"
