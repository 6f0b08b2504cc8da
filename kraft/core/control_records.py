"""Control records, which the quorum writes for itself: leader changes (KIP-595) and voter sets (KIP-853)."""

from collections.abc import Sequence
from typing import Final

import msgpack

from kraft.bounds import VOTERS_MAX, IsAddress, IsDirectoryId, Range
from kraft.core.voters import ReplicaKey, Voter, VoterSet
from kraft.msgpack_reading import MalformedMessage, Reading, scalar_reader
from kraft.replicated_log import Batch, BatchKind

# The core has no wall clock, so its control records have no timestamp.
NO_TIME = -1


def leader_change(base_offset: int, epoch: int, leader_id: int, granting: Sequence[int]) -> Batch:
    """The first entry of an epoch. `granting` are the voters that voted for the leader.

    Entries of earlier epochs are committed only together with it.
    """
    record: bytes = msgpack.packb([leader_id, list(granting)])
    return Batch(base_offset, epoch, NO_TIME, (record,), BatchKind.LEADER_CHANGE)


def voters_entry(base_offset: int, epoch: int, voters: VoterSet) -> Batch:
    return Batch(base_offset, epoch, NO_TIME, (encode_voters(voters),), BatchKind.VOTERS)


def encode_voters(voters: VoterSet) -> bytes:
    fields = [[voter.node_id, voter.key.directory_id, voter.address] for voter in voters.voters]
    packed: bytes = msgpack.packb(fields)
    return packed


def decode_voters(record: bytes) -> VoterSet:
    """Read what `encode_voters` wrote. Raises MalformedMessage for anything else."""
    voters = VoterSet(Reading(record).complete(_read_voters))
    if len(set(voters.ids)) < len(voters.ids):
        raise MalformedMessage("a voter set that names a voter twice")
    return voters


def is_valid_voter(voter: Voter) -> bool:
    """True if the log can hold `voter`. A voter with an invalid key could never be removed."""
    try:
        decode_voters(encode_voters(VoterSet((voter,))))
    except MalformedMessage:
        return False
    return True


def is_valid_control(batch: Batch) -> bool:
    """True if this replica can read the control records in `batch`, which another replica has sent."""
    if batch.kind is not BatchKind.VOTERS:
        return bool(batch.records)
    try:
        return len(batch.records) == 1 and bool(decode_voters(batch.records[0]).voters)
    except MalformedMessage:
        return False


def _read_voters(reading: Reading) -> tuple[Voter, ...]:
    return tuple([_read_voter(reading) for _ in range(reading.array(VOTERS_MAX))])


def _read_voter(reading: Reading) -> Voter:
    reading.array_of(3)
    return Voter(ReplicaKey(_read_node_id(reading), _read_directory_id(reading)), _read_address(reading))


_read_node_id: Final = scalar_reader(Range(0, 2**31 - 1), "a voter's id")
_read_directory_id: Final = scalar_reader(IsDirectoryId(), "a voter's directory id")
_read_address: Final = scalar_reader(IsAddress(), "a voter's address")
