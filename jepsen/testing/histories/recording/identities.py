"""The names of records in a history, by which the checkers find a record again that was sent."""

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from broker.printable import printable

# Longer keys and values are named by their beginning and a digest.
_SHOWN_MAX: Final = 48
_DIGEST_BYTES: Final = 12


class RecordView(NamedTuple):
    """A record as an application sends or receives it: before its serializers, or after its deserializers."""

    topic: str
    key: Any
    value: Any
    headers: Sequence[Any] | None


Identity: TypeAlias = Callable[[RecordView], str | bytes | int]


def name_of_record(record: RecordView, identity: Identity | None) -> str:
    """The record's name: that of `identity`, or its key and value as text, shortened and with a digest."""
    if identity is not None:
        return name_of_content(identity(record))
    value = name_of_content(record.value)
    return value if record.key is None else f"{name_of_content(record.key)}: {value}"


def name_of_content(content: object) -> str:
    """A printable text for a key or a value, which two contents have only if they are equal, or nearly never."""
    if content is None:
        return "null"
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")
    elif not isinstance(content, bytes):
        content = _canonical(content)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = f"0x{content.hex()}" if len(content) <= _SHOWN_MAX // 2 else f"0x{content[:8].hex()}"
    if len(content) <= _SHOWN_MAX and text.isprintable():
        return text
    digest = blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
    return f"{printable(text[:_SHOWN_MAX])}... ({len(content)} bytes, {digest})"


def _canonical(content: object) -> bytes:
    """Bytes for an object that has a serializer: bytes-like ones as they are, others as JSON, or by their `repr`."""
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    try:
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    except (TypeError, ValueError):
        return repr(content).encode("utf-8", "surrogatepass")
