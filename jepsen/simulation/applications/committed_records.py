"""The committed records of a simulated cluster, read from the replicas at one instant and without a client."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import attrs

from broker.client.types import ConsumerRecord, TopicPartition
from broker.coordinator.group.record_formats import (
    OffsetCommitKey,
    UnknownCoordinatorRecordType,
    decode_key,
    decode_value,
)
from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from broker.node import Node
from broker.storage.log import Log
from broker.wire.errors import KafkaError
from broker.wire.records import ControlRecordType, control_type, iter_headers, iter_records
from jepsen.simulation.invariants.committed import Committed, CommittedLog, Key

_READ_BYTES: Final = 1 << 20
CommittedRecord: TypeAlias = ConsumerRecord[bytes, bytes]


@attrs.define(eq=False)
class _Pending:
    """A record whose transaction, if it has one, may be open. `is_visible` is None until the outcome is known."""

    record: CommittedRecord
    is_visible: bool | None


@attrs.define(eq=False)
class _Partition:
    """One partition. `visible` are the records that consumers with read_committed get; see KIP-98.

    `losses` is the number of permitted losses up to which the records were read (`CommittedLog.losses`).
    """

    topic: str
    index: int
    losses: int = 0
    next_offset: int = 0
    visible: list[CommittedRecord] = attrs.field(factory=list)
    _pending: deque[_Pending] = attrs.field(factory=deque)
    _open: dict[int, list[_Pending]] = attrs.field(factory=dict)  # by producer id

    def read(self, log: Log, end_offset: int) -> None:
        """Read the batches from `next_offset` up to `end_offset`. Raises KafkaError, OSError."""
        self.next_offset = max(self.next_offset, log.log_start_offset)
        while self.next_offset < end_offset:
            found = log.read(self.next_offset, _READ_BYTES, upper_bound=end_offset, min_one_batch=True)
            data = found.file.read(found.position, found.size)
            if not data:
                return
            for position, header in iter_headers(data):
                if self.next_offset < header.next_offset <= end_offset:
                    self._add_batch(data, position, header)
                    self.next_offset = header.next_offset

    def _add_batch(self, data: bytes, position: int, header: Any) -> None:
        if header.is_control:
            marker = next(iter_records(data, position, header), None)
            kind = None if marker is None else control_type(marker.key)
            for ended in self._open.pop(header.producer_id, ()):
                ended.is_visible = kind is ControlRecordType.COMMIT
        else:
            for record in iter_records(data, position, header):
                read = ConsumerRecord(
                    topic=self.topic,
                    partition=self.index,
                    offset=record.offset,
                    timestamp_ms=record.timestamp,
                    timestamp_type=header.timestamp_type,
                    key=record.key,
                    value=record.value,
                    headers=record.headers,
                    leader_epoch=header.partition_leader_epoch,
                )
                pending = _Pending(read, None if header.is_transactional else True)
                self._pending.append(pending)
                if header.is_transactional:
                    self._open.setdefault(header.producer_id, []).append(pending)
        while self._pending and self._pending[0].is_visible is not None:
            first = self._pending.popleft()
            if first.is_visible:
                self.visible.append(first.record)


@attrs.define(eq=False)
class _Offsets:
    """The committed offsets in one partition of `__consumer_offsets`, as of its first `replayed` records."""

    source: _Partition
    replayed: int = 0
    by_group: dict[str, dict[TopicPartition, int]] = attrs.field(factory=dict)

    def replay(self) -> None:
        for record in self.source.visible[self.replayed :]:
            try:
                key = decode_key(record.key)
            except UnknownCoordinatorRecordType:
                continue
            if isinstance(key, OffsetCommitKey):
                offsets = self.by_group.setdefault(key.group, {})
                partition = TopicPartition(key.topic, key.partition)
                if record.value is None:
                    offsets.pop(partition, None)
                else:
                    value: Any = decode_value(key, record.value)
                    offsets[partition] = value.offset
        self.replayed = len(self.source.visible)


class CommittedRecords:
    """All records that are committed, also while nodes are down.

    `committed` knows the offsets up to which partitions are committed, and `nodes` returns the running nodes by id.
    """

    def __init__(self, committed: Committed, nodes: Callable[[], Mapping[int, Node]]) -> None:
        self._committed = committed
        self._nodes = nodes
        self._partitions: dict[Key, _Partition] = {}
        self._offsets: dict[Key, _Offsets] = {}

    def catch_up(self) -> bool:
        """Read all records that were committed since. False if no running replica has some of them."""
        nodes = self._nodes()
        for key, log in self._committed.logs.items():
            partition = self._partitions.get(key)
            if partition is None or partition.losses != len(log.losses):
                self._offsets.pop(key, None)
                partition = self._partitions[key] = _Partition(log.topic, key[1], len(log.losses))
            if partition.next_offset < log.end_offset and not _read(partition, log, nodes):
                return False
        for key in [key for key in self._partitions if key not in self._committed.logs]:
            del self._partitions[key]
            self._offsets.pop(key, None)
        return True

    def records(self, topic: str) -> Iterator[CommittedRecord]:
        """The records of a topic by partition and offset, without those of open and aborted transactions."""
        for _, partition in sorted(self._of_topic(topic), key=lambda item: item[1].index):
            yield from partition.visible

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        """The committed offsets of a group."""
        for key, partition in self._of_topic(CONSUMER_OFFSETS):
            offsets = self._offsets.setdefault(key, _Offsets(partition))
            offsets.replay()
            if offsets.by_group.get(group):
                return dict(sorted(offsets.by_group[group].items()))
        return {}

    def _of_topic(self, topic: str) -> list[tuple[Key, _Partition]]:
        return [(key, each) for key, each in self._partitions.items() if each.topic == topic]


def _read(partition: _Partition, committed: CommittedLog, nodes: Mapping[int, Node]) -> bool:
    """Read what is committed from any running replica that has all of it. False if there is none."""
    for broker_id, copy in committed.copies.items():
        node = nodes.get(broker_id)
        if node is None or node.broker is None or copy.agreed < len(committed.batches):
            continue
        topic = node.broker.partitions.topic(committed.topic)
        replica = None if topic is None else topic.partitions.get(partition.index)
        if replica is not None and replica.log is not None:
            try:
                partition.read(replica.log, committed.end_offset)
            except (KafkaError, OSError):
                continue  # the disk has just failed
            if partition.next_offset >= committed.end_offset:
                return True
    return False
