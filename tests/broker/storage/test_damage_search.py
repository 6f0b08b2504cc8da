"""A search at the offset of a batch finds each bit of it that was flipped, and where intact batches follow."""

from pathlib import Path

import pytest

from broker.storage.damage import Damage, DamagedRanges
from broker.storage.damage_search import log_part, search
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.wire.records import HEADER_SIZE
from kraft.env import RealDisk
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


def found(log: Log, offset: int) -> Damage | None:
    return search(RealDisk(), log_part(log, offset, LEADER_EPOCH)[1])


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


def _values(log: Log, offset: int, end_offset: int) -> list[bytes | None]:
    """The values from `offset` on, as a consumer reads them that stops at `end_offset`."""
    values: list[bytes | None] = []
    while offset < end_offset:
        records, offset = read_on(log, offset)
        values += [record.value for record in records]
    return values
