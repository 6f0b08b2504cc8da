"""Who votes, and since which offset. The voter set lives in the log (KIP-853), and may be truncated like all of it."""

from collections.abc import Iterable

import attrs

from kraft.bounds import Address, DirectoryId, NodeId


@attrs.frozen(order=True)
class ReplicaKey:
    """A replica: its node, and the directory that holds its log.

    A node that lost its disk comes back with another directory id. It has forgotten its votes and what it
    acknowledged, so it must not pass for the voter it was. An empty directory id stands for any.
    """

    node_id: NodeId
    directory_id: DirectoryId = ""

    def matches(self, other: "ReplicaKey") -> bool:
        """Whether both may be the same replica: an id that one side does not know is not compared."""
        same_directory = not self.directory_id or not other.directory_id or self.directory_id == other.directory_id
        return self.node_id == other.node_id and same_directory


@attrs.frozen
class Voter:
    """`address` is what the driver connects to; the core only passes it on."""

    key: ReplicaKey
    address: Address = ""

    @property
    def node_id(self) -> int:
        return self.key.node_id


def _in_order(voters: Iterable[Voter]) -> tuple[Voter, ...]:
    return tuple(sorted(voters, key=lambda voter: voter.node_id))


@attrs.frozen
class VoterSet:
    """Immutable; in order of node ids, each at most once."""

    voters: tuple[Voter, ...] = attrs.field(default=(), converter=_in_order)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.node_id for voter in self.voters)

    def get(self, node_id: int) -> Voter | None:
        for voter in self.voters:
            if voter.key.node_id == node_id:
                return voter
        return None

    def contains(self, key: ReplicaKey) -> bool:
        voter = self.get(key.node_id)
        return voter is not None and voter.key.matches(key)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """With `voter` added, or in place of the one with its node id."""
        return VoterSet((*self.without(voter.node_id).voters, voter))

    def without(self, node_id: int) -> "VoterSet":
        return VoterSet(tuple(voter for voter in self.voters if voter.node_id != node_id))


class VoterSetHistory:
    """The voter sets in the log, each with the offset of its entry, above the one that held before all of them.

    The latest one counts as soon as it is in the log, committed or not (Raft's dissertation, section 4.1).
    """

    def __init__(self, initial: VoterSet) -> None:
        self._initial = initial
        self._entries: list[tuple[int, VoterSet]] = []

    @property
    def latest(self) -> VoterSet:
        return self._entries[-1][1] if self._entries else self._initial

    @property
    def latest_offset(self) -> int:
        """Where the latest voter set is in the log; -1 when the log has none."""
        return self._entries[-1][0] if self._entries else -1

    def names(self, key: ReplicaKey) -> bool:
        """Whether `key` is a voter, or was one in a set before the latest, which others may still have to learn of."""
        former = (self._initial, *(voters for _, voters in self._entries[:-1]))
        return self.latest.contains(key) or any(voter.key == key for voters in former for voter in voters.voters)

    def at(self, end_offset: int) -> VoterSet:
        """The set that the log says when it is read up to `end_offset`."""
        known = [voters for offset, voters in self._entries if offset < end_offset]
        return known[-1] if known else self._initial

    def offset_at(self, end_offset: int) -> int:
        """Where the set that `at` returns is in the log; -1 where the log does not say it."""
        return max((offset for offset, _ in self._entries if offset < end_offset), default=-1)

    def append(self, offset: int, voters: VoterSet) -> None:
        assert offset > self.latest_offset, f"voters at {offset} behind those at {self.latest_offset}"
        self._entries.append((offset, voters))

    def truncate(self, end_offset: int) -> None:
        """Forget what was at `end_offset` and above."""
        self._entries = [(offset, voters) for offset, voters in self._entries if offset < end_offset]

    def start_at(self, offset: int, voters: VoterSet) -> None:
        """The log now begins with a snapshot that ends before `offset`, in which these were the voters."""
        kept = [entry for entry in self._entries if entry[0] >= offset]
        self._entries = [(offset - 1, voters), *kept] if voters.voters else kept
