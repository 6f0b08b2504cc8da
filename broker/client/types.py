"""The values that calls take and return."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Generic, NamedTuple, TypeAlias

from broker.client.arguments.check import Between, Bytes
from broker.wire.records import TimestampType

# The types of keys and values. A client without serializers has bytes.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

Header: TypeAlias = tuple[str, bytes | None]

# Numbers and ids with the ranges that the protocol gives them.
Int16: TypeAlias = Annotated[int, Between(-(2**15), 2**15 - 1)]
Int32: TypeAlias = Annotated[int, Between(-(2**31), 2**31 - 1)]
PartitionNumber: TypeAlias = Annotated[int, Between(0, 2**31 - 1)]
NodeId: TypeAlias = Annotated[int, Between(0, 2**31 - 1)]
Count: TypeAlias = Annotated[int, Between(1, 2**31 - 1)]
Port: TypeAlias = Annotated[int, Between(0, 2**16 - 1)]
Uuid: TypeAlias = Annotated[bytes, Bytes(16)]


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: PartitionNumber

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


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


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """One record as read: a ConsumerRecord[K, V] of a Consumer[K, V]. A key or a value may be None.

    `leader_epoch` is that of the leader that wrote it, None where the broker does not say.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: K | None
    value: V | None
    headers: Sequence[Header]
    leader_epoch: int | None


class ShareRecord(NamedTuple, Generic[K, V]):
    """One record as a share group delivers it: a ShareRecord[K, V] of a ShareConsumer[K, V] (KIP-932).

    `delivery_count` is 1 at the first delivery, and grows with each further one. The other fields are those of a
    ConsumerRecord.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: K | None
    value: V | None
    headers: Sequence[Header]
    leader_epoch: int | None
    delivery_count: int


class OffsetAndMetadata(NamedTuple):
    """A committed offset: that of the next record to read, the epoch of the last one read, and a text of the user's."""

    offset: int
    leader_epoch: Int32 | None = None
    metadata: str = ""


class OffsetAndTimestamp(NamedTuple):
    """The first offset at or after a timestamp, and the timestamp of its record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None
