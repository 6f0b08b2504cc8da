"""Voters and voter sets. Voter sets are entries of the log (KIP-853), and can be truncated like other entries."""

from collections.abc import Iterable

import attrs

from kraft import lazy_attrs
from kraft.bounds import Address, DirectoryId, NodeId


@lazy_attrs.frozen(order=True)
class ReplicaKey:
    """A replica: its node id, and the id of the directory that holds its log.

    A node that lost its disk returns with another directory id. Its vote and the entries that it acknowledged are lost,
    so it must not act as the voter that it was. An empty directory id matches any.
    """

    node_id: NodeId
    directory_id: DirectoryId = ""

    def matches(self, other: "ReplicaKey") -> bool:
        """True if both may be the same replica. Directory ids are compared only if both are set."""
        same_directory = not self.directory_id or not other.directory_id or self.directory_id == other.directory_id
        return self.node_id == other.node_id and same_directory


@lazy_attrs.frozen
class Voter:
    """`address` is the "host:port" to which the driver connects."""

    key: ReplicaKey
    address: Address = ""

    @property
    def node_id(self) -> int:
        return self.key.node_id


def _in_order(voters: Iterable[Voter]) -> tuple[Voter, ...]:
    return tuple(sorted(voters, key=lambda voter: voter.node_id))


@lazy_attrs.frozen
class VoterSet:
    """An immutable set of voters, in order of node ids. Each node id occurs once at most."""

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
        """The set with `voter` added. It replaces the voter of the same node id."""
        return VoterSet((*self.without(voter.node_id).voters, voter))

    def without(self, node_id: int) -> "VoterSet":
        return VoterSet(tuple(voter for voter in self.voters if voter.node_id != node_id))


class VoterSetHistory:
    """The voter sets in the log with the offsets of their entries, and the initial set, which holds before the first.

    The latest set is in effect as soon as it is in the log, before it is committed (Raft's dissertation, section 4.1).
    """

    def __init__(self, initial: VoterSet) -> None:
        self._initial = initial
        self._entries: list[tuple[int, VoterSet]] = []

    @property
    def latest(self) -> VoterSet:
        return self._entries[-1][1] if self._entries else self._initial

    @property
    def latest_offset(self) -> int:
        """The offset of the latest voter set; -1 if the log has none."""
        return self._entries[-1][0] if self._entries else -1

    def names(self, key: ReplicaKey) -> bool:
        """True if any of the sets contains `key`. Other replicas may not have the latest set yet."""
        former = (self._initial, *(voters for _, voters in self._entries[:-1]))
        return self.latest.contains(key) or any(voter.key == key for voters in former for voter in voters.voters)

    def at(self, end_offset: int) -> VoterSet:
        """The voter set in effect at `end_offset`."""
        known = [voters for offset, voters in self._entries if offset < end_offset]
        return known[-1] if known else self._initial

    def offset_at(self, end_offset: int) -> int:
        """The offset of the set that `at` returns; -1 if it is the initial set."""
        return max((offset for offset, _ in self._entries if offset < end_offset), default=-1)

    def append(self, offset: int, voters: VoterSet) -> None:
        assert offset > self.latest_offset, f"voters at {offset}, the latest ones are at {self.latest_offset}"
        self._entries.append((offset, voters))

    def truncate(self, end_offset: int) -> None:
        """Remove the sets from `end_offset` on."""
        self._entries = [(offset, voters) for offset, voters in self._entries if offset < end_offset]

    def start_at(self, offset: int, voters: VoterSet) -> None:
        """Replace the sets below `offset` by `voters`, the voter set of the snapshot that ends at `offset`."""
        kept = [entry for entry in self._entries if entry[0] >= offset]
        self._entries = [(offset - 1, voters), *kept] if voters.voters else kept
