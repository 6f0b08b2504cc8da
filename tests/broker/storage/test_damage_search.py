"""A search at the offset of a batch finds each bit of it that was flipped, and where intact batches follow."""

from pathlib import Path

import attrs
import pytest

from broker.storage.damage import Damage, DamagedRanges
from broker.storage.damage_search import SEARCH_BYTES, log_part, search
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.wire.records import HEADER_SIZE
from kraft.env import RealDisk, RealFile
from tests.support.bad_sectors import BadDisk
from tests.support.logs import append, flip, open_log, read_all, read_on

BATCHES = 12
LEADER_EPOCH = 3
# The bytes of a header, without those that no checksum and no order covers: half of the leader epoch may be flipped to
# an epoch that is plausible.
CHECKED = [each for each in range(HEADER_SIZE + 4) if each != 15]


@pytest.fixture(params=[100, 1 << 20], ids=["indexed", "not indexed"])
def log(tmp_path: Path, request: pytest.FixtureRequest) -> Log:
    log = open_log(tmp_path / "a-0", LogConfig(segment_bytes=400, index_interval_bytes=request.param, retention_ms=-1))
    for number in range(BATCHES):
        append(log, b"a%d" % number, b"b%d" % number, leader_epoch=LEADER_EPOCH)
    assert len(log.segments) == 3
    return log


def found_all(log: Log, offset: int, disk: RealDisk | None = None) -> list[Damage]:
    return search(disk or RealDisk(), log_part(log, offset, LEADER_EPOCH)[1]).damage


def found(log: Log, offset: int) -> Damage | None:
    """The only damage."""
    damage = found_all(log, offset)
    assert len(damage) <= 1
    return damage[0] if damage else None


def test_no_damage_is_found_in_an_intact_log(log: Log) -> None:
    assert [found(log, offset) for offset in range(2 * BATCHES)] == [None] * 2 * BATCHES


@pytest.mark.parametrize("number", range(BATCHES))
def test_each_flipped_bit_is_found_and_later_batches_can_be_read(log: Log, number: int) -> None:
    """The batch may be the first or the last of a segment, and of the log."""
    before = [record.value for record in read_all(log)]
    offset = 2 * number
    batch = log.segments.locate(offset)[:2]
    for byte in CHECKED:
        flip(batch, byte)
        damage = found(log, offset)
        assert damage is not None, f"byte {byte}"
        assert damage.first_offset == offset < damage.end_offset, f"byte {byte}"
        assert damage == found(log, offset + 1)
        log.segments.damaged = DamagedRanges((damage,))
        after = _values(log, damage.end_offset, log.readable_end_offset)
        assert _values(log, 0, offset) + after == before[:offset] + before[damage.end_offset :], f"byte {byte}"
        log.segments.damaged = None
        flip(batch, byte)
    assert found(log, offset) is None


def test_all_damage_of_a_part_is_found(log: Log) -> None:
    """Damage that is known, or that is in deleted records, does not hide what follows."""
    for offset in (0, 4):
        flip(log.segments.locate(offset)[:2], HEADER_SIZE)
    for offset in range(6):
        damage = found_all(log, offset)
        assert [each.first_offset for each in damage] in ([0, 4], [4])
        assert [each.end_offset for each in damage][-1] == 6
    assert [each.first_offset for each in found_all(log, 0)] == [0, 4]


def test_damaged_places_of_one_search_are_bounded_and_a_later_search_finds_the_others(tmp_path: Path) -> None:
    log = open_log(tmp_path / "a-0", LogConfig(index_interval_bytes=100, retention_ms=-1))
    for number in range(330):
        append(log, b"%d" % number, leader_epoch=LEADER_EPOCH)
    for offset in range(0, 330, 3):
        flip(log.segments.locate(offset)[:2], HEADER_SIZE)
    first = found_all(log, 0)
    assert [each.first_offset for each in first] == list(range(0, 300, 3))
    assert [each.first_offset for each in found_all(log, 301)][-10:] == list(range(300, 330, 3))


def test_only_batches_in_bad_sectors_are_damaged(tmp_path: Path) -> None:
    """A larger piece of the file is read at once, and fails as a whole."""
    log = open_log(tmp_path / "a-0", LogConfig(retention_ms=-1))
    for number in range(BATCHES):
        append(log, b"%d" % number, leader_epoch=LEADER_EPOCH)
    disk = BadDisk()
    disk.bad[log.segments[0].path] = range(log.segments.locate(4)[1] + 62, log.segments.locate(6)[1] + 10)
    part = log_part(log, 0, LEADER_EPOCH)[1]
    damage = search(disk, attrs.evolve(part, positions=[log.segments.locate(8)[1]])).damage
    assert [(each.first_offset, each.end_offset) for each in damage] == [(4, 9)]  # the index does not tell of 7


def test_epochs_that_the_metadata_has_lost_are_no_damage(tmp_path: Path) -> None:
    """After `kraft accept-loss`, leaders begin again with an earlier epoch: records of later ones stay readable."""
    log = open_log(tmp_path / "a-0", LogConfig(retention_ms=-1))
    for epoch in (2, 5, 5, 5, 3, 3):
        append(log, b"value", leader_epoch=epoch)
    for offset in range(log.log_end_offset):
        assert search(RealDisk(), log_part(log, offset, 3)[1]).damage == []
    flip(log.segments.locate(4)[:2], 14)  # the leader epoch of one batch
    assert [each.first_offset for each in search(RealDisk(), log_part(log, 0, 3)[1]).damage] == [4]


class MeasuringDisk(RealDisk):
    """Counts the bytes that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def open(self, path: str, *, create: bool = False) -> RealFile:
        disk, file = self, super().open(path, create=create)

        class MeasuringFile(RealFile):
            def read(self, offset: int, count: int) -> bytes:
                data = file.read(offset, count)
                disk.bytes_read += len(data)
                return data

            def close(self) -> None:
                file.close()

        return MeasuringFile(path, -1)


@pytest.mark.parametrize("is_index_damaged", [False, True])
def test_search_reads_only_the_batches_near_its_offset(tmp_path: Path, is_index_damaged: bool) -> None:
    """A client that reads near damage must not make a broker read whole segments; with a damaged index, they count."""
    log = open_log(tmp_path / "a-0", LogConfig(index_interval_bytes=4096, retention_ms=-1))
    for _ in range(80):
        append(log, bytes(50_000), leader_epoch=LEADER_EPOCH)
    flip(log.segments.locate(70)[:2], HEADER_SIZE + 4)
    part = log_part(log, 70, LEADER_EPOCH)[1]
    if is_index_damaged:
        part = attrs.evolve(part, starts=[(offset + 7, at) for offset, at in part.starts[:-1]] + [part.starts[-1]])
    disk = MeasuringDisk()
    result = search(disk, part)
    assert [each.first_offset for each in result.damage] == [70]
    assert (disk.bytes_read > 3 << 20) == is_index_damaged
    assert disk.bytes_read <= result.bytes_read + SEARCH_BYTES


def _values(log: Log, offset: int, end_offset: int) -> list[bytes | None]:
    """The values from `offset` on, as a consumer reads them that stops at `end_offset`."""
    values: list[bytes | None] = []
    while offset < end_offset:
        records, offset = read_on(log, offset)
        values += [record.value for record in records]
    return values
