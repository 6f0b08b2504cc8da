"""The format in which the console consumer prints records (DefaultMessageFormatter.java).

print.timestamp, print.partition, print.offset, print.delivery, print.epoch, print.headers, print.key    "false"
print.value                                                                                              "true"
key.separator         between what is printed; a tab
line.separator        after the value; a newline
headers.separator     between headers; a comma
null.literal          a key or value that is null
key.deserializer, value.deserializer, headers.deserializer    names of Kafka's classes
"""

import re
import struct
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from broker.client.types import ConsumerRecord, ShareRecord
from broker.printable import printable_bytes
from broker.wire.records import TimestampType

Record: TypeAlias = ConsumerRecord | ShareRecord
Formatter: TypeAlias = Callable[[Record], bytes]
_Text: TypeAlias = Callable[[bytes], bytes]

_PARTS: Final = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")
_TIMESTAMPS: Final = {TimestampType.CREATE_TIME: b"CreateTime:", TimestampType.LOG_APPEND_TIME: b"LogAppendTime:"}
_NOT_PRESENT: Final = b"NOT_PRESENT"
_NUMBERS: Final = {"Long": ">q", "Integer": ">i", "Short": ">h"}
_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SERIALIZATION: Final = "org.apache.kafka.common.serialization."


class FormatError(Exception):
    """A formatter or a deserializer that does not exist here, or bytes that a deserializer does not read."""


def make_formatter(name: str, properties: Mapping[str, str], *, is_rendered: bool = False) -> Formatter:
    """The formatter of a class of Kafka's. Raises FormatError.

    With `is_rendered`, what is not printable in a record is escaped, for a terminal.
    """
    match name.rpartition(".")[2]:
        case "DefaultMessageFormatter":
            return _DefaultFormatter(properties, is_rendered=is_rendered)
        case "NoOpMessageFormatter":
            return lambda record: b""
    raise FormatError(
        f"--formatter {name} is a Java class; DefaultMessageFormatter and NoOpMessageFormatter are supported"
    )


class _DefaultFormatter:
    def __init__(self, properties: Mapping[str, str], *, is_rendered: bool) -> None:
        self._render: _Text = _rendered if is_rendered else bytes
        self._parts = [
            part for part in _PARTS if properties.get(f"print.{part}", str(part == "value")).strip().lower() == "true"
        ]
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._texts = {part: _text_of(properties.get(f"{part}.deserializer")) for part in ("headers", "key", "value")}

    def __call__(self, record: Record) -> bytes:
        """The record's line. Without the value the last part ends it. Raises FormatError."""
        shown = self._separator.join([self._shown(part, record) for part in self._parts])
        return shown + self._line_end if self._parts else b""

    def _shown(self, part: str, record: Record) -> bytes:
        match part:
            case "timestamp":
                kind = _TIMESTAMPS.get(record.timestamp_type)
                return b"NO_TIMESTAMP" if kind is None else kind + b"%d" % record.timestamp_ms
            case "partition":
                return b"Partition:%d" % record.partition
            case "offset":
                return b"Offset:%d" % record.offset
            case "delivery":
                return b"Delivery:" + (
                    b"%d" % record.delivery_count if isinstance(record, ShareRecord) else _NOT_PRESENT
                )
            case "epoch":
                return b"Epoch:" + (_NOT_PRESENT if record.leader_epoch is None else b"%d" % record.leader_epoch)
            case "headers":
                headers = [
                    self._render(name.encode()) + b":" + self._text("headers", value) for name, value in record.headers
                ]
                return self._headers_separator.join(headers) if headers else b"NO_HEADERS"
            case "key":
                return self._text("key", record.key)
        return self._text("value", record.value)

    def _text(self, part: str, value: bytes | None) -> bytes:
        return self._null if value is None else self._render(self._texts[part](value))


def _rendered(content: bytes) -> bytes:
    return printable_bytes(content).encode()


def _text_of(deserializer: str | None) -> _Text:
    """Bytes as text, by one of Kafka's deserializers; the bytes themselves without one. Raises FormatError."""
    if deserializer is None:
        return bytes
    name = deserializer.removeprefix(_SERIALIZATION).removesuffix("Deserializer")
    if name in ("String", "ByteArray", "Bytes"):
        return bytes
    if name in _NUMBERS:
        number = struct.Struct(_NUMBERS[name])
        return lambda value: b"%d" % _unpack(number, name, value)
    if name == "UUID":
        return lambda value: _uuid(value)
    raise FormatError(f"{deserializer} is a Java class; supported are those for {', '.join(_NUMBERS)}, String and UUID")


def _unpack(number: struct.Struct, name: str, value: bytes) -> int:
    if len(value) != number.size:
        raise FormatError(f"Size of data received by {name}Deserializer is not {number.size}")
    found: int = number.unpack(value)[0]
    return found


def _uuid(value: bytes) -> bytes:
    if not _UUID.fullmatch(value):
        raise FormatError("Error parsing data into UUID")
    return value.lower()
