"""DurableLog: synced batches survive, unsynced ones may be lost, and damage is always detected."""

from random import Random

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from kraft.core import OffsetAndEpoch
from kraft.env import FsyncFailed
from kraft.log import DurableLog, EntriesLost
from kraft.replicated_log import Batch, BatchKind
from tests.support.volatile_disk import VolatileDisk

DIRECTORY = "/data/__cluster_metadata-0"
PATH = f"{DIRECTORY}/00000000000000000000.log"

FIRST = Batch(0, 1, 1_000, (b"one", b"", b"three"))
SECOND = Batch(3, 1, 2_000, (b"four" * 10,))
THIRD = Batch(4, 7, 3_000, (b"five", b"six"))


async def written(*batches: Batch) -> VolatileDisk:
    """A disk whose log holds `batches`, each synced before the next is written."""
    disk = VolatileDisk()
    log, _ = await DurableLog.open(disk, DIRECTORY)
    for batch in batches:
        log.write(batch)
        await log.sync()
    return disk


async def recovered(disk: VolatileDisk) -> list[Batch]:
    log, batches = await DurableLog.open(disk, DIRECTORY)
    assert log.end_offset == (batches[-1].last_offset + 1 if batches else 0)
    assert log.epoch == (batches[-1].epoch if batches else 0)
    return batches


async def test_written_batches_are_read_after_a_restart() -> None:
    assert await recovered(await written(FIRST, SECOND, THIRD)) == [FIRST, SECOND, THIRD]


async def test_empty_log_survives_a_power_cut_right_after_its_creation() -> None:
    disk = await written()
    disk.power_cut(Random(1))
    assert disk.exists(PATH)
    assert await recovered(disk) == []


async def test_file_cut_at_any_byte_keeps_its_longest_intact_prefix() -> None:
    content = (await written(FIRST, SECOND, THIRD)).content(PATH)
    ends = {len((await written(*batches)).content(PATH)): batches for batches in ([], [FIRST], [FIRST, SECOND])}
    for size in range(len(content)):
        disk = VolatileDisk()  # without a durable-end file, as if the rest had never been synced
        disk.put(PATH, content[:size])
        expected = ends[max(end for end in ends if end <= size)]
        assert await recovered(disk) == expected, f"cut at {size}"


