"""Recovery of a metadata log with lost files or bytes."""

import pytest

from kraft.core import ElectionState, QuorumConfig, ReplicaKey, Voter, VoterSet
from kraft.log import CorruptLog, DurableLog, QuorumStateFile
from kraft.recovery import format_log, recover
from kraft.replicated_log import Batch, BatchKind
from tests.support.directory_ids import directory_id
from tests.support.volatile_disk import VolatileDisk

DIRECTORY = "/data/__cluster_metadata-0"
ME, OTHER = ReplicaKey(1, directory_id("one")), ReplicaKey(2, directory_id("two"))


async def written(*voters: ReplicaKey) -> VolatileDisk:
    """A replica that has voted in epoch 5, and has an entry of that epoch."""
    disk = VolatileDisk()
    await format_log(disk, DIRECTORY, VoterSet(tuple(map(Voter, voters))), [])
    log, _ = await DurableLog.open(disk, DIRECTORY)
    log.write(Batch(0, 5, 0, (b"entry",), BatchKind.DATA))
    await log.sync()
    log.close()
    await (await QuorumStateFile.open(disk, DIRECTORY)).save(ElectionState(5, OTHER))
    return disk


async def lose_vote(disk: VolatileDisk, damage: str) -> None:
    if damage == "gone":
        await disk.remove(f"{DIRECTORY}/quorum-state")
    else:
        disk.put(f"{DIRECTORY}/quorum-state", b"garbage" * 150)


@pytest.mark.parametrize("damage", ["gone", "garbage"])
async def test_voter_without_its_quorum_state_refuses_every_start(damage: str) -> None:
    disk = await written(ME, OTHER)
    await lose_vote(disk, damage)
    for _ in range(2):
        with pytest.raises(
            CorruptLog, match=r"quorum-state is lost or damaged.* for whom it has voted.* removed and added"
        ):
            await recover(disk, DIRECTORY, VoterSet(), QuorumConfig(ME))


@pytest.mark.parametrize(
    ("voters", "me"), [((ME,), ME), ((OTHER,), ME), ((OTHER, ReplicaKey(1, directory_id("old"))), ME)]
)
async def test_sole_voter_or_observer_starts_without_its_quorum_state(
    voters: tuple[ReplicaKey, ...], me: ReplicaKey
) -> None:
    disk = await written(*voters)
    await lose_vote(disk, "gone")
    recovered = await recover(disk, DIRECTORY, VoterSet(), QuorumConfig(me))
    assert recovered.election.was_lost
    assert recovered.log_state.end_offset == 1


async def test_new_replica_starts_without_a_quorum_state() -> None:
    disk = VolatileDisk()
    await format_log(disk, DIRECTORY, VoterSet((Voter(ME), Voter(OTHER))), [])
    assert (await recover(disk, DIRECTORY, VoterSet(), QuorumConfig(ME))).election.state == ElectionState()


@pytest.mark.parametrize(("tail", "torn_bytes"), [(b"KRL1 torn", 9), (bytes(100), 0), (b"", 0)])
async def test_bytes_cut_off_the_end_are_counted_unless_they_are_zeros(tail: bytes, torn_bytes: int) -> None:
    disk = await written(ME)
    path = f"{DIRECTORY}/{0:020}.log"
    disk.put(path, disk.content(path) + tail)
    assert (await recover(disk, DIRECTORY, VoterSet(), QuorumConfig(ME))).log.torn_bytes == torn_bytes


@pytest.mark.parametrize(
    "name",
    ["foo.log", "foo.checkpoint", "1-2-3.checkpoint", "9" * 20 + ".log", "9" * 20 + "-" + "9" * 10 + ".checkpoint"],
)
async def test_files_with_other_names_are_ignored(name: str) -> None:
    disk = await written(ME)
    disk.put(f"{DIRECTORY}/{name}", b"whatever")
    assert (await recover(disk, DIRECTORY, VoterSet(), QuorumConfig(ME))).log_state.end_offset == 1
    assert disk.content(f"{DIRECTORY}/{name}") == b"whatever"
