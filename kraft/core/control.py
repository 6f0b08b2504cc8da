"""The entries that the quorum writes for itself: who leads an epoch (KIP-595), and who votes (KIP-853)."""

from collections.abc import Sequence

import msgpack

from kraft.core.voters import ReplicaKey, Voter, VoterSet
from kraft.replicated_log import Batch, BatchKind

# The core has no wall clock to stamp its own entries with.
NO_TIME = -1


def leader_change(base_offset: int, epoch: int, leader_id: int, granting: Sequence[int]) -> Batch:
    """The first entry of an epoch: nothing older commits before it does. `granting` are the voters it won with."""
    record: bytes = msgpack.packb([leader_id, list(granting)])
    return Batch(base_offset, epoch, NO_TIME, (record,), BatchKind.LEADER_CHANGE)


def voters_entry(base_offset: int, epoch: int, voters: VoterSet) -> Batch:
    return Batch(base_offset, epoch, NO_TIME, (encode_voters(voters),), BatchKind.VOTERS)


def encode_voters(voters: VoterSet) -> bytes:
    fields = [[voter.node_id, voter.key.directory_id, voter.address] for voter in voters.voters]
    packed: bytes = msgpack.packb(fields)
    return packed


def decode_voters(record: bytes) -> VoterSet:
    fields = msgpack.unpackb(record)
    return VoterSet(tuple(Voter(ReplicaKey(node_id, directory), address) for node_id, directory, address in fields))
