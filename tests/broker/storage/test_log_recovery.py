"""After a crash a log opens with the longest prefix of intact batches, and interrupted operations are finished."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from struct import pack, unpack
from typing import Any

import pytest
import trio

from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.recovery import UNKNOWN
from broker.storage.retention import delete_old_segments
from broker.wire.records import iter_headers
from kraft.env import Buffer, File, RealDisk
from tests.support.logs import (
    NOW_MS,
    append,
    batch,
    close_log,
    find_timestamp,
    listing,
    open_log,
    read_all,
    read_records,
    values,
)

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100)
LOG = "00000000000000000000.log"


def batch_positions(directory: Path, name: str = LOG) -> list[int]:
    data = (directory / name).read_bytes()
    return [position for position, _ in iter_headers(data)] + [len(data)]


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """The directory of a log of five small batches that was not closed."""
    log = open_log(tmp_path / "t-0")
    for number in range(5):
        append(log, b"%d" % number, b"%d" % number)
    return tmp_path / "t-0"


def damaged(directory: Path, data: bytes) -> Log:
    (directory / LOG).write_bytes(data)
    return open_log(directory)


def test_page_cache_contents_survive_a_kill(five: Path) -> None:
    log = open_log(five)
    assert (log.log_start_offset, log.log_end_offset, log.durability.recovery_point) == (0, 10, 0)
    assert values(log) == [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3", b"4", b"4"]
    assert append(log, b"next") == 10


def test_torn_last_batch_is_cut_at_every_byte(five: Path) -> None:
    whole = (five / LOG).read_bytes()
    last = batch_positions(five)[-2]
    for size in range(last, len(whole)):
        log = damaged(five, whole[:size])
        assert log.log_end_offset == 8
        assert (five / LOG).stat().st_size == last
    assert damaged(five, whole).log_end_offset == 10


def test_every_flipped_bit_that_the_checksum_covers_cuts_the_last_batch(five: Path) -> None:
    whole = (five / LOG).read_bytes()
    last = batch_positions(five)[-2]
    leader_epoch = range(last + 12, last + 16)  # the only field that is neither covered by the checksum nor checked
    for at in (at for at in range(last, len(whole)) if at not in leader_epoch):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << bit
            assert damaged(five, flipped).log_end_offset == 8, f"byte {at - last}, bit {bit}"


def test_flipped_leader_epoch_loses_no_record(five: Path) -> None:
    whole = (five / LOG).read_bytes()
    last = batch_positions(five)[-2]
    for at in range(last + 12, last + 16):
        flipped = bytearray(whole)
        flipped[at] ^= 1
        log = damaged(five, flipped)
        assert log.log_end_offset == 10
        append(log, b"goes on", leader_epoch=1)
        assert log.epochs.latest_epoch == 1


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 61, b"\0" * 5000, b"\xff" * 200, b"nonsense" * 40, b"\0" * 16 + b"\2"])
def test_bytes_that_are_not_a_batch_end_the_log(five: Path, tail: bytes) -> None:
    whole = (five / LOG).read_bytes()
    log = damaged(five, whole + tail)
    assert log.log_end_offset == 10
    assert (five / LOG).read_bytes() == whole
    trio.run(log.durability.settle)
    append(log, b"next")
    assert open_log(five).log_end_offset == 11


def test_batch_that_overlaps_its_predecessor_ends_the_log(five: Path) -> None:
    whole = (five / LOG).read_bytes()
    positions = batch_positions(five)
    again = whole[positions[1] : positions[2]]
    assert damaged(five, whole + again).log_end_offset == 10


def test_batch_with_a_base_offset_too_far_ahead_ends_the_log(five: Path) -> None:
    whole = bytearray((five / LOG).read_bytes())
    third = batch_positions(five)[2]
    whole[third : third + 8] = pack(">q", 50)
    assert damaged(five, whole).log_end_offset == 4


def test_gaps_left_by_compaction_are_kept(five: Path) -> None:
    whole = (five / LOG).read_bytes()
    positions = batch_positions(five)
    (five / LOG).write_bytes(whole[: positions[1]] + whole[positions[2] :])
    log = open_log(five, LogConfig(cleanup_policy=("compact",)))
    assert log.log_end_offset == 10
    assert [record.offset for record in read_all(log)] == [0, 1, 4, 5, 6, 7, 8, 9]
    assert read_records(log, 2)[0].offset == 4


@pytest.mark.parametrize(
    ("recovery_point", "cleaned_offset", "is_damage"),
    [(1, -1, True), (1, 2, True), (1, 3, False), (6, -1, False), (UNKNOWN, -1, False)],
    ids=["unflushed", "cleaned before", "cleaned", "durable", "nothing known"],
)
def test_gap_of_a_compacted_log_is_damage_after_an_uncleaned_segment(
    tmp_path: Path, recovery_point: int, cleaned_offset: int, *, is_damage: bool
) -> None:
    """Segments of two records each: the one at 2 has lost its second record, by a power cut or by compaction."""
    directory = tmp_path / "t-0"
    config = LogConfig(cleanup_policy=("compact",))
    log = open_log(directory, config)
    for number in range(8):
        append(log, b"%d" % number, key=b"%d" % number)
        if number % 2:
            log.roll()
    second = directory / listing(directory, ".log")[1]
    second.write_bytes(second.read_bytes()[: batch_positions(directory, second.name)[1]])
    (directory / "leader-epoch-checkpoint").write_text("damaged")  # the whole segment must be read

    log = open_log(directory, config, recovery_point=recovery_point, cleaned_offset=cleaned_offset)

    assert values(log) == [b"%d" % number for number in ((0, 1, 2) if is_damage else (0, 1, 2, 4, 5, 6, 7))]
    assert log.durability.is_unsettled == is_damage


def test_segments_after_a_bad_batch_are_deleted(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory, SMALL)
    for number in range(60):
        append(log, b"%02d" % number)
    names = listing(directory, ".log")
    assert len(names) > 3
    path = directory / names[1]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    third = int(names[2].partition(".")[0])
    log = open_log(directory, SMALL)
    assert log.log_end_offset == third - 1
    assert values(log) == [b"%02d" % number for number in range(third - 1)]
    assert listing(directory, ".log") == names[:2]
    discarded = log.take_discarded()
    assert {path.rpartition("/")[2] for path in discarded} == set(listing(directory, ".deleted"))


def test_segments_below_the_recovery_point_are_trusted(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory, SMALL)
    for number in range(60):
        append(log, b"%02d" % number)
    bases = [segment.base_offset for segment in log.segments]
    path = directory / LOG
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    log = open_log(directory, SMALL, recovery_point=bases[2] + 1)
    assert (log.log_end_offset, log.durability.recovery_point) == (60, bases[2] + 1)
    assert open_log(directory, SMALL, recovery_point=bases[1] - 1).log_end_offset == bases[1] - 1


def test_first_segment_is_recovered_when_it_begins_after_the_recovery_point(tmp_path: Path) -> None:
    """The checkpoint may be older than the deletion of the segments before."""
    directory = tmp_path / "t-0"
    log = open_log(directory, SMALL)
    for number in range(30):
        append(log, b"%d" % number)
    _, first, *later = [segment.base_offset for segment in log.segments]
    assert later
    for path in directory.glob(LOG.replace("log", "*")):
        path.unlink()
    path = directory / f"{first:020d}.log"
    data = bytearray(path.read_bytes())
    data[batch_positions(directory, path.name)[1] - 1] ^= 1
    path.write_bytes(data)
    again = open_log(directory, SMALL, recovery_point=0, log_start_offset=first)
    assert (again.log_start_offset, again.log_end_offset) == (first, first)


def test_cleanly_closed_log_is_not_validated(five: Path) -> None:
    trio.run(close_log, open_log(five))
    content = bytearray((five / LOG).read_bytes())
    content[-1] ^= 1
    (five / LOG).write_bytes(content)
    log = open_log(five, clean=True)
    assert (log.log_end_offset, log.durability.recovery_point) == (10, 10)


def test_log_with_an_unclean_end_is_recovered_despite_its_marker(five: Path) -> None:
    trio.run(close_log, open_log(five))
    content = (five / LOG).read_bytes()
    log_cut = content[:-3]
    (five / LOG).write_bytes(log_cut)
    assert open_log(five, clean=True).log_end_offset == 8


def test_indexes_are_rebuilt_as_they_were(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory, SMALL)
    for number in range(60):
        append(log, b"%02d" % number, timestamp=NOW_MS + number % 17)
    trio.run(close_log, log)
    indexes = sorted(path for path in directory.iterdir() if path.suffix in (".index", ".timeindex"))
    original = {path: path.read_bytes() for path in indexes}
    for path in indexes:
        path.write_bytes(path.read_bytes()[::-1] + b"x")
    trio.run(close_log, open_log(directory, SMALL))
    assert {path: path.read_bytes() for path in indexes} == original


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd", "zeros", "reversed", "beyond"])
@pytest.mark.parametrize("segment", [0, 1, -1])
def test_corrupt_index_of_a_clean_log_is_rebuilt_on_use(tmp_path: Path, suffix: str, damage: str, segment: int) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory, SMALL)
    for number in range(61):
        append(log, b"%02d" % number, timestamp=NOW_MS + number)
    trio.run(close_log, log)
    path = directory / listing(directory, suffix)[segment]
    content = path.read_bytes()
    entry = 8 if suffix == ".index" else 12
    assert len(content) >= 2 * entry
    if damage == "missing":
        path.unlink()
    elif damage == "odd":
        path.write_bytes(content + b"\0\0\0")
    elif damage == "zeros":
        path.write_bytes(content + b"\0" * 10 * entry)
    elif damage == "reversed":
        entries = [content[at : at + entry] for at in range(0, len(content), entry)]
        path.write_bytes(b"".join(reversed(entries)))
    else:
        path.write_bytes(content[:-4] + pack(">i", 1 << 30))
    log = open_log(directory, SMALL, clean=True)
    for number in range(61):
        assert read_records(log, number)[0].value == b"%02d" % number
        found = find_timestamp(log, NOW_MS + number)
        assert found is not None
        assert found.offset == number
    append(log, b"next")
    assert values(log)[-2:] == [b"60", b"next"]


def test_leader_epochs_are_rebuilt_from_the_batches(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory)
    for epoch in (1, 1, 5, 8):
        append(log, b"x", leader_epoch=epoch)
    for content in (None, b"not a checkpoint", b"0\n1\n1 0\n"):
        (directory / "leader-epoch-checkpoint").unlink(missing_ok=True)
        if content is not None:
            (directory / "leader-epoch-checkpoint").write_bytes(content)
        assert open_log(directory).epochs.entries == [(1, 0), (5, 2), (8, 3)]


def test_epoch_that_begins_after_the_cut_is_dropped(five: Path) -> None:
    log = open_log(five)
    append(log, b"x", leader_epoch=6)
    content = (five / LOG).read_bytes()
    assert damaged(five, content[:-1]).epochs.entries == [(0, 0)]


@pytest.mark.parametrize("has_snapshots", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_producer_states_are_rebuilt(tmp_path: Path, has_snapshots: bool, clean: bool) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory, SMALL)
    for number in range(40):
        append(log, b"x", producer_id=number % 3, producer_epoch=1, base_sequence=number // 3)
    if clean:
        trio.run(close_log, log)
    if not has_snapshots:
        for name in listing(directory, ".snapshot"):
            (directory / name).unlink()
    log = open_log(directory, SMALL, clean=clean)
    retried = log.append(batch(b"x", producer_id=1, producer_epoch=1, base_sequence=12), leader_epoch=0, now_ms=NOW_MS)
    assert (retried.duplicate, retried.first_offset) == (True, 37)
    assert append(log, b"x", producer_id=1, producer_epoch=1, base_sequence=13) == 40


def test_producer_may_resend_a_lost_batch(five: Path) -> None:
    log = open_log(five)
    append(log, b"x", producer_id=1, producer_epoch=0, base_sequence=0)
    append(log, b"y", producer_id=1, producer_epoch=0, base_sequence=1)
    log = damaged(five, (five / LOG).read_bytes()[:-1])
    trio.run(log.durability.settle)
    assert append(log, b"y", producer_id=1, producer_epoch=0, base_sequence=1) == 11


def test_files_of_interrupted_operations_are_discarded(five: Path) -> None:
    for name in ("00000000000000000000.log.cleaned", "00000000000000000000.index.cleaned", "0.log.deleted"):
        (five / name).write_bytes(b"whatever")
    (five / "00000000000000000007.index").write_bytes(b"orphan")
    log = open_log(five)
    assert log.log_end_offset == 10
    aside = [
        "0.log.deleted",
        "00000000000000000000.index.cleaned.deleted",
        "00000000000000000000.log.cleaned.deleted",
        "00000000000000000007.index.deleted",
    ]
    assert sorted(path.rpartition("/")[2] for path in log.take_discarded()) == aside
    assert listing(five, ".deleted") == aside


def test_finished_cleaning_replaces_its_segments_at_the_next_start(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory, SMALL)
    for number in range(60):
        append(log, b"%02d" % number)
    first, second, third = listing(directory, ".log")[:3]
    cleaned = (directory / first).read_bytes() + (directory / second).read_bytes()
    (directory / (first + ".swap")).write_bytes(cleaned)
    log = open_log(directory, SMALL)
    assert listing(directory, ".log")[:2] == [first, third]
    assert values(log) == [b"%02d" % number for number in range(60)]


def test_unfinished_compaction_is_dropped_with_its_swap_files(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory, SMALL)
    for number in range(30):
        append(log, b"%02d" % number)
    first, second = listing(directory, ".log")[:2]
    shutil.copy(directory / second, directory / (second + ".swap"))
    (directory / (first + ".cleaned")).write_bytes(b"half")
    assert values(open_log(directory, SMALL)) == [b"%02d" % number for number in range(30)]
    assert listing(directory, ".swap") == []


def test_log_that_ends_before_its_start_is_restarted_there(five: Path) -> None:
    log = open_log(five, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    trio.run(log.durability.settle)
    assert append(log, b"x") == 100
    assert log.epochs.entries == [(0, 100)]


def test_empty_directory_is_an_empty_log_at_the_given_start(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", log_start_offset=42, clean=True)
    assert (log.log_start_offset, log.log_end_offset) == (42, 42)
    assert listing(tmp_path / "t-0", ".log") == ["00000000000000000042.log"]


def test_recovery_reads_batches_longer_than_its_chunks(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(max_message_bytes=10_000_000))
    append(log, b"a" * 3_000_000)
    append(log, b"b")
    append(log, b"c" * 1_100_000)
    log = open_log(tmp_path / "t-0")
    assert log.log_end_offset == 3
    assert unpack(">q", (tmp_path / "t-0" / LOG).read_bytes()[:8]) == (0,)


def test_log_with_arbitrary_bytes_opens(five: Path) -> None:
    whole = (five / LOG).read_bytes()
    for seed in range(0, len(whole), 7):
        noisy = bytearray(whole)
        noisy[seed : seed + 5] = b"\xde\xad\xbe\xef\x00"
        log = damaged(five, noisy)
        assert log.log_end_offset <= 10
        assert [record.offset for record in read_all(log)] == list(range(log.log_end_offset))


def test_segment_that_lost_its_end_at_a_batch_boundary_ends_the_log(tmp_path: Path) -> None:
    """A power cut may keep a segment and lose the last writes to the segment before it, without a torn batch."""
    log = open_log(tmp_path / "t-0", SMALL)
    while len(log.segments) < 3:
        append(log, b"x" * 100)
    first, second = listing(tmp_path / "t-0", ".log")[:2]
    positions = batch_positions(tmp_path / "t-0", first)
    with (tmp_path / "t-0" / first).open("r+b") as file:
        file.truncate(positions[-3])
    log = open_log(tmp_path / "t-0", SMALL)
    assert log.log_end_offset == int(second.removesuffix(".log")) - 2
    assert listing(tmp_path / "t-0", ".log") == [first]


class NotingDisk(RealDisk):
    """Records the writes to segment files, and which files are synced."""

    def __init__(self) -> None:
        self.written: list[tuple[int, int]] = []
        self.synced: list[str] = []

    def open(self, path: str, *, create: bool = False) -> Any:
        file = super().open(path, create=create)
        return NotingFile(self, file) if path.endswith(".log") else file


class NotingFile:
    def __init__(self, disk: NotingDisk, file: File) -> None:
        self._disk = disk
        self._file = file

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._disk.written.append((offset, sum(map(len, buffers))))
        self._file.write(offset, buffers)

    async def sync(self) -> None:
        self._disk.synced.append(self._file.path)
        await self._file.sync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_recovery_rewrites_pages_that_a_failed_fsync_may_have_left_in_the_page_cache(five: Path) -> None:
    disk = NotingDisk()
    log = open_log(five, disk=disk)
    assert disk.written == [(0, log.size_bytes)]
    assert values(open_log(five)) == values(log)


async def test_cut_by_recovery_is_settled_even_at_the_recovery_point(five: Path) -> None:
    """A flush begins at the recovery point, so a power cut could restore the removed records before later ones."""
    end_offset = open_log(five).log_end_offset
    untouched = NotingDisk()
    await open_log(five, disk=untouched, recovery_point=end_offset).durability.settle()
    assert not untouched.synced

    with (five / LOG).open("ab") as file:
        file.write(bytes(1000))
    disk = NotingDisk()
    log = open_log(five, disk=disk, recovery_point=end_offset)
    assert log.durability.recovery_point == log.log_end_offset == end_offset
    await log.durability.settle()
    assert disk.synced == [str(five / LOG)]


async def test_largest_timestamp_of_a_released_segment_survives_its_roll(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"0")
    log.commit()
    await log.flush()
    delete_old_segments(log, NOW_MS, 1)  # retention checks the log, and releases its memory
    log.roll()
    await close_log(log)
    found = find_timestamp(open_log(tmp_path / "t-0", clean=True), 0)
    assert found is not None
    assert found.offset == 0
