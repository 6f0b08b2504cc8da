"""The keys and values of the records in `__share_group_state`, in Kafka's formats.

    key     type int16, then group id, topic id and partition
    value   version int16 (0), then the fields of the type; null removes the share-partition

A snapshot (type 0) holds the whole state of a share-partition, an update (type 1) the changes of one write. Names,
types and fields are those of Kafka's definitions (share-coordinator/.../common/message).
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

from broker.coordinator.runtime.decision import CoordinatorRecord
from broker.coordinator.share.share_state import SharePartitionKey, StateBatch
from broker.wire.codec import decode, encode
from broker.wire.errors import WireError
from broker.wire.schema import Buffer, data, field, struct
from broker.wire.uuids import ZERO_UUID
from kraft import lazy_attrs

_INT16: Final = Struct(">h")
_VERSION: Final = 0
# The version of an update, and its first two fields.
_UPDATE_HEAD: Final = Struct(">hii")
_NEVER: Final = "99+"


@data(key=0, versions="0", flexible=_NEVER)
class ShareSnapshotKey:
    group_id: str = field("string", "0+", default="")
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partition: int = field("int32", "0+", default=0)


@data(key=1, versions="0", flexible=_NEVER)
class ShareUpdateKey:
    group_id: str = field("string", "0+", default="")
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partition: int = field("int32", "0+", default=0)


@struct
class RecordedBatch:
    """As `broker.coordinator.share.share_state.StateBatch`."""

    first_offset: int = field("int64", "0+", default=0)
    last_offset: int = field("int64", "0+", default=0)
    delivery_state: int = field("int8", "0+", default=0)
    delivery_count: int = field("int16", "0+", default=0)


@data(key=0, versions="0", flexible="0+")
class ShareSnapshotValue:
    """Times are in ms since 1970."""

    snapshot_epoch: int = field("int32", "0+", default=0)
    state_epoch: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)
    delivery_complete_count: int = field("int32", "0+", default=-1, tag=0, tagged="0+")
    create_timestamp: int = field("int64", "0+", default=0)
    write_timestamp: int = field("int64", "0+", default=0)
    state_batches: list[RecordedBatch] = field([RecordedBatch], "0+", factory=list)


@data(key=1, versions="0", flexible="0+")
class ShareUpdateValue:
    """`start_offset` and `leader_epoch` are -1 if they stay as they are."""

    snapshot_epoch: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)
    delivery_complete_count: int = field("int32", "0+", default=-1, tag=0, tagged="0+")
    state_batches: list[RecordedBatch] = field([RecordedBatch], "0+", factory=list)


# The classes have no base class.
_SNAPSHOT_KEY: Final[type[Any]] = ShareSnapshotKey
_UPDATE_KEY: Final[type[Any]] = ShareUpdateKey
_SNAPSHOT: Final[type[Any]] = ShareSnapshotValue
_UPDATE: Final[type[Any]] = ShareUpdateValue


@lazy_attrs.frozen
class ShareSnapshot:
    """The whole state of a share-partition.

    `snapshot_epoch` counts the snapshots since the state was created. `state_epoch` is that of the group coordinator,
    `leader_epoch` that of the share-partition's leader. `created_ms` is when the state was last written for a request,
    `written_ms` when this snapshot was written, both in ms since 1970.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    created_ms: int
    written_ms: int

    def record(self, key: SharePartitionKey) -> CoordinatorRecord:
        """Encodes the snapshot as a record. Raises WireError if the group id is too long."""
        value = _SNAPSHOT(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.created_ms,
            write_timestamp=self.written_ms,
            state_batches=self.batches,
        )
        return CoordinatorRecord(_encode_key(_SNAPSHOT_KEY, key), _Encoded(self, value))


@lazy_attrs.frozen
class ShareUpdate:
    """The changes of a write: batches to be merged into the state, and the new start offset.

    `start_offset` and `leader_epoch` are -1 if they stay as they are.
    """

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]

    def record(self, key: SharePartitionKey) -> CoordinatorRecord:
        """Encodes the update as a record. Raises WireError if the group id is too long."""
        value = _UPDATE(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            state_batches=self.batches,
        )
        return CoordinatorRecord(_encode_key(_UPDATE_KEY, key), _Encoded(self, value))


