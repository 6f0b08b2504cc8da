"""The base class of metadata records, and their encoding.

A record is encoded in msgpack as `[type, version, {field number: value, ...}]`, without the fields that have their
default values. Field numbers are never reused. A reader keeps fields that it does not know in `unknown`, and encodes
them unchanged, so an older node preserves the fields of a newer one.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache
from typing import Any, ClassVar, TypeVar

import attrs
import msgpack

from kraft import lazy_attrs

ZERO_UUID = bytes(16)


class RecordType(IntEnum):
    """Kafka's numbers for the metadata records (its `apiKey` values)."""

    REGISTER_BROKER = 0
    UNREGISTER_BROKER = 1
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    REMOVE_TOPIC = 9
    DELEGATION_TOKEN = 10
    USER_SCRAM_CREDENTIAL = 11
    FEATURE_LEVEL = 12
    CLIENT_QUOTA = 14
    PRODUCER_IDS = 15
    BROKER_REGISTRATION_CHANGE = 17
    ACCESS_CONTROL_ENTRY = 18
    REMOVE_ACCESS_CONTROL_ENTRY = 19
    NO_OP = 20
    REMOVE_USER_SCRAM_CREDENTIAL = 22
    REMOVE_DELEGATION_TOKEN = 26
    REGISTER_CONTROLLER = 27
    UNREGISTER_CONTROLLER = 29


class UnknownRecordType(Exception):
    """A record type that this release does not know. Skipping the record would make the nodes' states differ."""


class MalformedRecord(ValueError):
    """The bytes are not a valid metadata record."""


@lazy_attrs.frozen(kw_only=True)
class MetadataRecord:
    """A record of the metadata log. `unknown` holds the fields of a newer version by their numbers."""

    type: ClassVar[RecordType]
    version: ClassVar[int]

    unknown: Mapping[int, object] = attrs.field(factory=dict, repr=False)


R = TypeVar("R", bound=type[MetadataRecord])

_CLASSES: dict[int, type[MetadataRecord]] = {}


def number(value: int, **options: Any) -> Any:
    """An attrs field that is encoded with the field number `value`."""
    return attrs.field(metadata={"number": value}, **options)


def metadata_record(type_: RecordType, version: int) -> Callable[[R], R]:
    """Register a record class, whose fields are all created by `number`, for encoding and decoding."""

    def register(cls: R) -> R:
        assert type_ not in _CLASSES, f"{type_!r} has a class already"
        cls.type, cls.version = type_, version
        _CLASSES[type_] = cls
        return cls

    return register


@cache
def _numbered(type_: int) -> tuple[tuple[int, str, object], ...]:
    """The number, name and default of each field of a type. attrs makes the class for it (`kraft.lazy_attrs`)."""
    cls = _CLASSES[type_]
    fields = [field for field in attrs.fields(cls) if "number" in field.metadata]
    numbered = tuple((field.metadata["number"], field.name, field.default) for field in fields)
    assert len({entry[0] for entry in numbered}) == len(numbered), f"{cls.__name__} uses a field number twice"
    return numbered


def encode_record(record: MetadataRecord) -> bytes:
    cls = type(record)
    fields: dict[int, object] = dict(record.unknown)
    for place, name, default in _numbered(cls.type):
        value = getattr(record, name)
        if value != default:
            fields[place] = value
    packed: bytes = msgpack.packb((cls.type, cls.version, fields))
    return packed


def decode_record(data: bytes) -> MetadataRecord:
    """Decode a record. Raises UnknownRecordType for a record type of a newer release, MalformedRecord."""
    try:
        type_, _version, fields = msgpack.unpackb(data, use_list=False, strict_map_key=False, max_ext_len=0)
        cls = _CLASSES.get(type_)
        if cls is None:
            raise UnknownRecordType(f"metadata record type {type_!r:.20} is unknown to this release")
        known = {name: fields.pop(place) for place, name, _ in _numbered(type_) if place in fields}
        return cls(**known, unknown=fields)
    except (ValueError, TypeError, LookupError, AttributeError, msgpack.UnpackException) as error:
        raise MalformedRecord(f"{data[:20]!r} is not a metadata record: {error!r:.100}") from error
