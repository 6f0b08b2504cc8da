"""A record as tests write and read it, and its form in JSON."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple


class Record(NamedTuple):
    """`timestamp` is in milliseconds since 1970. A key or a value may be None."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def encode_record(record: str | bytes | Mapping[str, Any] | None) -> dict[str, Any]:
    """A value, or a mapping with `value` and maybe `key`, `partition` and `headers` (pairs of a name and a value)."""
    given: Mapping[str, Any] = record if isinstance(record, Mapping) else {"value": record}
    headers = given.get("headers") or ()
    return {
        **given,
        "value": _encoded(given.get("value")),
        "key": _encoded(given.get("key")),
        "headers": [[name, _encoded(value)] for name, value in headers],
    }


def decode_record(record: Mapping[str, Any]) -> Record:
    """A record of the control port."""
    headers = [(name, _decoded(value)) for name, value in record["headers"]]
    key, value = _decoded(record["key"]), _decoded(record["value"])
    return Record(record["partition"], record["offset"], record["timestamp"], key, value, headers)


def _encoded(data: str | bytes | None) -> str | None:
    data = data.encode() if isinstance(data, str) else data
    if not isinstance(data, bytes | None):
        raise TypeError(f"keys and values are text, bytes or None, not {data!r}")
    return None if data is None else b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
