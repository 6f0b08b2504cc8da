"""A group of the classic protocol as its coordinator knows it: states, members, who leads, what they agree on.

A rebalance leads from one generation to the next:

    Empty               nobody is a member; offsets may be there
    PreparingRebalance  members are expected to join (again)
    CompletingRebalance the generation has begun, and waits for the leader's assignment
    Stable              the assignment is written down, and members get theirs
    Dead                what clients are told of a group that is not there

Only what a Stable or an Empty group has to remember is ever written (`classic/stored_group.py`); who waits and who is
expected is known to the coordinator alone, and when another one takes over, its clients begin a rebalance anew.
"""

from collections.abc import Container, Hashable, Iterable
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias

import attrs

from broker.coordinator.group.group_kind import CONSUMER_PROTOCOL_TYPE, GroupType
from broker.coordinator.group.record_formats import GroupMetadataKey, encode_key
from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import CoordinatorError, CoordinatorRecord
from broker.coordinator.runtime.shard import Timers
from broker.wire.errors import ErrorCode

UNKNOWN_TIME: Final = -1

# Who waits for the answer to its JoinGroup or SyncGroup.
Waiter: TypeAlias = Completion[Any]


class GroupState(StrEnum):
    """Under the names that clients are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# From where a state is reached.
PREDECESSORS: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
}


@attrs.frozen
class Protocol:
    """A way to assign that a member knows, under its name; `metadata` is the client's own."""

    name: str
    metadata: bytes


def distinct_protocols(named: Iterable[tuple[str, bytes]]) -> tuple[Protocol, ...]:
    """The protocols of these names and metadata, in this order; of several with one name, the first."""
    protocols: dict[str, bytes] = {}
    for name, metadata in named:
        protocols.setdefault(name, metadata)
    return tuple(Protocol(name, metadata) for name, metadata in protocols.items())


@attrs.frozen(kw_only=True)
class Member:
    """`protocols` are in the order of the member's preference, each name once.

    `is_new` until it has taken part in a generation.

    `joining` and `syncing` wait for the answer to the member's JoinGroup and SyncGroup.
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
    joining: Waiter | None = None
    syncing: Waiter | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_awaiting(self) -> bool:
        """Whether it is the coordinator that has something to say, so that the member need not show it is alive."""
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it has to say under this protocol; nothing, where it does not know it."""
        return next((each.metadata for each in self.protocols if each.name == protocol_name), b"")

    def vote(self, candidates: Container[str]) -> str:
        """The first of its protocols that is among `candidates`, which all members know."""
        return next(each.name for each in self.protocols if each.name in candidates)


@attrs.define(eq=False)
class ClassicGroup:
    """Changed by `step.Step` on a copy of its own, and replaced by it; nobody else changes a group.

    Members keep the order in which they came, and so does everything that follows from it. `pending` are member ids
    that were given out, to be joined with (KIP-394). `unsynced` are members that have to fetch the assignment of this
    generation. `is_initial` says that a rebalance has begun with a group that was empty, and
    `has_newcomers` that more members have come since it was looked at. `state_since_ms` is in ms since 1970.
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
    has_newcomers: bool = False
    members: dict[str, Member] = attrs.Factory(dict)
    static_members: dict[str, str] = attrs.Factory(dict)
    pending: dict[str, None] = attrs.Factory(dict)
    unsynced: dict[str, None] = attrs.Factory(dict)
    joining_count: int = 0
    _supported: dict[str, int] = attrs.Factory(dict)

    def copy(self) -> "ClassicGroup":
        """The same, to be changed apart."""
        return attrs.evolve(
            self,
            members=dict(self.members),
            static_members=dict(self.static_members),
            pending=dict(self.pending),
            unsynced=dict(self.unsynced),
            supported=dict(self._supported),
        )

    # What it is

    @property
    def is_empty(self) -> bool:
        """Whether it has no members; some may be expected."""
        return self.state is GroupState.EMPTY

    @property
    def is_blank(self) -> bool:
        """Nothing is known of it but its name."""
        return self.is_empty and not self.generation and not self.pending

    @property
    def is_of_consumers(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def have_all_joined(self) -> bool:
        """Whether nobody is left to wait for in a rebalance."""
        return self.joining_count == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """As long as the most patient member wants to have for joining again."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE where a member may speak under these names (KIP-345)."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def heartbeat_error(self, generation: int, member_id: str, instance_id: str | None) -> ErrorCode:
        """What a member is told that says it is alive. With NONE and REBALANCE_IN_PROGRESS its session goes on."""
        error = self.member_error(member_id, instance_id)
        if error is ErrorCode.NONE and generation != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is ErrorCode.NONE and self.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        return error

    # What offsets have to do with it: see `broker.coordinator.group.group_kind.Group`

    def validate_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, api_version: int, is_transactional: bool
    ) -> None:
        """Members of the generation may commit; while there is no member, anybody. Raises CoordinatorError.

        Transactions are committed during a rebalance as well: they say to which generation they belong (KIP-447).
        """
        if epoch < 0 and self.is_empty:
            return
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
            raise CoordinatorError(error)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anybody may ask what a classic group has committed."""

    def validate_offset_delete(self) -> None:
        """Raises CoordinatorError where nobody could tell which topics the members use."""
        if not self.is_empty and not self.is_of_consumers:
            raise CoordinatorError(ErrorCode.NON_EMPTY_GROUP)

    def committed(self, member_id: str, timers: Timers) -> None:
        """The member is alive; so it is after a heartbeat."""
        member = self.members.get(member_id)
        if member is not None:
            timers.put_off(session_key(self.group_id, member_id), member.session_timeout_ms)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members may be reading `topic`: so it seems, where their subscriptions cannot be understood."""
        return self.is_of_consumers if self.subscribed_topics is None else topic in self.subscribed_topics

    def retention_begins_ms(self, commit_timestamp_ms: int) -> int | None:
        """When the last member went; where members are there, at the commit, if it is known what they read."""
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.is_empty:
            return commit_timestamp_ms if self.state_since_ms == UNKNOWN_TIME else self.state_since_ms
        if self.state is GroupState.STABLE and self.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        """What removes the group from the log."""
        return [CoordinatorRecord(encode_key(GroupMetadataKey(group=self.group_id)), None)]

    # What its members agree on

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether somebody with these protocols can be a member: with one that all others know as well."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in names)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(self._supported.get(name, 0) == count for name in names)

    def elected_protocol(self) -> str:
        """Of the protocols that all members know, the one that most prefer; the first of the first ones, if equal."""
        count = len(self.members)
        assert count, "nobody is there to vote"
        candidates = [name for name, number in self._supported.items() if number == count]
        votes = dict.fromkeys(candidates, 0)
        for member in self.members.values():
            votes[member.vote(votes)] += 1
        return max(votes, key=lambda name: votes[name])

    # Changing it

    def move_to(self, state: GroupState, now_ms: int) -> None:
        assert self.state in PREDECESSORS[state], f"no group goes from {self.state} to {state}"
        self.state = state
        self.state_since_ms = now_ms

    def put(self, member: Member) -> None:
        """Have the member in the group, or what has become of it."""
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
        """Change some of a member's attributes; the member as it is then."""
        member: Member = attrs.evolve(self.members[member_id], **changes)
        self.put(member)
        return member

    def remove(self, member_id: str) -> None:
        """Have it neither as a member nor as one that is expected. Another one leads, where it did."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._uncount(member)
            if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
                del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending.pop(member_id, None)
        self.unsynced.pop(member_id, None)

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
    """Of the timer that ends a member's session."""
    return "classic-session", group_id, member_id
