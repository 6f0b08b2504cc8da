"""Loads a shard: replays the partition's log into its state, with pauses in which other tasks run."""

from typing import Any, Final

import attrs
import trio

from broker.coordinator.runtime.hosted_shard import HostedShard, Phase
from broker.storage.log import Log
from broker.wire.records import (
    BatchHeader,
    CorruptBatch,
    Record,
    check_crc,
    iter_headers,
    iter_records,
    read_end_transaction_marker,
)
from kraft import lazy_attrs

# How many records are read or replayed before other tasks run: 2 to 8 ms. Clients retry while the shard is loading.
_RECORDS_AT_A_TIME: Final = 1000
# How many records are held back, at most, because a later record may replace them.
_HELD_MAX: Final = 50_000


class LoadingAborted(Exception):
    """This broker no longer leads the partition in the shard's leader epoch."""


@lazy_attrs.define
class ShardLoader:
    """Loads one shard. `records` and `size_bytes` count what was read.

    If the topic `is_compacted`, a record that a later record of the same key replaces need not be replayed, just as
    compaction may remove it. The loader then holds back some records and replays only the last of each key among them.
    """

    shard: HostedShard[Any]
    buffer_bytes: int
    is_compacted: bool = True
    records: int = 0
    size_bytes: int = 0
    _latest: dict[bytes, Record] = attrs.field(factory=dict)
    _since_pause: int = 0

    async def run(self) -> None:
        """Replays the whole log. Between the last replayed record and the return, no other task runs and nothing is
        appended.

        Reads `buffer_bytes` at a time, or one batch. Raises LoadingAborted; if the log cannot be read, KafkaError,
        OSError or WireError.
        """
        offset = self._log().log_start_offset
        while True:
            # The log may move to another directory meanwhile.
            while offset < (log := self._log()).readable_end_offset:
                offset = await self._read(log, offset)
            await self._release()
            if offset == self._log().log_end_offset:
                self.shard.end_offset = offset
                return
            await self._pause()

    def _log(self) -> Log:
        log = self.shard.partition.log
        if log is None or self.shard.is_fenced or self.shard.phase is Phase.CLOSED:
            raise LoadingAborted
        return log

    async def _read(self, log: Log, offset: int) -> int:
        """Reads a part of the log that begins at `offset`; returns the offset after it."""
        part = log.read(offset, self.buffer_bytes, upper_bound=log.readable_end_offset, min_one_batch=True)
        data = memoryview(part.file.read(part.position, part.size))
        self.size_bytes += part.size
        following = offset
        try:
            for position, header in iter_headers(data):
                if header.last_offset >= offset:
                    check_crc(data, position, header)
                    await self._take(data, position, header)
                following = header.next_offset
        except CorruptBatch as error:
            self.shard.partition.tasks.check_log(self.shard.partition, following)
            raise CorruptBatch(f"the batch at offset {following} in {part.file.path} is damaged: {error}") from error
        if following <= offset:
            raise CorruptBatch(f"{log.partition} holds no whole batch at {offset}")
        return following

    async def _take(self, data: memoryview, position: int, header: BatchHeader) -> None:
        records = list(iter_records(data, position, header))
        self.records += len(records)
        if header.is_control:
            await self._release()
            self._end_transaction(records, header)
        elif header.is_transactional:
            await self._release()  # records of an open transaction replace nothing yet
            for record in records:
                self._replay(record, header.producer_id)
        elif self.is_compacted:
            self._hold(records)
        else:
            for record in records:
                self._replay(record)
        await self._count(len(records))
        if len(self._latest) > _HELD_MAX:
            await self._release()

    def _end_transaction(self, records: list[Record], header: BatchHeader) -> None:
        for record in records:
            marker = read_end_transaction_marker(record)
            if marker is not None:
                self.shard.state.replay_end_transaction(header.producer_id, committed=marker.is_commit)

    def _hold(self, records: list[Record]) -> None:
        latest = self._latest
        for record in records:
            if record.key is not None:  # Kafka refuses those in a compacted topic
                latest.pop(record.key, None)
                latest[record.key] = record

    async def _release(self) -> None:
        """Replays the records that were held back, in the order of the log."""
        latest, self._latest = self._latest, {}
        for record in latest.values():
            self._replay(record)
            await self._count(1)

    def _replay(self, record: Record, producer_id: int = -1) -> None:
        if record.key is not None:
            self.shard.state.replay(record.key, record.value, record.offset, producer_id)

    async def _count(self, records: int) -> None:
        self._since_pause += records
        if self._since_pause >= _RECORDS_AT_A_TIME:
            await self._pause()

    async def _pause(self) -> None:
        """Lets other tasks run. Raises LoadingAborted."""
        self._since_pause = 0
        await trio.lowlevel.checkpoint()
        self._log()
