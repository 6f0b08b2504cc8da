"""Scans of a segment's batches read the file in chunks, and nothing after the end that they are given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.storage.batch_scan import scan_batches, scan_headers
from broker.wire.records import HEADER_SIZE, CorruptBatch
from kraft.env import RealDisk, RealFile
from tests.support.logs import append, open_log

BATCHES, CHUNK = 30, 4096


class MeasuredFile(RealFile):
    """Notes the place and the size of each read."""

    def __init__(self, path: str) -> None:
        super().__init__(path, -1)
        self._opened = RealDisk().open(path)
        self.reads: list[tuple[int, int]] = []

    def read(self, offset: int, count: int) -> bytes:
        self.reads.append((offset, count))
        return self._opened.read(offset, count)


@pytest.fixture
def file(tmp_path: Path) -> MeasuredFile:
    log = open_log(tmp_path / "a-0")
    for _ in range(BATCHES):
        append(log, bytes(1000))
    return MeasuredFile(log.segments.active.path)


@pytest.mark.parametrize("scan", [scan_headers, scan_batches])
def test_scan_reads_chunks_up_to_its_end(file: MeasuredFile, scan: Callable[..., Any]) -> None:
    batches = list(scan(file, 0, file._opened.size(), chunk_size=CHUNK))
    assert len(batches) == BATCHES
    for count in (2, 20):
        end = batches[count][0]
        file.reads.clear()
        assert list(scan(file, 0, end, chunk_size=CHUNK)) == batches[:count]
        assert max(size for _, size in file.reads) == min(CHUNK, end)
        assert max(offset + size for offset, size in file.reads) <= end


@pytest.mark.parametrize("scan", [scan_headers, scan_batches])
def test_batch_that_ends_after_the_end_of_the_scan_is_corrupt(file: MeasuredFile, scan: Callable[..., Any]) -> None:
    (_, first), *_ = scan(file, 0, file._opened.size())
    with pytest.raises(CorruptBatch, match="The batch at 0 of"):
        list(scan(file, 0, first.size - 1))


def test_header_at_the_end_of_a_chunk_is_not_read_again(tmp_path: Path) -> None:
    log = open_log(tmp_path / "a-0")
    append(log, bytes(100))
    append(log, bytes(1000))
    file = MeasuredFile(log.segments.active.path)
    (_, first), (_, second) = scan_headers(file, 0, log.segments.active.written)
    end, chunk = first.size + second.size, first.size + HEADER_SIZE
    for scan, reads in (
        (scan_headers, [(0, chunk)]),
        (scan_batches, [(0, chunk), (first.size, second.size)]),
    ):
        file.reads.clear()
        assert len(list(scan(file, 0, end, chunk_size=chunk))) == 2
        assert file.reads == reads