@pytest.mark.parametrize("batches", [(FIRST,), (FIRST, SECOND, THIRD)])
async def test_a_flipped_bit_anywhere_tells_of_lost_entries_and_nothing_is_cut(batches: tuple[Batch, ...]) -> None:
    """Also without the durable-end file, of which a power cut may leave an earlier content, or none."""
    content = (await written(*batches)).content(PATH)
    ends = [len((await written(*batches[:count])).content(PATH)) for count in range(len(batches))]
    for bit in range(len(content) * 8):
        disk = VolatileDisk()
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        disk.put(PATH, bytes(damaged))
        with pytest.raises(EntriesLost, match="is damaged at byte") as lost:
            await DurableLog.open(disk, DIRECTORY)
        intact = max(index for index, end in enumerate(ends) if end <= bit // 8)
        assert lost.value.batches == [*batches[:intact]], f"bit {bit}"
        assert lost.value.lost_end == OffsetAndEpoch(batches[-1].last_offset + 1, batches[-1].epoch)
        assert disk.content(PATH) == damaged


async def test_a_flipped_bit_in_one_of_several_batches_of_a_sync_tells_of_all_of_them() -> None:
    disk = VolatileDisk()
    log, _ = await DurableLog.open(disk, DIRECTORY)
    for batch in (FIRST, SECOND, THIRD):
        log.write(batch)
    await log.sync()
    content = bytearray(disk.content(PATH))
    content[20] ^= 1
    other = VolatileDisk()
    other.put(PATH, bytes(content))
    with pytest.raises(EntriesLost) as lost:
        await DurableLog.open(other, DIRECTORY)
    assert (lost.value.batches, lost.value.lost_end) == ([], OffsetAndEpoch(6, 7))


@pytest.mark.parametrize("damage", ["cut", "zeros", "garbage"])
async def test_a_log_that_ends_before_the_durable_end_has_lost_entries(damage: str) -> None:
    disk = await written(FIRST, SECOND, THIRD)
    content, start = disk.content(PATH), len((await written(FIRST, SECOND)).content(PATH))
    rest = len(content) - start
    disk.put(PATH, content[:start] + {"cut": b"", "zeros": bytes(rest), "garbage": b"\xa5" * rest}[damage])
    with pytest.raises(EntriesLost, match=r"all before offset 6 \(epoch 7\) was durable"):
        await DurableLog.open(disk, DIRECTORY)

    for _ in range(2):
        log, batches = await DurableLog.open(disk, DIRECTORY, cut=True)
        assert (batches, log.end, log.durable_end) == ([FIRST, SECOND], OffsetAndEpoch(4, 1), OffsetAndEpoch(6, 7))
        log.close()
    log, _ = await DurableLog.open(disk, DIRECTORY, cut=True)
    log.write(THIRD)
    assert log.durable_end == OffsetAndEpoch(6, 7)
    await log.sync()
    log.close()
    assert await recovered(disk) == [FIRST, SECOND, THIRD]


async def test_a_snapshot_covers_lost_entries_before_its_end() -> None:
    disk = await written(FIRST, SECOND)
    disk.put(PATH, disk.content(PATH)[:-1])
    _, batches = await DurableLog.open(disk, DIRECTORY, OffsetAndEpoch(4, 1))
    assert batches == [FIRST]


async def test_truncated_entries_do_not_count_as_lost() -> None:
    disk = await written(FIRST, SECOND, THIRD)
    log, _ = await DurableLog.open(disk, DIRECTORY)
    await log.truncate(3)
    assert log.durable_end == OffsetAndEpoch(3, 1)
    log.close()
    assert await recovered(disk) == [FIRST]


async def test_a_truncation_while_entries_are_lost_keeps_the_durable_end() -> None:
    disk = await written(FIRST, SECOND, THIRD)
    disk.put(PATH, disk.content(PATH)[:-1])
    log, _ = await DurableLog.open(disk, DIRECTORY, cut=True)
    await log.truncate(3)
    assert (log.end, log.durable_end) == (OffsetAndEpoch(3, 1), OffsetAndEpoch(6, 7))


async def test_a_power_cut_during_a_truncation_loses_no_entries_that_count() -> None:
    for seed in range(20):
        disk = await written(FIRST, SECOND, THIRD)
        log, _ = await DurableLog.open(disk, DIRECTORY)
        disk.failing = True
        with pytest.raises(FsyncFailed):
            await log.truncate(3)
        disk.failing = False
        disk.power_cut(Random(seed))
        assert await recovered(disk) in ([FIRST], [FIRST, SECOND, THIRD])


async def test_a_flipped_bit_in_the_durable_end_file_harms_nothing() -> None:
    intact = await written(FIRST, SECOND, THIRD)
    path = f"{DIRECTORY}/durable-end"
    content = intact.content(path)
    for bit in range(0, len(content) * 8, 5):
        disk = VolatileDisk()
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        disk.put(PATH, intact.content(PATH))
        disk.put(path, bytes(damaged))
        log, batches = await DurableLog.open(disk, DIRECTORY)
        assert (batches, log.durable_end) == ([FIRST, SECOND, THIRD], OffsetAndEpoch(6, 7))


async def test_given_up_entries_are_no_longer_lost() -> None:
    disk = await written(FIRST, SECOND, THIRD)
    disk.put(PATH, disk.content(PATH)[:-1])
    log, _ = await DurableLog.open(disk, DIRECTORY, cut=True)
    await log.accept_loss()
    log.close()
    assert await recovered(disk) == [FIRST, SECOND]


@pytest.mark.parametrize("tail", [bytes(4096), b"KRL1", b"KRL1\x00\x00\x00\x05\x00\x00\x00\x00abcde", b"\xff" * 100])
async def test_garbage_after_the_last_batch_is_cut(tail: bytes) -> None:
    disk = await written(FIRST)
    content = disk.content(PATH)
    disk.put(PATH, content + tail)
    assert await recovered(disk) == [FIRST]
    assert disk.content(PATH) == content


async def test_batch_with_a_wrong_offset_or_epoch_is_cut() -> None:
    first, third = (await written(FIRST)).content(PATH), (await written(FIRST, SECOND, THIRD)).content(PATH)
    gap = third[len((await written(FIRST, SECOND)).content(PATH)) :]
    disk = VolatileDisk()
    disk.put(PATH, first + gap)
    with pytest.raises(EntriesLost):  # a later frame records that more was durable than the file contains
        await DurableLog.open(disk, DIRECTORY)


@given(seed=st.integers(0, 2**32), synced=st.integers(0, 4), unsynced=st.integers(0, 4))
def test_power_cut_between_write_and_sync_leaves_a_prefix_with_all_synced_batches(
    seed: int, synced: int, unsynced: int
) -> None:
    async def run() -> None:
        batches = [Batch(offset, 1, 0, (b"%d" % offset * 50,)) for offset in range(synced + unsynced)]
        disk = await written(*batches[:synced])
        log, _ = await DurableLog.open(disk, DIRECTORY)
        for batch in batches[synced:]:
            log.write(batch)
        disk.power_cut(Random(seed))
        after = await recovered(disk)
        assert after == batches[: len(after)]
        assert len(after) >= synced

    trio.run(run)


async def test_recovery_rewrites_data_that_a_failed_sync_left_in_the_page_cache() -> None:
    """After a failed fsync, the page cache has pages that are clean but not on the disk."""
    disk = await written(FIRST)
    log, _ = await DurableLog.open(disk, DIRECTORY)
    log.write(SECOND)
    disk.failing = True
    with pytest.raises(FsyncFailed):
        await log.sync()
    disk.failing = False

    log, batches = await DurableLog.open(disk, DIRECTORY)  # the process restarts, but the machine does not
    assert batches == [FIRST, SECOND]
    log.write(THIRD)
    await log.sync()
    disk.power_cut(Random(1))
    assert await recovered(disk) == [FIRST, SECOND, THIRD]


async def test_log_continues_where_a_torn_tail_was_cut() -> None:
    disk = await written(FIRST)
    log, _ = await DurableLog.open(disk, DIRECTORY)
    log.write(SECOND)  # not synced
    log.close()
    disk.put(PATH, disk.content(PATH)[:-1])
    log, batches = await DurableLog.open(disk, DIRECTORY)
    assert batches == [FIRST]
    replacement = Batch(3, 2, 5_000, (b"other",))
    log.write(replacement)
    await log.sync()
    assert await recovered(disk) == [FIRST, replacement]


async def test_truncated_batches_are_gone_and_others_may_follow() -> None:
    disk = await written(FIRST, SECOND, THIRD)
    log, _ = await DurableLog.open(disk, DIRECTORY)
    await log.truncate(3)
    assert (log.end_offset, log.epoch) == (3, 1)
    assert log.read(0, 99, 1_000) == (FIRST,)
    replacement = Batch(3, 9, 5_000, (b"x",), BatchKind.LEADER_CHANGE)
    log.write(replacement)
    await log.sync()
    assert await recovered(disk) == [FIRST, replacement]


async def test_a_truncation_survives_a_power_cut() -> None:
    disk = await written(FIRST, SECOND, THIRD)
    log, _ = await DurableLog.open(disk, DIRECTORY)
    await log.truncate(0)
    log.write(Batch(0, 9, 0, (b"not synced",)))
    disk.power_cut(Random(3))
    assert THIRD not in await recovered(disk)


async def test_a_log_is_read_in_whole_batches_up_to_a_size() -> None:
    log, _ = await DurableLog.open(await written(FIRST, SECOND, THIRD), DIRECTORY)
    assert log.read(0, 99, 1_000) == (FIRST, SECOND, THIRD)
    assert log.read(3, 99, 1_000) == (SECOND, THIRD)
    assert log.read(0, 99, 1) == (FIRST,)
    assert log.read(0, 4, 1_000) == (FIRST, SECOND)
    assert log.read(6, 99, 1_000) == ()
    size = len((await written(FIRST, SECOND)).content(PATH))
    assert log.read(0, 99, size) == (FIRST, SECOND)
    assert log.read(0, 99, size - 1) == (FIRST,)
