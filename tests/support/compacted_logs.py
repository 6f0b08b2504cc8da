"""Logs of compacted topics, compacted directly instead of by a cleaner's loop, and their records by key."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from broker.storage.cleaner.compaction import Compaction
from broker.storage.cleaner.log_to_clean import LogToClean, find_log_to_clean
from broker.storage.cleaner.offset_map import ENTRY_BYTES, OffsetMap
from broker.storage.cleaner.pacing import CleaningPacer, Throttle
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.wire.records import Record, encode_batch
from jepsen.testing.unsynced_disk import UnsyncedDisk
from kraft.env import Disk
from tests.support.logs import NOW_MS, open_log, read_all

COMPACTED = LogConfig(cleanup_policy=("compact",), segment_bytes=600, index_interval_bytes=100, retention_ms=-1)


def compacted_log(directory: Path, config: LogConfig = COMPACTED, **fields: Any) -> Log:
    return open_log(directory, config, **{"disk": UnsyncedDisk(), **fields})


def put(log: Log, *pairs: tuple[bytes, bytes | None], now_ms: int = NOW_MS, **fields: Any) -> int:
    """Append one batch of keys and values, None for a tombstone, and commit it. Returns its first offset."""
    records = [Record(timestamp=now_ms, key=key, value=value) for key, value in pairs]
    batch = memoryview(bytearray(encode_batch(records, **fields)))
    info = log.append(batch, leader_epoch=0, now_ms=now_ms)
    log.commit()
    return info.first_offset


def log_to_clean(log: Log, *, high_watermark: int | None = None, now_ms: int = NOW_MS) -> LogToClean:
    return find_log_to_clean(
        log, high_watermark=log.log_end_offset if high_watermark is None else high_watermark, now_ms=now_ms
    )


async def clean(
    log: Log,
    *,
    high_watermark: int | None = None,
    now_ms: int = NOW_MS,
    keys_max: int = 10_000,
    disk: Disk | None = None,
    pacer: CleaningPacer | None = None,
    buffer_bytes: int = 500,
) -> Compaction:
    """Clean everything that can be cleaned, and set the log's cleaned offset."""
    compaction = Compaction(
        disk or UnsyncedDisk(),
        log,
        log_to_clean(log, high_watermark=high_watermark, now_ms=now_ms),
        OffsetMap(keys_max * ENTRY_BYTES),
        pacer or CleaningPacer(Throttle(1e300)),
        buffer_bytes=buffer_bytes,
        now_ms=now_ms,
    )
    await log.flush()
    log.cleaned_offset = await compaction.run()
    return compaction


def latest(records: Iterable[Record]) -> dict[bytes | None, bytes]:
    """The last value of each key after reading all records; deleted keys are absent."""
    found: dict[bytes | None, bytes] = {}
    for record in records:
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record.value
    return found


def offsets(log: Log) -> list[int]:
    return [record.offset for record in read_all(log)]


def without_repeats(records: Sequence[Record], upto: int) -> list[Record]:
    """Remove the records below `upto` whose key occurs again in a later record below `upto`."""
    last = {record.key: record.offset for record in records if record.offset < upto}
    return [record for record in records if record.offset >= upto or last[record.key] == record.offset]
