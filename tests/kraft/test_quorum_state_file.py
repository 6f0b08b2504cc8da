"""The saved epoch and vote survive failures of the disk."""

from random import Random

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from kraft.core import ElectionState, ReplicaKey
from kraft.env import FsyncFailed
from kraft.log import QUORUM_STATE, QuorumStateFile
from tests.support.directory_ids import directory_id
from tests.support.volatile_disk import VolatileDisk

DIRECTORY = "/data/log"


def state(epoch: int) -> ElectionState:
    return ElectionState(epoch, ReplicaKey(epoch % 3, directory_id("d")) if epoch % 2 else None)


async def test_new_file_has_epoch_zero() -> None:
    assert (await QuorumStateFile.open(VolatileDisk(), DIRECTORY)).state == ElectionState()


@given(seed=st.integers(0, 2**32), saved=st.integers(0, 5), restarts=st.integers(0, 2))
def test_power_cut_during_a_save_leaves_the_state_before_or_after(seed: int, saved: int, restarts: int) -> None:
    async def run() -> None:
        disk = VolatileDisk()
        file = await QuorumStateFile.open(disk, DIRECTORY)
        for epoch in range(1, saved + 1):
            await file.save(state(epoch))
        for _ in range(restarts):
            file = await QuorumStateFile.open(disk, DIRECTORY)

        async def cut() -> None:
            raise FsyncFailed("power cut")

        disk.during_sync = cut
        with pytest.raises(FsyncFailed):
            await file.save(state(saved + 1))
        disk.power_cut(Random(seed))
        disk.during_sync = trio.lowlevel.checkpoint
        recovered = (await QuorumStateFile.open(disk, DIRECTORY)).state
        assert recovered in (state(saved) if saved else ElectionState(), state(saved + 1))

    trio.run(run)


@given(seed=st.integers(0, 2**32), saved=st.integers(0, 5))
def test_power_cut_during_the_rewrite_after_a_failed_sync_loses_nothing(seed: int, saved: int) -> None:
    async def run() -> None:
        disk = VolatileDisk()
        file = await QuorumStateFile.open(disk, DIRECTORY)
        for epoch in range(1, saved + 1):
            await file.save(state(epoch))
        disk.failing = True
        with pytest.raises(FsyncFailed):
            await file.save(state(saved + 1))
        for _ in range(2):
            with pytest.raises(FsyncFailed):
                await QuorumStateFile.open(disk, DIRECTORY)
        disk.failing = False

        async def cut() -> None:
            raise FsyncFailed("power cut")

        disk.during_sync = cut
        with pytest.raises(FsyncFailed):
            await QuorumStateFile.open(disk, DIRECTORY)
        disk.power_cut(Random(seed))
        disk.during_sync = trio.lowlevel.checkpoint
        recovered = (await QuorumStateFile.open(disk, DIRECTORY)).state
        assert recovered in (state(saved) if saved else ElectionState(), state(saved + 1))

    trio.run(run)


async def test_a_flipped_bit_anywhere_keeps_the_latest_vote() -> None:
    intact = VolatileDisk()
    file = await QuorumStateFile.open(intact, DIRECTORY)
    for epoch in (1, 2):
        await file.save(state(epoch))
    path = f"{DIRECTORY}/{QUORUM_STATE}"
    content = intact.content(path)
    for bit in range(0, len(content) * 8, 7):
        disk = VolatileDisk()
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        disk.put(path, bytes(damaged))
        assert (await QuorumStateFile.open(disk, DIRECTORY)).state == state(2)


async def test_recovered_state_is_made_durable_before_it_is_used() -> None:
    """After a failed sync, the page cache has pages that are not on the disk."""
    disk = VolatileDisk()
    file = await QuorumStateFile.open(disk, DIRECTORY)
    disk.failing = True
    with pytest.raises(FsyncFailed):
        await file.save(state(1))
    disk.failing = False
    # The process restarts, but the machine does not.
    assert (await QuorumStateFile.open(disk, DIRECTORY)).state == state(1)
    disk.power_cut(Random(1))
    assert (await QuorumStateFile.open(disk, DIRECTORY)).state == state(1)
