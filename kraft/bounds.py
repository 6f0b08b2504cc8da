"""The types of what replicas tell each other, each with the range in which its values lie.

A message's field is declared with one of these types, and `kraft.message_codec` refuses a value outside of the range
before it builds the message. A field without a range cannot be declared: the codec refuses the class.
"""

import re
from typing import Annotated, Final, Protocol, TypeAlias

import attrs

# No quorum is larger by far; messages that name voters are bounded by it.
VOTERS_MAX: Final = 100
# Offsets stay so far below the end of 64 bits that whatever follows on them can be written down.
OFFSET_MAX: Final = 2**62
# The year 9999, in milliseconds since 1970.
TIMESTAMP_MAX: Final = 253_402_300_799_999
# Records of one batch, and so of one append: a controller's largest decisions have some ten thousand.
RECORDS_MAX: Final = 1 << 20
# Batches of one answer to a Fetch: a megabyte of them, or a single one.
BATCHES_MAX: Final = 1 << 15

# Kafka's text for 16 bytes: URL-safe base64 without padding, so the last character stands for two bits.
_UUID: Final = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]")
_ZERO_UUID: Final = "A" * 22
_ADDRESS: Final = re.compile(r"[A-Za-z0-9._%:\[\]-]{0,255}:([0-9]{1,5})")
_PORT_MAX: Final = 65_535


class Bound(Protocol):
    """What a value must be like, beyond its type."""

    def allows(self, value: object) -> bool: ...


@attrs.frozen
class Range:
    """Both ends included."""

    minimum: int
    maximum: int

    def allows(self, value: object) -> bool:
        return type(value) is int and self.minimum <= value <= self.maximum


@attrs.frozen
class Count:
    """Elements of a tuple. What an element must be like stands in the tuple's own type."""

    maximum: int


@attrs.frozen
class IsBytes:
    """Bounded by the frame that they come in."""

    def allows(self, value: object) -> bool:
        return type(value) is bytes


@attrs.frozen
class IsBoolean:
    def allows(self, value: object) -> bool:
        return type(value) is bool


@attrs.frozen
class IsText:
    """At most `maximum` characters."""

    maximum: int

    def allows(self, value: object) -> bool:
        return isinstance(value, str) and len(value) <= self.maximum


@attrs.frozen
class IsDirectoryId:
    """A UUID as Kafka writes it, or "" where the directory is not known."""

    def allows(self, value: object) -> bool:
        return isinstance(value, str) and (value == "" or is_uuid(value))


@attrs.frozen
class IsAddress:
    """ "host:port", or "" where the address is not known."""

    def allows(self, value: object) -> bool:
        if value == "":
            return True
        found = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
        return found is not None and int(found[1]) <= _PORT_MAX


def is_uuid(text: str) -> bool:
    """True for the text of a UUID other than zero, which Kafka uses for "none"."""
    return _UUID.fullmatch(text) is not None and text != _ZERO_UUID


Epoch: TypeAlias = Annotated[int, Range(0, 2**31 - 1)]
Offset: TypeAlias = Annotated[int, Range(0, OFFSET_MAX)]
NodeId: TypeAlias = Annotated[int, Range(0, 2**31 - 1)]
DirectoryId: TypeAlias = Annotated[str, IsDirectoryId()]
Address: TypeAlias = Annotated[str, IsAddress()]
# -1 where no clock was at hand.
TimestampMs: TypeAlias = Annotated[int, Range(-1, TIMESTAMP_MAX)]
TimeoutMs: TypeAlias = Annotated[int, Range(0, 2**31 - 1)]
# A place in a file, or a file's size.
Position: TypeAlias = Annotated[int, Range(0, OFFSET_MAX)]
Payload: TypeAlias = Annotated[bytes, IsBytes()]
Sentence: TypeAlias = Annotated[str, IsText(1_000)]
NodeIds: TypeAlias = Annotated[tuple[NodeId, ...], Count(VOTERS_MAX)]
Records: TypeAlias = Annotated[tuple[Payload, ...], Count(RECORDS_MAX)]
