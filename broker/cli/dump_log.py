"""The files of a partition's directory in readable form, checked; the lines are those of Kafka's own dump tool.

The metadata log, which has a format of its own, is printed by `metadata_dump`.
"""

from collections.abc import Callable

import attrs

from broker.cli.metadata_dump import MetadataDump
from broker.node.metadata_directory import METADATA_DIRECTORY
from broker.printable import printable
from broker.storage.batch_scan import find_batch
from broker.storage.checkpoints import CorruptCheckpoint
from broker.storage.leader_epochs import LEADER_EPOCH_CHECKPOINT, LeaderEpochCache
from broker.storage.offset_index import OffsetIndex
from broker.storage.producer_snapshots import SNAPSHOT_SUFFIX, CorruptSnapshot, decode_snapshot
from broker.storage.segment_files import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from broker.storage.sparse_index import CorruptIndex
from broker.storage.time_index import TimeIndex
from broker.storage.transaction_index import CorruptTransactionIndex, decode_aborted_transactions
from broker.storage.whole_file import read_whole
from broker.wire.errors import WireError
from broker.wire.records import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    Record,
    TimestampType,
    check_crc,
    control_type,
    iter_records,
    read_end_transaction_marker,
    read_header,
)
from kraft.env import Disk, File
from kraft.log import is_snapshot

RECORD_INDENT = "|"


@attrs.frozen(kw_only=True)
class DumpOptions:
    """The parts to print, and how much of a log file to read; the names are those of Kafka's tool."""

    deep_iteration: bool
    print_data_log: bool
    skip_record_metadata: bool
    index_sanity_check: bool
    verify_index_only: bool
    max_bytes: int


