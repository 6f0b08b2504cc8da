"""Replaces damaged segments of a follower's log by segments with the leader's records at the same offsets.

A member of the ISR must never have fewer of the acknowledged records than before, so nothing is cut: the intact batches
are copied, the damaged ones are read from the leader, and the new segment takes the place of the old one in one step
(`broker.storage.swapping`). All offsets must be there, with checksums that are right.

Records are read as a consumer reads them, below the high watermark: there, the logs of leader and follower are equal,
once the follower's log has been compared with the leader's in this leader epoch.

Compaction removes a tombstone only after the records that it deletes. A compacted log is therefore read again from its
start, the oldest segment first: otherwise the leader's segment could lack a tombstone whose records are still in an
older segment of the follower.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import trio

from broker.client import Connection, ConnectionLost
from broker.replication.fetch_plan import FETCH_VERSION
from broker.replication.fetcher_context import CONNECT_TIMEOUT_MS, FetcherContext
from broker.replication.follower_role import FollowerRole
from broker.replication.partition import Partition
from broker.storage.batch_scan import check_follows, find_intact
from broker.storage.cleaner.cleaned_segment import CleanedSegment
from broker.storage.cleaner.segment_reader import read_batches
from broker.storage.damage import DamagedRanges
from broker.storage.fetched_batches import fetched_batches
from broker.storage.log import Log
from broker.storage.segment import Segment
from broker.storage.transaction_index import AbortedTransaction, CorruptTransactionIndex
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from broker.wire.errors import ErrorCode, KafkaError, WireError
from broker.wire.records import CorruptBatch
from kraft import lazy_attrs

# The size of a read and of a fetch. Other tasks run in between.
_PIECE_BYTES: Final = 1024 * 1024
_MAX_WAIT_MS: Final = 500


class RepairFailed(Exception):
    """The damage cannot be repaired now; the message says why. The log is as it was."""


class RepairDeferred(RepairFailed):
    """The damage cannot be repaired before the replica follows a leader, which is about to happen."""


@lazy_attrs.define
class SegmentRepair:
    """One attempt to repair the log of a follower; `run` may be called once.

    A change of the leader, or a truncation of the log, ends the attempt.
    """

    context: FetcherContext
    partition: Partition
    follower: FollowerRole
    log: Log
    leader_epoch: int
    truncations: int

    @classmethod
    def of(cls, context: FetcherContext, partition: Partition) -> "SegmentRepair":
        """Raises RepairDeferred if the partition does not follow a leader whose log it has been compared with."""
        role = partition.role
        if not isinstance(role, FollowerRole):
            raise RepairDeferred("there is no leader")
        log = role.log
        if not role.agrees_with_leader or log.durability.blocks_appends:
            raise RepairDeferred("the log has not been compared with the leader's yet")
        return cls(context, partition, role, log, partition.leader_epoch, log.durability.truncations)

    async def run(self) -> None:
        """Repair all damage that is known. Raises RepairFailed, FsyncFailed, and OSError if the disk fails."""
        segments = self._segments()
        connection = await self._connect()
        failure: RepairFailed | OSError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run_until_lost, connection)
            try:
                await self._replace_all(connection, segments)
            except (RepairFailed, OSError) as error:
                failure = error  # the nursery would put it into a group
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    @property
    def _damaged(self) -> DamagedRanges:
        damaged = self.log.segments.damaged
        if damaged is None or not damaged.ranges:
            raise RepairFailed("the damage was removed meanwhile")
        return damaged

    @property
    def _is_compacted(self) -> bool:
        return self.log.allows_gaps

    def _segments(self) -> list[Segment]:
        """The segments to read again, and the one after them. An active segment is rolled before."""
        log, ranges = self.log, self._damaged.ranges
        if log.segments.is_being_cleaned:
            raise RepairFailed("the log is being compacted")
        last = log.segments.floor_index(ranges[-1].first_offset)
        if last + 1 == len(log.segments):
            log.roll()
        if last + 1 == len(log.segments):
            raise RepairFailed("the damaged segment is empty")
        first = 0 if self._is_compacted else log.segments.floor_index(ranges[0].first_offset)
        return [log.segments[at] for at in range(first, last + 2)]

    async def _connect(self) -> Connection:
        context, leader_id = self.context, self.follower.leader_id
        source = context.source(leader_id)
        endpoint = None if source is None else source.end_points.get(context.listener_name)
        if endpoint is None:
            raise RepairFailed(f"broker {leader_id} is not known")
        try:
            return await Connection.open(
                endpoint.host,
                endpoint.port,
                context.client_id,
                connect_timeout_ms=CONNECT_TIMEOUT_MS,
                request_timeout_ms=context.request_timeout_ms,
                security=context.security,
            )
        except ConnectionLost as error:
            raise RepairFailed(f"broker {leader_id} cannot be reached: {error}") from error

    async def _replace_all(self, connection: Connection, segments: Sequence[Segment]) -> None:
        for segment, following in pairwise(segments):
            end_offset = following.base_offset
            if self._is_compacted or self._damaged.overlaps(segment.base_offset, end_offset):
                await self._replace(connection, segment, end_offset)
                self._damaged.remove(segment.base_offset, end_offset)

    async def _replace(self, connection: Connection, segment: Segment, end_offset: int) -> None:
        """Replace a segment, whose batches end before `end_offset`."""
        if end_offset > self.partition.high_watermark:
            raise RepairFailed(f"the records below offset {end_offset} are not committed yet")
        self._check()
        log = self.log
        modified_ms = segment.file.modified_ms()
        replacement = CleanedSegment(self.context.env.disk, log.directory, segment.base_offset, log.config)
        is_in_place = False
        try:
            if self._is_compacted:
                await self._fetch(connection, max(segment.base_offset, log.log_start_offset), end_offset, replacement)
            else:
                await self._copy_or_fetch(connection, segment, end_offset, replacement)
            aborted = _aborted_transactions(segment)
            await replacement.finish(aborted or [], modified_ms, is_index_lost=aborted is None)
            self._check()
            if log.segments.index(segment) is None:
                raise RepairFailed("the segment was deleted meanwhile")
            log.replace_segments([segment])
            is_in_place = True
            if aborted is None and log.segments.on_suspect is not None:
                log.segments.on_suspect()
        except WireError as error:
            raise RepairFailed(str(error)) from error
        finally:
            if not is_in_place:
                await replacement.discard()
        await self.context.env.disk.sync_dir(log.directory)

    def _check(self) -> None:
        log = self.log
        is_same_log = log.failure is None and log.durability.truncations == self.truncations
        if not is_same_log or self.partition.role is not self.follower:
            raise RepairFailed("the leader or the log has changed meanwhile")

    async def _copy_or_fetch(
        self, connection: Connection, segment: Segment, end_offset: int, replacement: CleanedSegment
    ) -> None:
        """Copy the intact batches, and fetch those in between."""
        positions = segment.loaded_index().values[:]
        position, next_offset = 0, segment.base_offset
        while True:
            position, next_offset = await self._copy_intact(segment, position, next_offset, replacement)
            if next_offset >= end_offset:
                return
            found = find_intact(segment.file, position, segment.written, positions)
            is_usable = found is not None and next_offset < found.header.base_offset < end_offset
            resume_offset = found.header.base_offset if found is not None and is_usable else end_offset
            begin = max(next_offset, self.log.log_start_offset)
            await self._fetch(connection, begin, resume_offset, replacement)
            if found is None or not is_usable:
                return
            position, next_offset = found.position, resume_offset

    async def _copy_intact(
        self, segment: Segment, position: int, next_offset: int, replacement: CleanedSegment
    ) -> tuple[int, int]:
        """Copy the batches from `position` on up to the first damaged one; returns its position and offset."""
        copied_from = b""
        try:
            for header, piece, at in read_batches(segment.file, position, segment.written, _PIECE_BYTES):
                check_follows(header, next_offset, self.leader_epoch, allows_gaps=False)
                if piece is not copied_from:
                    copied_from = piece
                    replacement.write()
                    await trio.lowlevel.checkpoint()
                    self._check()
                replacement.append(memoryview(piece)[at : at + header.size])
                position, next_offset = position + header.size, header.next_offset
        except (CorruptBatch, OSError):
            pass  # an error of the disk while reading is damage, too
        replacement.write()
        return position, next_offset

    # Records of the leader

    async def _fetch(
        self, connection: Connection, next_offset: int, end_offset: int, replacement: CleanedSegment
    ) -> None:
        """Add the leader's batches from `next_offset` to `end_offset`."""
        while next_offset < end_offset:
            data = await self._fetch_some(connection, next_offset)
            self._check()
            following = self._append(data, next_offset, end_offset, replacement)
            if following == next_offset:
                raise RepairFailed(f"broker {self.follower.leader_id} has no records at offset {next_offset}")
            next_offset = following

    async def _fetch_some(self, connection: Connection, offset: int) -> PartitionData:
        partition, throttle = self.partition, self.context.throttle
        while partition.throttled_as_follower and throttle.wait_ms > 0:
            await trio.sleep(min(throttle.wait_ms, _MAX_WAIT_MS) / 1000)
        wanted = FetchPartition(
            partition=partition.index,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=_PIECE_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=_PIECE_BYTES,
            topics=[FetchTopic(topic_id=partition.topic_id, partitions=[wanted])],
        )
        try:
            response = await connection.call(request, FETCH_VERSION)
        except ConnectionLost as error:
            raise RepairFailed(str(error)) from error
        found = [data for topic in response.responses for data in topic.partitions]
        code = response.error_code or (found[0].error_code if found else ErrorCode.UNKNOWN_SERVER_ERROR)
        if code:
            name = code if code not in set(ErrorCode) else ErrorCode(code).name
            raise RepairFailed(f"broker {self.follower.leader_id} answers {name} for offset {offset}")
        data: PartitionData = found[0]
        return data

    def _append(self, data: PartitionData, next_offset: int, end_offset: int, replacement: CleanedSegment) -> int:
        """Add those of the fetched batches that end before `end_offset`; returns the offset after them.

        Only in a compacted log, batches may be missing.
        """
        records = memoryview(b"") if data.records is None else data.records
        assert isinstance(records, memoryview), "decoded"
        if self.partition.throttled_as_follower:
            self.context.throttle.record(len(records))
        try:
            batches = fetched_batches(
                records,
                end_offset=next_offset,
                leader_epoch=self.leader_epoch,
                allows_gaps=self._is_compacted,
                partition=self.log.partition,
            )
        except KafkaError as error:
            raise RepairFailed(f"broker {self.follower.leader_id} sends damaged records: {error}") from error
        for batch, header in batches:
            if header.base_offset >= end_offset:
                return end_offset
            if header.next_offset > end_offset:
                raise RepairFailed(f"a batch of broker {self.follower.leader_id} passes offset {end_offset}")
            replacement.append(batch)
            next_offset = header.next_offset
        replacement.write()
        if not batches and self._is_compacted and data.high_watermark >= end_offset:
            return end_offset
        return next_offset


def _aborted_transactions(segment: Segment) -> list[AbortedTransaction] | None:
    """The entries of a segment's transaction index; None if it is damaged. The scrubber makes it again then."""
    try:
        return list(segment.transaction_index.since(0))
    except (CorruptTransactionIndex, OSError):
        return None


async def _run_until_lost(connection: Connection) -> None:
    try:
        await connection.run()
    except ConnectionLost:
        return  # the request in flight raises it, too