class _Encoded(bytes):
    """The value of a record, with what it was encoded from: a coordinator replays its own records without decoding.

    To decode 10,000 batches takes 6 ms, in which the event loop would serve nothing else.
    """

    source: ShareSnapshot | ShareUpdate

    def __new__(cls, source: ShareSnapshot | ShareUpdate, value: Any) -> "_Encoded":
        encoded = super().__new__(cls, _encode_value(value))
        encoded.source = source
        return encoded


def tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    """The record that removes the state of a share-partition."""
    return CoordinatorRecord(_encode_key(_SNAPSHOT_KEY, key), None)


def decode_key(key: Buffer) -> tuple[type[ShareSnapshot | ShareUpdate], SharePartitionKey] | None:
    """Decodes the type of a record and its share-partition; None for an unknown type. Raises WireError."""
    number = _number(key, "key")
    if number not in (_SNAPSHOT_KEY.__message__.key, _UPDATE_KEY.__message__.key):
        return None
    decoded = decode(_SNAPSHOT_KEY, 0, key, _INT16.size)[0]
    kind = ShareSnapshot if number == _SNAPSHOT_KEY.__message__.key else ShareUpdate
    return kind, SharePartitionKey(decoded.group_id, decoded.topic_id, decoded.partition)


def decode_snapshot(value: Buffer) -> ShareSnapshot:
    """Decodes the value of a snapshot. Raises WireError, also for an unknown version."""
    if isinstance(value, _Encoded) and isinstance(value.source, ShareSnapshot):
        return value.source
    decoded = decode(_SNAPSHOT, _number(value, "value"), value, _INT16.size)[0]
    return ShareSnapshot(
        snapshot_epoch=decoded.snapshot_epoch,
        state_epoch=decoded.state_epoch,
        leader_epoch=decoded.leader_epoch,
        start_offset=decoded.start_offset,
        delivery_complete_count=decoded.delivery_complete_count,
        batches=state_batches(decoded.state_batches),
        created_ms=decoded.create_timestamp,
        written_ms=decoded.write_timestamp,
    )


def decode_update(value: Buffer) -> ShareUpdate:
    """Decodes the value of an update. Raises WireError, also for an unknown version."""
    if isinstance(value, _Encoded) and isinstance(value.source, ShareUpdate):
        return value.source
    decoded = decode(_UPDATE, _number(value, "value"), value, _INT16.size)[0]
    return ShareUpdate(
        snapshot_epoch=decoded.snapshot_epoch,
        leader_epoch=decoded.leader_epoch,
        start_offset=decoded.start_offset,
        delivery_complete_count=decoded.delivery_complete_count,
        batches=state_batches(decoded.state_batches),
    )


def leader_epoch_of_update(value: Buffer) -> int:
    """Reads the leader epoch of an update without decoding the rest. Raises WireError."""
    if _number(value, "value") != _VERSION or len(value) < _UPDATE_HEAD.size:
        raise WireError(f"an update of {len(value)} bytes, or of an unknown version")
    leader_epoch: int = _UPDATE_HEAD.unpack_from(value)[2]
    return leader_epoch


def state_batches(batches: Sequence[Any]) -> tuple[StateBatch, ...]:
    """Converts the batches of a record, a request or a response."""
    return tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in batches
    )


def _encode_key(cls: type[Any], key: SharePartitionKey) -> bytes:
    return b"".join([_INT16.pack(cls.__message__.key), *encode(cls(**key._asdict()), _VERSION)])


def _encode_value(value: Any) -> bytes:
    return b"".join([_INT16.pack(_VERSION), *encode(value, _VERSION)])


def _number(data: Buffer, what: str) -> int:
    if len(data) < _INT16.size:
        raise WireError(f"a record's {what} of {len(data)} bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number
