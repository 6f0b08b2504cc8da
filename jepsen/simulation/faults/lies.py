"""The messages of a lying peer in the quorum's protocol: requests and responses that no correct replica would send.

Raft trusts its voters in four respects: the votes that they grant, the log ends that they acknowledge, the entries that
a leader sends, and their addresses. With lies about these, a peer that uses a voter's name (see docs/simulation.md)
could make committed entries or the voter itself disappear, in this implementation as in every Raft. So the peer does
not lie about them:

- no vote is granted;
- a Fetch in the name of a replica that may vote acknowledges what that replica has on its disk, or an end beyond
  every log;
- a peer that claims to lead sends no readable entries that fit the log, no position to truncate to, no valid snapshot,
  and no high watermark above zero;
- no replica that may vote is moved to another address: if too few others know the right one, it cannot be elected.

One more lie is left out. A replica that does not vote, and receives an epoch that the voters have not reached, finds no
leader until they have reached it (in Kafka, too). So such an epoch is sent to voters only. All other lies may be sent.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, TypeVar

import attrs

from jepsen.simulation.invariants import Replicas
from kraft.core import OffsetAndEpoch, ReplicaKey, Voter
from kraft.core import messages as said
from kraft.core.messages import CurrentLeader, Error, Request, Response
from kraft.core.plausible_epochs import EPOCH_END
from kraft.replicated_log import Batch, BatchKind

T = TypeVar("T")

# Beyond every log of a simulation.
FAR: Final = 1 << 40
# Epochs up to this one, and some above it, are accepted as plausible (`kraft.core.plausible_epochs`).
LARGE_EPOCH: Final = 50_000_000
# Class numbers of frames that can be decoded, and of frames that cannot.
_NUMBERS: Final = (0, 1, 2, 2**15, 2**31 - 1)
_MALFORMED_NUMBERS: Final = (-1, -(2**63), 2**63, 2**64 - 1)
# A node id that no simulated node has.
STRANGE_ID: Final = 4711
STRANGE_DIRECTORY: Final = "strangestrangestrangeA"
_MALFORMED_DIRECTORIES: Final = ("not a uuid", "x" * 600, "\0", "../../etc", "A" * 22)
_STRANGE_ADDRESSES: Final = ("", "nowhere:9093", "n1:1", "localhost:9093")
_MALFORMED_ADDRESSES: Final = ("n1", "n1:", "n1:-1", "n1:99999", ":", "x" * 300 + ":1")
# The probability of a frame that cannot be decoded, which ends the connection.
_MALFORMED_SHARES: Final = (0.0, 0.001, 0.05)


@attrs.frozen
class QuorumMembers:
    """The state of the quorum, all of which the lying peer knows.

    `names` maps node ids to hosts; those in `serving` serve the quorum's protocol at `port` and may become voters.
    `key_of` returns the replica on a host's disk. Without `founders_have_disks` the voters are configured by their ids
    alone, and a replica accepts any directory id of a voter until its log names the right one.
    """

    cluster_id: Callable[[], str]
    names: Mapping[int, str]
    serving: Sequence[str]
    port: int
    replicas: Replicas
    key_of: Callable[[str], ReplicaKey | None]
    founders_have_disks: bool

    def epoch_of(self, name: str) -> int:
        """The last epoch that a node has traced."""
        replica = self.replicas.by_host.get(name)
        return 0 if replica is None else max(replica.epoch, replica.vote[0])

    def end_of(self, name: str) -> OffsetAndEpoch:
        """The end of the last batch that is durable on a node's disk."""
        replica = self.replicas.by_host.get(name)
        entries = [] if replica is None else list(replica.entries.values())
        for _, end_offset, epoch in reversed(entries):
            if replica is not None and end_offset <= replica.synced_end_offset:
                return OffsetAndEpoch(end_offset, epoch)
        return OffsetAndEpoch(0, 0)

    def may_vote(self, node_id: int) -> bool:
        return self.names.get(node_id) in self.serving

    def votes(self, name: str) -> bool:
        """True if all replicas know the replica on a host as a voter."""
        key = self.key_of(name)
        views = [replica.voters for replica in self.replicas.by_host.values()]
        return key is not None and all(any(ReplicaKey(*each).matches(key) for each in view) for view in views)


