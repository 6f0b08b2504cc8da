"""The values that calls take and return."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from broker.wire.records import TimestampType

Header: TypeAlias = tuple[str, bytes | None]


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class Node(NamedTuple):
    """A broker's id and the address that it gives to clients."""

    id: int
    host: str
    port: int
    rack: str | None = None


class RecordMetadata(NamedTuple):
    """Where a record was written. `offset` is -1 with acks=0; `timestamp_ms` is that of the log."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ConsumerRecord(NamedTuple):
    """One record as read. `leader_epoch` is that of the leader that wrote it, None where the broker does not say."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    leader_epoch: int | None


class OffsetAndMetadata(NamedTuple):
    """A committed offset: that of the next record to read, the epoch of the last one read, and a text of the user's."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


class OffsetAndTimestamp(NamedTuple):
    """The first offset at or after a timestamp, and the timestamp of its record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None
