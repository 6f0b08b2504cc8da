"""Logs in a temporary directory, and batches to fill them with."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from broker.server.slices import run
from broker.storage.clean_shutdown import close_cleanly
from broker.storage.log import Log, LogSlice
from broker.storage.log_config import LogConfig
from broker.storage.log_loader import load_log
from broker.storage.recovery import UNKNOWN
from broker.storage.segment import Segment
from broker.storage.timestamp_search import TimestampAndOffset, search_timestamp
from broker.wire.records import Record, encode_batch, iter_headers, iter_records
from kraft.env import Buffer, Disk, File, RealDisk

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000


def no_trace(kind: str, /, **fields: object) -> None:
    pass


def open_log(
    directory: Path,
    config: LogConfig | None = None,
    *,
    clean: bool = False,
    recovery_point: int | None = None,
    log_start_offset: int = 0,
    now_ms: int = NOW_MS,
    disk: Disk | None = None,
    trace: Callable[..., None] = no_trace,
    cleaned_offset: int = -1,
    starts_at_start: bool = False,
) -> Log:
    """Open a log. With `clean` it ends at its recovery point, or, without one, is accepted as it is; otherwise it is
    recovered.
    """
    directory.mkdir(exist_ok=True)
    if recovery_point is None:
        recovery_point = UNKNOWN if clean else 0
    return load_log(
        disk or RealDisk(),
        str(directory),
        config or LogConfig(),
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        clean=clean,
        now_ms=now_ms,
        producer_expiration_ms=DAY_MS,
        trace=trace,
        cleaned_offset=cleaned_offset,
        starts_at_start=starts_at_start,
    )


def batch(*values: bytes, timestamp: int = NOW_MS, key: bytes | None = None, **fields: Any) -> memoryview:
    """A producer's batch with these values, in a writable buffer like those from the network."""
    records = [Record(timestamp=timestamp, key=key, value=value) for value in values]
    return memoryview(bytearray(encode_batch(records, **fields)))


def append(log: Log, *values: bytes, leader_epoch: int = 0, now_ms: int = NOW_MS, **fields: Any) -> int:
    """Append one batch and commit it. Returns its first offset."""
    info = log.append(batch(*values, **fields), leader_epoch=leader_epoch, now_ms=now_ms)
    log.commit()
    return info.first_offset


def find_timestamp(log: Log, timestamp: int) -> TimestampAndOffset | None:
    """The result of a search by time, all of whose steps are taken at once."""
    return run(search_timestamp(log, timestamp))


def slice_bytes(piece: LogSlice) -> bytes:
    return piece.file.read(piece.position, piece.size) if piece.size else b""


def read_records(log: Log, offset: int, *, max_bytes: int = 1 << 30, upper_bound: int = 1 << 62) -> list[Record]:
    """The records of one read, from `offset` on."""
    return read_on(log, offset, max_bytes=max_bytes, upper_bound=upper_bound)[0]


def read_on(log: Log, offset: int, *, max_bytes: int = 1 << 30, upper_bound: int = 1 << 62) -> tuple[list[Record], int]:
    """The records of one read, and the offset of the next one. Batches may contain no records after compaction."""
    data = slice_bytes(log.read(offset, max_bytes, upper_bound=upper_bound, min_one_batch=True))
    batches = list(iter_headers(data))
    found = [record for at, header in batches for record in iter_records(data, at, header)]
    return [record for record in found if record.offset >= offset], batches[-1][1].next_offset if batches else offset


def read_all(log: Log) -> list[Record]:
    """All committed records, as a consumer reads them from the beginning."""
    records: list[Record] = []
    offset = log.log_start_offset
    while offset < log.readable_end_offset:
        some, following = read_on(log, offset)
        assert following > offset, f"nothing to read at {offset} below {log.readable_end_offset}"
        records += some
        offset = following
    return records


def values(log: Log) -> list[bytes | None]:
    return [record.value for record in read_all(log)]


def segment_bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def listing(directory: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.endswith(suffix))


class FailingDisk(RealDisk):
    """A disk whose writes to `.log` files fail with `error` once it is set."""

    def __init__(self) -> None:
        self.error: OSError | None = None

    def open(self, path: str, *, create: bool = False) -> Any:
        if self.error is not None and create:
            raise self.error
        file = super().open(path, create=create)
        return FailingFile(self, file) if path.endswith(".log") else file


class FailingFile:
    def __init__(self, disk: FailingDisk, file: File) -> None:
        self._disk = disk
        self._file = file

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        if self._disk.error is not None:
            raise self._disk.error
        self._file.write(offset, buffers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


async def close_log(log: Log) -> None:
    """Close a log of the real disk cleanly."""
    await close_cleanly(RealDisk(), [log])


def flip(batch: tuple[Segment, int], byte: int) -> None:
    """Flip a bit of a batch, of which the segment and the position in it are given."""
    segment, at = batch
    before = segment.file.read(at + byte, 1)[0]
    segment.file.write(at + byte, [bytes([before ^ 0x10])])