class Lies:
    """Random false messages of the replica `me`. `address` is where the lying peer listens, or "" if it does not.

    A moderate one sends only epochs near the real ones. A usurper mostly claims to be the leader.
    """

    def __init__(self, members: QuorumMembers, me: ReplicaKey, rng: Random) -> None:
        self.address = ""
        self._members = members
        self._me = me
        self._rng = rng
        self._is_moderate = rng.random() < 0.5
        self._is_usurper = rng.random() < 0.3
        self._malformed_share = rng.choice(_MALFORMED_SHARES)

    def request(self, target: str) -> Request:
        """A false request for the node on host `target`."""
        rng, epoch = self._rng, self._epoch(target)
        if self._is_usurper and rng.random() < 0.95:
            own = self._members.epoch_of(target)
            claimed = own + 1 if self._members.votes(target) and rng.random() < 0.05 else own
            return said.BeginEpochRequest(claimed, self._me.node_id, self.address, self._key(target))
        match rng.randrange(8):
            case 0 | 1:
                end = rng.choice((self._members.end_of(target), self._place()))
                return said.VoteRequest(epoch, self._own_key(), self._key(target), end, pre_vote=rng.random() < 0.5)
            case 2:
                return said.BeginEpochRequest(epoch, self._own_key().node_id, self._some_address(), self._key(target))
            case 3:
                successors = tuple(rng.choices([*self._members.names, self.number()], k=rng.choice((0, 1, 3, 50))))
                return said.EndEpochRequest(epoch, self._own_key().node_id, successors)
            case 4 | 5:
                return said.FetchRequest(epoch, self._own_key(), self._acknowledged(target), self.number())
            case 6 if not self._members.may_vote(self._me.node_id):
                return said.UpdateVoterRequest(Voter(self._own_key(), self._some_address()), self.number())
            case _:
                place = rng.choice((self._place(), self._members.end_of(target)))
                return said.FetchSnapshotRequest(epoch, self._own_key(), place, self.number())

    def response(self, target: str, request: Request) -> Response:
        """A false response to a request of the node on host `target`. It may be of another kind than the request."""
        rng = self._rng
        current_leader, error = self._current_leader(target), rng.choice((Error.NONE, *Error))
        if isinstance(request, said.FetchRequest | said.FetchSnapshotRequest) and rng.random() < 0.5:
            # The peer claims to be the leader that the request is meant for.
            current_leader, error = CurrentLeader(request.epoch, self._me.node_id, self.address), Error.NONE
        match rng.randrange(6):
            case 0:
                return said.VoteResponse(current_leader, False, error)
            case 1:
                return said.BeginEpochResponse(current_leader, error)
            case 2:
                return said.EndEpochResponse(current_leader, error)
            case 3:
                return self._fetched(target, request, current_leader, error)
            case 4:
                return said.VoterChangeResponse(current_leader, error, "x" * rng.choice((0, 10, 1000)))
            case _:
                position, data = self.number(), rng.randbytes(rng.choice((0, 1)))
                return said.FetchSnapshotResponse(current_leader, rng.choice((0, 1, FAR)), position, data, error)

    def number(self) -> int:
        """A random wrong offset, position, time or id."""
        return self._one_of(_NUMBERS, _MALFORMED_NUMBERS)

    def _fetched(self, target: str, request: Request, current_leader: CurrentLeader, error: Error) -> Response:
        """A response to Fetch with no data that the replica can use; see the module's docstring."""
        rng = self._rng
        match rng.randrange(5):
            case 0:
                return said.FetchResponse(current_leader, 0, error)
            case 1:
                return said.FetchResponse(current_leader, 0, error, diverging=OffsetAndEpoch(FAR, 2**31 - 1))
            case 2:
                return said.FetchResponse(current_leader, 0, error, snapshot=self._place())
            case 3 if isinstance(request, said.FetchRequest):
                nobody = Batch(request.log_end.offset, request.epoch, -1, (rng.randbytes(9),), BatchKind.VOTERS)
                return said.FetchResponse(current_leader, 0, error, batches=(nobody,))
            case _:
                kind = rng.choice(list(BatchKind))
                batch = Batch(FAR, self._epoch(target), self.number(), (rng.randbytes(5),), kind)
                return said.FetchResponse(current_leader, 0, error, batches=(batch,) * rng.choice((1, 3)))

    def _current_leader(self, target: str) -> CurrentLeader:
        leader_id = self._rng.choice((None, self._me.node_id, *self._members.names, self.number()))
        return CurrentLeader(self._epoch(target), leader_id, self._some_address())

    def _epoch(self, target: str) -> int:
        """A random epoch, most often one that the target accepts."""
        rng, own = self._rng, self._members.epoch_of(target)
        refused = (2**28, EPOCH_END - 1, EPOCH_END, 2**31 - 1, max(own - 1, 0), 0)
        if not self._members.votes(target):
            return self._one_of((own, *refused), _MALFORMED_NUMBERS)
        near = (own, own, own + 1, own + 1, own + rng.randint(2, 50), max(own - 1, 0))
        if self._is_moderate or rng.random() < 0.5:
            return rng.choice(near)
        return self._one_of((own + 1000, LARGE_EPOCH, *refused), (2**31, *_MALFORMED_NUMBERS))

    def _acknowledged(self, target: str) -> OffsetAndEpoch:
        """A log end that the peer may acknowledge; see the module's docstring."""
        far = OffsetAndEpoch(self._one_of((FAR, 2**62), _MALFORMED_NUMBERS), self.number())
        if self._members.may_vote(self._me.node_id):
            name = self._members.names[self._me.node_id]
            is_mine = self._members.key_of(name) == self._me
            return self._rng.choice((self._members.end_of(name), far)) if is_mine else far
        return self._rng.choice((self._members.end_of(target), far, self._place()))

    def _own_key(self) -> ReplicaKey:
        """The peer's own key, or rarely a different one, which counts as malformed."""
        others = (ReplicaKey(self._me.node_id, STRANGE_DIRECTORY), ReplicaKey(STRANGE_ID, self._me.directory_id))
        return self._one_of((self._me,), others)

    def _key(self, target: str) -> ReplicaKey:
        """The key of the target, or a wrong one."""
        key, rng = self._members.key_of(target), self._rng
        if key is not None and rng.random() < 0.7:
            return key
        node_id = rng.choice((*self._members.names, self.number()))
        return ReplicaKey(node_id, self._one_of(("", STRANGE_DIRECTORY), _MALFORMED_DIRECTORIES))

    def _place(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self._rng.choice((self.number(), FAR)), self.number())

    def _some_address(self) -> str:
        return self._one_of((self.address, self.address, *_STRANGE_ADDRESSES), _MALFORMED_ADDRESSES)

    def _one_of(self, readable: Sequence[T], malformed: Sequence[T]) -> T:
        return self._rng.choice(malformed if self._rng.random() < self._malformed_share else readable)
