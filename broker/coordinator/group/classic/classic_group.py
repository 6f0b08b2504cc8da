"""A group of the classic protocol: its state, members, leader and protocol.

A rebalance leads from one generation to the next:

    Empty               there are no members; there may be offsets
    PreparingRebalance  the coordinator waits for members to join (again)
    CompletingRebalance the generation has begun; the coordinator waits for the leader's assignment
    Stable              the assignment is written, and members fetch theirs
    Dead                the state in responses about an unknown group

A rebalance begins when a member joins, leaves, changes its protocols, or is removed as its session is over.
PreparingRebalance ends when all members have joined, or after the longest of their rebalance timeouts. Dynamic members
that have not joined by then are removed, static members stay. In a group that was empty, it ends after a delay instead,
so that members that start together share their first generation. CompletingRebalance ends with the leader's SyncGroup.
Members that do not send theirs in time are removed, and the next rebalance begins.

A request works on a copy of the group (`classic/step.py`), which replaces the group when its records are appended. Only
a Stable or an Empty group is ever written (`classic/stored_group.py`). Parked responses and pending members are known
to the coordinator alone. After a failover the members begin a new rebalance.

Past failures:

- A member was refused and removed because the group was full, and the others waited for it until the timeout. Each
  removal now looks whether all members have joined (`complete_if_all_joined`).
- Two processes with one instance id, one of them with the consumer protocol, took the place in the group from each
  other for ever. The process whose place is taken is now fenced.
- A classic member of a consumer group was removed, did not know, and came back with its member id. It was taken for a
  new member while it still used its partitions. A member id is now refused unless the coordinator has given it out.
- A join with 50,000 protocols held the event loop for 60 ms. A request now has at most 100 protocols.

So never remove a member without a look at the rebalance that may wait for it, never change the group itself before its
records are appended, and never let a request of an earlier generation change the present one.
"""

from collections.abc import Container, Hashable, Iterable
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias

import attrs

from broker.coordinator.group.group_kind import CONSUMER_PROTOCOL_TYPE, GroupType, PartitionValidator
from broker.coordinator.group.record_formats import GroupMetadataKey, encode_key
from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import CoordinatorRecord
from broker.coordinator.runtime.shard import Timers
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs

UNKNOWN_TIME: Final = -1

# The parked response to a JoinGroup or SyncGroup.
ParkedResponse: TypeAlias = Completion[Any]


class GroupState(StrEnum):
    """The states by their names in responses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# The states from which each state can be reached.
PREDECESSORS: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
}


@lazy_attrs.frozen
class Protocol:
    """A protocol that a member supports; `metadata` is in the client's format."""

    name: str
    metadata: bytes


def distinct_protocols(named: Iterable[tuple[str, bytes]]) -> tuple[Protocol, ...]:
    """The protocols of these names and metadata, in this order; the first one of each name."""
    protocols: dict[str, bytes] = {}
    for name, metadata in named:
        protocols.setdefault(name, metadata)
    return tuple(Protocol(name, metadata) for name, metadata in protocols.items())


@lazy_attrs.frozen(kw_only=True)
class Member:
    """A member of a classic group.

    `protocols` are in the order of the member's preference, each name once. `is_new` is true until the member has taken
    part in a generation. `joining` and `syncing` are the parked responses to its JoinGroup and SyncGroup.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    joining: ParkedResponse | None = None
    syncing: ParkedResponse | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def awaits_response(self) -> bool:
        """True if a response to the member is parked. Its session does not expire meanwhile."""
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata for this protocol; empty if it does not support it."""
        return next((each.metadata for each in self.protocols if each.name == protocol_name), b"")

    def vote(self, candidates: Container[str]) -> str:
        """The member's most preferred protocol among `candidates`, which all members support."""
        return next(each.name for each in self.protocols if each.name in candidates)