class Dump:
    """One run over some files. `problems` collects what is wrong with them."""

    def __init__(self, disk: Disk, options: DumpOptions, write: Callable[[str], None]) -> None:
        self._disk = disk
        self._options = options
        self._write = write
        self.problems: list[str] = []
        self._metadata = MetadataDump(disk, write, self._add_problem)

    def dump(self, path: str) -> None:
        """Print one file, by what its name says it is. Raises OSError."""
        self._write(f"Dumping {printable(path)}")
        name = path.rpartition("/")[2]
        kinds: dict[str, Callable[[str], None]] = {
            LOG_SUFFIX: self._dump_any_log,
            OFFSET_INDEX_SUFFIX: self._dump_offset_index,
            TIME_INDEX_SUFFIX: self._dump_time_index,
            TRANSACTION_INDEX_SUFFIX: self._dump_transaction_index,
            SNAPSHOT_SUFFIX: self._dump_snapshot,
        }
        if name == LEADER_EPOCH_CHECKPOINT:
            self._dump_leader_epochs(path)
            return
        if is_snapshot(name):
            self._metadata.dump_snapshot(path)
            return
        suffix = name[name.rfind(".") :] if "." in name else ""
        dump = kinds.get(suffix)
        if dump is None or not name.removesuffix(suffix).isdecimal():
            self._write(f"Ignoring unknown file {printable(path)}")
            return
        dump(path)

    def _dump_any_log(self, path: str) -> None:
        options = self._options
        if path.split("/")[-2:-1] == [METADATA_DIRECTORY] or self._metadata.has_log(path):
            prints_records = options.deep_iteration or options.print_data_log
            self._metadata.dump_log(path, options.max_bytes, prints_records=prints_records)
        else:
            self._dump_log(path)

    def _dump_log(self, path: str) -> None:
        file = self._disk.open(path)
        size = file.size()
        self._write(f"Log starting offset: {_base_offset(path)}")
        end = min(size, self._options.max_bytes)
        position = 0
        next_offset = _base_offset(path)
        last_record_offset = -1
        while position + HEADER_SIZE <= end:
            try:
                header = read_header(file.read(position, HEADER_SIZE))
            except CorruptBatch as error:
                self._add_problem(path, f"{error} at position {position}")
                break
            if position + header.size > end:
                break
            batch = file.read(position, header.size)
            self._dump_batch(path, position, batch, header)
            if header.base_offset < next_offset:
                self._add_problem(
                    path, f"the batch at position {position} begins at {header.base_offset}, not {next_offset}"
                )
            if self._options.deep_iteration or self._options.print_data_log:
                last_record_offset = self._dump_records(path, batch, header, last_record_offset)
            next_offset = max(next_offset, header.next_offset)
            position += header.size
        if position < end == size:
            self._write(f"Found {size - position} invalid bytes at the end of {printable(path.rpartition('/')[2])}")
            self._add_problem(path, f"{size - position} invalid bytes at the end")

    def _dump_batch(self, path: str, position: int, batch: bytes, header: BatchHeader) -> None:
        is_valid = True
        try:
            check_crc(batch, 0, header)
        except CorruptBatch as error:
            is_valid = False
            self._add_problem(path, f"the batch at position {position}: {error}")
        try:
            codec = header.compression.config_name
        except CorruptBatch as error:
            codec = str(error)
        horizon = header.delete_horizon_ms
        self._write(
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.count} "
            f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {_java(header.is_transactional)} isControl: {_java(header.is_control)} "
            f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
            f"position: {position} {_timestamp_type(header)}: {header.max_timestamp} size: {header.size} "
            f"magic: {header.magic} compresscodec: {codec} crc: {header.crc} isvalid: {_java(is_valid)}"
        )

    def _dump_records(self, path: str, batch: bytes, header: BatchHeader, last_offset: int) -> int:
        try:
            for record in iter_records(batch, 0, header):
                if last_offset >= 0 and record.offset != last_offset + 1:
                    # Compaction makes such gaps, so they are reported but are no problem.
                    self._write(
                        f"Non-consecutive offsets in {printable(path)}: {last_offset} is followed by {record.offset}"
                    )
                last_offset = record.offset
                self._write(f"{RECORD_INDENT} {self._record(header, record)}")
        except WireError as error:
            self._add_problem(path, f"the records of the batch with base offset {header.base_offset}: {error}")
        return last_offset

    def _record(self, header: BatchHeader, record: Record) -> str:
        parts = []
        if not self._options.skip_record_metadata:
            sequence = header.base_sequence
            if sequence >= 0:
                sequence = (sequence + record.offset - header.base_offset) & 0x7FFFFFFF
            keys = ",".join(key for key, _ in record.headers)
            parts.append(
                f"offset: {record.offset} {_timestamp_type(header)}: {record.timestamp} "
                f"keySize: {_size(record.key)} valueSize: {_size(record.value)} sequence: {sequence} "
                f"headerKeys: [{keys}]"
            )
            if header.is_control:
                parts.append(_control(record))
        if self._options.print_data_log and not header.is_control:
            parts += [f"key: {_text(record.key)}"] if record.key is not None else []
            parts += [f"payload: {_text(record.value)}"] if record.value is not None else []
        return " ".join(parts)

    def _dump_offset_index(self, path: str) -> None:
        index = OffsetIndex(self._disk, path, _base_offset(path))
        if not self._load(path, index):
            return
        log = self._log_of(path)
        size = log.size()
        for relative_offset, position in zip(index.keys, index.values, strict=True):
            offset = index.base_offset + relative_offset
            found = _header_at(log, position, size)
            if found is None or found.last_offset != offset:
                what = "no batch" if found is None else str(found.last_offset)
                self._add_problem(path, f"Index offset: {offset}, log offset: {what}")
            if not self._options.verify_index_only:
                self._write(f"offset: {offset} position: {position}")

    def _dump_time_index(self, path: str) -> None:
        index = TimeIndex(self._disk, path, _base_offset(path))
        if not self._load(path, index):
            return
        log = self._log_of(path)
        offsets = OffsetIndex(self._disk, path.removesuffix(TIME_INDEX_SUFFIX) + OFFSET_INDEX_SUFFIX, index.base_offset)
        for timestamp, relative_offset in zip(index.keys, index.values, strict=True):
            offset = index.base_offset + relative_offset
            self._check_timestamp(path, log, _lookup(offsets, offset), timestamp, offset)
            if not self._options.verify_index_only:
                self._write(f"timestamp: {timestamp} offset: {offset}")

    def _check_timestamp(self, path: str, log: File, position: int, timestamp: int, offset: int) -> None:
        try:
            found = find_batch(log, position, log.size(), offset)
        except CorruptBatch as error:
            self._add_problem(path, str(error))
            return
        header = None if found is None else read_header(log.read(found.position, HEADER_SIZE))
        if header is None or header.last_offset != offset:
            what = NO_TIMESTAMP if header is None else header.last_offset
            self._add_problem(path, f"Indexed offset: {offset}, found log offset: {what}")
        elif header.max_timestamp != timestamp:
            self._add_problem(path, f"Index timestamp: {timestamp}, log timestamp: {header.max_timestamp}")

    def _load(self, path: str, index: OffsetIndex | TimeIndex) -> bool:
        """Load an index. Returns True if its entries are to be checked."""
        try:
            index.load()
        except CorruptIndex as error:
            self._add_problem(path, str(error))
            return False
        if not len(index):
            self._write(f"{printable(path)} is empty.")
            return False
        if self._options.index_sanity_check:
            self._write(f"{printable(path)} passed sanity check.")
            return False
        return True

    def _dump_transaction_index(self, path: str) -> None:
        try:
            for aborted in decode_aborted_transactions(read_whole(self._disk, path)):
                self._write(
                    f"version: {aborted.version} producerId: {aborted.producer_id} "
                    f"firstOffset: {aborted.first_offset} lastOffset: {aborted.last_offset} "
                    f"lastStableOffset: {aborted.last_stable_offset}"
                )
        except CorruptTransactionIndex as error:
            self._add_problem(path, str(error))

    def _dump_snapshot(self, path: str) -> None:
        try:
            entries = decode_snapshot(read_whole(self._disk, path))
        except CorruptSnapshot as error:
            self._add_problem(path, str(error))
            return
        for entry in entries:
            line = (
                f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} "
                f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {entry.current_txn_first_offset} "
                f"lastTimestamp: {entry.timestamp} "
            )
            if entry.last_offset >= 0:
                first_sequence = (entry.last_sequence - entry.offset_delta) & 0x7FFFFFFF
                line += (
                    f"firstSequence: {first_sequence} lastSequence: {entry.last_sequence} "
                    f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
                )
            self._write(line)

    def _dump_leader_epochs(self, path: str) -> None:
        try:
            entries = LeaderEpochCache.load(self._disk, path.rpartition("/")[0] or ".").entries
        except CorruptCheckpoint as error:
            self._add_problem(path, str(error))
            return
        for epoch, start_offset in entries:
            self._write(f"epoch: {epoch} startOffset: {start_offset}")

    def _log_of(self, path: str) -> File:
        return self._disk.open(path[: path.rfind(".")] + LOG_SUFFIX)

    def _add_problem(self, path: str, what: str) -> None:
        self.problems.append(f"{path}: {what}")


def _base_offset(path: str) -> int:
    return int(path.rpartition("/")[2].partition(".")[0])


def _lookup(offsets: OffsetIndex, offset: int) -> int:
    try:
        return offsets.lookup(offset)
    except (CorruptIndex, FileNotFoundError):
        return 0


def _header_at(log: File, position: int, size: int) -> BatchHeader | None:
    if position + HEADER_SIZE > size:
        return None
    try:
        return read_header(log.read(position, HEADER_SIZE))
    except CorruptBatch:
        return None


def _timestamp_type(header: BatchHeader) -> str:
    return "CreateTime" if header.timestamp_type is TimestampType.CREATE_TIME else "LogAppendTime"


def _control(record: Record) -> str:
    marker = read_end_transaction_marker(record)
    if marker is None:
        kind = control_type(record.key)
        return f"controlType: {kind.name}({kind.value})"
    name = "COMMIT" if marker.is_commit else "ABORT"
    return f"endTxnMarker: {name} coordinatorEpoch: {marker.coordinator_epoch}"


def _java(value: bool) -> str:
    return "true" if value else "false"


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
