"""The types of message fields, each with the range of its values.

`kraft.message_codec` rejects a message with a value outside of the range. It also rejects a class with a field that is
declared without a range.
"""

import re
from typing import Annotated, Final, Protocol, TypeAlias

from kraft import lazy_attrs

# The bound of messages that list voters. Real quorums are much smaller.
VOTERS_MAX: Final = 100
# Below the maximum of 64 bits, so that later offsets can be encoded, too.
OFFSET_MAX: Final = 2**62
# The year 9999, in milliseconds since 1970.
TIMESTAMP_MAX: Final = 253_402_300_799_999
# Records of one batch, and therefore of one append. A controller appends about ten thousand at most.
RECORDS_MAX: Final = 1 << 20
# Batches in one response to a Fetch, which has a megabyte of batches or a single larger one.
BATCHES_MAX: Final = 1 << 15

# Kafka's text form of 16 bytes: URL-safe base64 without padding. The last character encodes two bits.
_UUID: Final = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]")
_ZERO_UUID: Final = "A" * 22
_ADDRESS: Final = re.compile(r"[A-Za-z0-9._%:\[\]-]{0,255}:([0-9]{1,5})")
_PORT_MAX: Final = 65_535


class Bound(Protocol):
    """A condition on the values of a field."""

    def allows(self, value: object) -> bool: ...


@lazy_attrs.frozen(eq=False)
class Range:
    """Integers from `minimum` to `maximum`, both included."""

    minimum: int
    maximum: int

    def allows(self, value: object) -> bool:
        return type(value) is int and self.minimum <= value <= self.maximum


@lazy_attrs.frozen(eq=False)
class Count:
    """At most `maximum` elements of a tuple. The tuple's type declares the range of an element."""

    maximum: int


@lazy_attrs.frozen(eq=False)
class IsBytes:
    """Bytes, whose number is bounded by the size of the frame."""

    def allows(self, value: object) -> bool:
        return type(value) is bytes


@lazy_attrs.frozen(eq=False)
class IsBoolean:
    def allows(self, value: object) -> bool:
        return type(value) is bool


@lazy_attrs.frozen(eq=False)
class IsText:
    """Text of at most `maximum` characters."""

    maximum: int

    def allows(self, value: object) -> bool:
        return isinstance(value, str) and len(value) <= self.maximum


@lazy_attrs.frozen(eq=False)
class IsDirectoryId:
    """A UUID in Kafka's text form, or "" for an unknown directory."""

    def allows(self, value: object) -> bool:
        return isinstance(value, str) and (value == "" or is_uuid(value))


@lazy_attrs.frozen(eq=False)
class IsAddress:
    """ "host:port", or "" for an unknown address."""

    def allows(self, value: object) -> bool:
        if value == "":
            return True
        found = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
        return found is not None and int(found[1]) <= _PORT_MAX


def is_uuid(text: str) -> bool:
    """True for the text form of a UUID other than zero, which stands for "none" in Kafka."""
    return _UUID.fullmatch(text) is not None and text != _ZERO_UUID


Epoch: TypeAlias = Annotated[int, Range(0, 2**31 - 1)]
Offset: TypeAlias = Annotated[int, Range(0, OFFSET_MAX)]
NodeId: TypeAlias = Annotated[int, Range(0, 2**31 - 1)]
DirectoryId: TypeAlias = Annotated[str, IsDirectoryId()]
Address: TypeAlias = Annotated[str, IsAddress()]
# -1 for batches that the core appends without a clock.
TimestampMs: TypeAlias = Annotated[int, Range(-1, TIMESTAMP_MAX)]
TimeoutMs: TypeAlias = Annotated[int, Range(0, 2**31 - 1)]
# A position in a file, or a file's size.
Position: TypeAlias = Annotated[int, Range(0, OFFSET_MAX)]
Payload: TypeAlias = Annotated[bytes, IsBytes()]
Sentence: TypeAlias = Annotated[str, IsText(1_000)]
NodeIds: TypeAlias = Annotated[tuple[NodeId, ...], Count(VOTERS_MAX)]
Records: TypeAlias = Annotated[tuple[Payload, ...], Count(RECORDS_MAX)]