@lazy_attrs.define(eq=False)
class ClassicGroup:
    """A classic group. A `step.Step` changes a copy of it, which then replaces the group; nothing else changes a group.

    `members` keeps the order in which members joined, and the results of elections depend on it. `pending` has member
    ids that were given to clients, which have yet to join with them (KIP-394). `pending_sync` has members that have yet
    to fetch the assignment of this generation. `is_initial` is true in a rebalance of a group that was empty;
    `new_member_added` is true if members have joined since its delay was last extended. `state_since_ms` is in ms since
    1970.
    """

    group_type: ClassVar = GroupType.CLASSIC

    group_id: str
    state: GroupState = GroupState.EMPTY
    state_since_ms: int = UNKNOWN_TIME
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    subscribed_topics: frozenset[str] | None = None
    is_initial: bool = False
    new_member_added: bool = False
    members: dict[str, Member] = attrs.Factory(dict)
    static_members: dict[str, str] = attrs.Factory(dict)
    pending: dict[str, None] = attrs.Factory(dict)
    pending_sync: dict[str, None] = attrs.Factory(dict)
    joining_count: int = 0
    _supported: dict[str, int] = attrs.Factory(dict)

    def copy(self) -> "ClassicGroup":
        """Returns a copy that can be changed without changing this group."""
        return attrs.evolve(
            self,
            members=dict(self.members),
            static_members=dict(self.static_members),
            pending=dict(self.pending),
            pending_sync=dict(self.pending_sync),
            supported=dict(self._supported),
        )

    # Attributes

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """True if the group has no members. It may have pending ones."""
        return self.state is GroupState.EMPTY

    @property
    def is_blank(self) -> bool:
        """True if nothing is known of the group but its id."""
        return self.is_empty and not self.generation and not self.pending

    @property
    def is_of_consumers(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def has_all_members_joined(self) -> bool:
        """True if a rebalance need not wait for further members."""
        return self.joining_count == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE if a request may come from a member with this member id and instance id (KIP-345)."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def heartbeat_error(self, generation: int, member_id: str, instance_id: str | None) -> ErrorCode:
        """The error code for a heartbeat. With NONE and REBALANCE_IN_PROGRESS the member's session is prolonged."""
        error = self.member_error(member_id, instance_id)
        if error is ErrorCode.NONE and generation != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is ErrorCode.NONE and self.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        return error

    # Offsets, see `broker.coordinator.group.group_kind.Group`

    def validate_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, api_version: int, is_transactional: bool
    ) -> PartitionValidator | None:
        """Members of the generation may commit; any client may while the group is empty. Raises KafkaError.

        Transactional offsets may be committed during a rebalance, because they carry their generation (KIP-447).
        """
        if epoch < 0 and self.is_empty:
            return None
        error = ErrorCode.NONE
        if epoch >= 0 or member_id or instance_id is not None:
            error = self.member_error(member_id, instance_id)
            if error is ErrorCode.NONE and epoch != self.generation:
                error = ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional and not self.is_empty:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is ErrorCode.NONE and not is_transactional and self.state is GroupState.COMPLETING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        return None

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Any client may fetch the offsets of a classic group."""

    def validate_offset_delete(self) -> None:
        """Raises KafkaError if the group has members whose subscriptions the coordinator cannot read."""
        if not self.is_empty and not self.is_of_consumers:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def committed(self, member_id: str, timers: Timers) -> None:
        """Prolongs the member's session, as a heartbeat does."""
        member = self.members.get(member_id)
        if member is not None:
            timers.postpone(session_key(self.group_id, member_id), member.session_timeout_ms)

    def is_subscribed_to(self, topic: str) -> bool:
        """True if members may consume `topic`; also if they are consumers whose subscriptions cannot be read."""
        return self.is_of_consumers if self.subscribed_topics is None else topic in self.subscribed_topics

    def retention_begins_ms(self, commit_timestamp_ms: int) -> int | None:
        """The time when the group became empty. For a group with members the time of the commit, if their subscriptions
        are known.
        """
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.is_empty:
            return commit_timestamp_ms if self.state_since_ms == UNKNOWN_TIME else self.state_since_ms
        if self.state is GroupState.STABLE and self.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        """The record that removes the group."""
        return [CoordinatorRecord(encode_key(GroupMetadataKey(group=self.group_id)), None)]

    # Protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """True if a client with these protocols may join: all members support at least one of them."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in names)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(self._supported.get(name, 0) == count for name in names)

    def elected_protocol(self) -> str:
        """The protocol that all members support and most members prefer; the first of those with equal votes."""
        count = len(self.members)
        assert count, "a group without members elects no protocol"
        candidates = [name for name, number in self._supported.items() if number == count]
        votes = dict.fromkeys(candidates, 0)
        for member in self.members.values():
            votes[member.vote(votes)] += 1
        return max(votes, key=lambda name: votes[name])

    # Changes

    def move_to(self, state: GroupState, now_ms: int) -> None:
        assert self.state in PREDECESSORS[state], f"a group cannot move from {self.state} to {state}"
        self.state = state
        self.state_since_ms = now_ms

    def put(self, member: Member) -> None:
        """Adds the member, or replaces the member of the same id."""
        former = self.members.get(member.member_id)
        if former is not None:
            self._uncount(former)
        self.members[member.member_id] = member
        self._count(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending.pop(member.member_id, None)

    def update(self, member_id: str, **changes: Any) -> Member:
        """Changes attributes of a member; returns the changed member."""
        member: Member = attrs.evolve(self.members[member_id], **changes)
        self.put(member)
        return member

    def remove(self, member_id: str) -> None:
        """Removes a member or a pending member. If it was the leader, the oldest member becomes the leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._uncount(member)
            if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
                del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def _count(self, member: Member) -> None:
        self.joining_count += member.joining is not None
        for protocol in member.protocols:
            self._supported[protocol.name] = self._supported.get(protocol.name, 0) + 1

    def _uncount(self, member: Member) -> None:
        self.joining_count -= member.joining is not None
        for protocol in member.protocols:
            self._supported[protocol.name] -= 1
            if not self._supported[protocol.name]:
                del self._supported[protocol.name]


def session_key(group_id: str, member_id: str) -> Hashable:
    """The key of the timer that ends a member's session."""
    return "classic-session", group_id, member_id
