"""Control records, which brokers write between the producers' records, and which consumers do not return.

A control batch holds one record. Its key has the record's type: version int16, type int16. A transaction's end is
marked in every partition it wrote to (KIP-98), value: version int16, coordinator epoch int32.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

from broker.wire.records.batch import NO_PARTITION_LEADER_EPOCH
from broker.wire.records.errors import InvalidRecord
from broker.wire.records.record import Record, encode_batch
from kraft import lazy_attrs

_KEY: Final = Struct(">hh")
_KEY_VERSION: Final = 0
_END_TRANSACTION: Final = Struct(">hi")
_END_TRANSACTION_VERSION: Final = 0


class ControlRecordType(IntEnum):
    """Kafka's control record types; the ones from LEADER_CHANGE on belong to KRaft's own log and appear in no topic."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CONTROL_CODES: Final = frozenset(ControlRecordType)


@lazy_attrs.frozen
class EndTransactionMarker:
    """A transaction's end in one partition: committed or aborted, written at a transaction coordinator's epoch."""

    is_commit: bool
    coordinator_epoch: int


def control_key(kind: ControlRecordType) -> bytes:
    """The key of a control record."""
    assert kind is not ControlRecordType.UNKNOWN, "a control record we write has a type"
    return _KEY.pack(_KEY_VERSION, kind)


def control_type(key: bytes | None) -> ControlRecordType:
    """The type of a control record with this key; UNKNOWN, which readers skip, for types newer than this code.

    Raises InvalidRecord when it is not a control record's key.
    """
    version, code = _unpack(_KEY, key, "control record key")
    if version < 0:
        raise InvalidRecord(f"Invalid version found for control record: {version}. May indicate data corruption")
    return ControlRecordType(code) if code in _CONTROL_CODES else ControlRecordType.UNKNOWN


def read_end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """The marker in a control batch's record, or None for a control record of another type. Raises InvalidRecord."""
    kind = control_type(record.key)
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    version, coordinator_epoch = _unpack(_END_TRANSACTION, record.value, "end transaction marker")
    if version < 0:
        raise InvalidRecord(
            f"Invalid version found for end transaction marker: {version}. May indicate data corruption"
        )
    return EndTransactionMarker(kind is ControlRecordType.COMMIT, coordinator_epoch)


def encode_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytes:
    """The control batch that ends a producer's transaction in a partition; `timestamp` in ms since the epoch."""
    key = control_key(ControlRecordType.COMMIT if marker.is_commit else ControlRecordType.ABORT)
    value = _END_TRANSACTION.pack(_END_TRANSACTION_VERSION, marker.coordinator_epoch)
    return encode_batch(
        [Record(timestamp=timestamp, key=key, value=value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def _unpack(struct: Struct, data: bytes | None, what: str) -> tuple[int, int]:
    """The struct's two fields. Later versions may append to them, and are read as the version known here."""
    if data is None or len(data) < struct.size:
        found = 0 if data is None else len(data)
        raise InvalidRecord(f"Invalid size found for {what}. Must have at least {struct.size} bytes, but found {found}")
    first, second = struct.unpack_from(data)
    return first, second
