"""Records as lines of JSON: what `kraft consume --json` prints and `kraft produce --from-json` reads."""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import attrs

from broker.client.types import ConsumerRecord, Header

_TIMESTAMP_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1


class WrongRecord(ValueError):
    """A line is JSON, and no record."""


@attrs.frozen
class JsonHeader:
    """A header. `value` is text; of one that is not UTF-8 it is null, and `value_base64` has the bytes."""

    name: str
    value: str | None
    value_base64: str | None = None


@attrs.frozen
class JsonRecord:
    """A record. Keys and values are text; of one that is not UTF-8 it is null, and the base64 field has the bytes.

    `timestamp_type` is CreateTime or LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: str | None
    value: str | None
    headers: list[JsonHeader]
    leader_epoch: int | None
    key_base64: str | None = None
    value_base64: str | None = None


class RecordToProduce(NamedTuple):
    """A record as a line of JSON describes it; what the line leaves out is None."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    partition: int | None
    timestamp_ms: int | None


def json_record(record: ConsumerRecord) -> JsonRecord:
    """A record in the form that is printed."""
    (key, key_base64), (value, value_base64) = _text(record.key), _text(record.value)
    return JsonRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        "LogAppendTime" if record.timestamp_type else "CreateTime",
        key,
        value,
        [JsonHeader(name, *_text(content)) for name, content in record.headers],
        record.leader_epoch,
        key_base64,
        value_base64,
    )


def read_record(line: bytes) -> RecordToProduce:
    """A record from a line of JSON; `topic` and `offset` are ignored.

    Raises WrongRecord, and ValueError where the line is no JSON.
    """
    try:
        fields = json.loads(line)
    except RecursionError as error:
        raise WrongRecord("it is nested too deeply") from error
    if not isinstance(fields, dict):
        raise WrongRecord("it is not an object")
    headers = fields.get("headers") or []
    if not isinstance(headers, list) or not all(isinstance(each, dict) for each in headers):
        raise WrongRecord("its headers are not a list of objects")
    return RecordToProduce(
        _bytes(fields, "key"),
        _bytes(fields, "value"),
        [(_name(each), _bytes(each, "value")) for each in headers],
        _number(fields, "partition", _PARTITION_MAX),
        _number(fields, "timestamp_ms", _TIMESTAMP_MAX),
    )


def _text(content: bytes | None) -> tuple[str | None, str | None]:
    """Text and base64, of which at most one is not None."""
    if content is None:
        return None, None
    try:
        return content.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(content).decode()


def _bytes(fields: dict[str, Any], name: str) -> bytes | None:
    text, encoded = fields.get(name), fields.get(f"{name}_base64")
    if isinstance(text, str):
        return text.encode()
    if text is not None:
        raise WrongRecord(f"its {name} is not a string; quote it")
    if encoded is None:
        return None
    try:
        return b64decode(encoded, validate=True)
    except (TypeError, ValueError, Base64Error) as error:
        raise WrongRecord(f"its {name}_base64 is not base64") from error


def _name(header: dict[str, Any]) -> str:
    name = header.get("name")
    if not isinstance(name, str):
        raise WrongRecord("one of its headers has no name")
    return name


def _number(fields: dict[str, Any], name: str, highest: int) -> int | None:
    number = fields.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= highest:
        raise WrongRecord(f"its {name} is not a number from 0 to {highest}")
    return number
