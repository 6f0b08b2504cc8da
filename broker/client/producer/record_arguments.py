"""Checks what a record is made of, before the producer takes it. A wrong record in a batch would end the producer.

These run for every record, so each call is made only where the common case does not hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from broker.client.arguments.check import WrongArgument, shown
from broker.client.arguments.scalars import check_text, whole
from broker.client.errors import ClientError
from broker.client.producer.batch import record_size
from broker.client.serializers import BytesSerializer, Serializer
from broker.client.types import Header

TIMESTAMP_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1
NO_HEADERS: Final[tuple[Header, ...]] = ()
_HEADER_SIZE: Final = 2
_BYTES: Final = BytesSerializer()


def check_topic(topic: object) -> None:
    """Raises TypeError and ValueError for what cannot be the name of a topic."""
    if not isinstance(topic, str):
        raise TypeError(f"a record's topic must be str, not {_type(topic)}")
    if not topic:
        raise ValueError("a record's topic must not be empty")
    try:
        check_text(topic)
    except WrongArgument as wrong:
        raise wrong.error(f"the topic {shown(topic)} of a record") from None


class RecordSerializers:
    """The serializers of a producer. `takes_bytes` is True for a producer that was given none."""

    def __init__(self, key_serializer: Serializer[Any] | None, value_serializer: Serializer[Any] | None) -> None:
        self.takes_bytes = key_serializer is None and value_serializer is None
        self._serialize_key = (key_serializer or _BYTES).serialize
        self._serialize_value = (value_serializer or _BYTES).serialize

    def serialized(
        self, topic: str, key: Any, value: Any, headers: Sequence[Header]
    ) -> tuple[Any, Any, Sequence[Header], int]:
        """The key and the value as bytes, the headers, and the bytes that the record is expected to take.

        Raises TypeError and ValueError for what is no record, and what the serializers raise.
        """
        if type(topic) is not str:
            check_topic(topic)
        if headers is not NO_HEADERS:
            headers = headers_of(topic, headers)
        takes_bytes = self.takes_bytes  # and then bytes are what their serializer returns
        if key is not None and not (takes_bytes and type(key) is bytes):
            key = self._serialize_key(topic, key)
            if type(key) is not bytes:
                key = _content(topic, "key", key)
        if value is not None and not (takes_bytes and type(value) is bytes):
            value = self._serialize_value(topic, value)
            if type(value) is not bytes:
                value = _content(topic, "value", value)
        return key, value, headers, record_size(key, value, headers)


def _content(topic: str, part: str, given: object) -> bytes | None:
    """The result of a serializer as bytes. Raises TypeError."""
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    if given is None:
        return None
    raise _refusal(topic, f"the serializer of the {part} returned {_type(given)} where bytes are needed")


def timestamp(topic: str, given: object) -> int:
    """A timestamp in ms since 1970. Raises TypeError and ValueError."""
    number = whole(given)
    if number is None:
        advice = ": int(time.time() * 1000), for instance" if isinstance(given, float) else ""
        raise _refusal(topic, f"timestamp_ms must be int, not {_type(given)}{advice}")
    if not 0 <= number <= TIMESTAMP_MAX:
        raise ValueError(
            f"{_record(topic)}: a timestamp is a number of milliseconds since 1970 in 64 bits, not {shown(number)}"
        )
    return number


class BadPartition(ClientError, ValueError):
    """The caller or the partitioner has named a partition that no topic, or not this topic, can have."""


def partition_number(topic: str, given: object) -> int:
    """The number of a partition that a topic may have. Raises TypeError, BadPartition."""
    number = whole(given)
    if number is None:
        raise _refusal(topic, f"partition must be int, not {_type(given)}")
    if not 0 <= number <= _PARTITION_MAX:
        raise BadPartition(f"{_record(topic)}: a partition is a number from 0, not {shown(number)}")
    return number


def headers_of(topic: str, given: Any) -> tuple[Header, ...]:
    """The headers of a record. Raises TypeError and ValueError that name the header."""
    if type(given) is list or type(given) is tuple:
        for header in given:
            if type(header) is not tuple or len(header) != _HEADER_SIZE:
                break
            name, value = header
            if type(name) is not str or not name.isascii() or not (value is None or type(value) is bytes):
                break
        else:
            return tuple(given)
    if given is None:
        return NO_HEADERS
    if isinstance(given, Mapping):
        raise _refusal(topic, "headers must be (name, value) pairs, not a mapping: pass list(headers.items())")
    if isinstance(given, str | bytes | bytearray | memoryview) or not isinstance(given, Iterable):
        raise _refusal(topic, f"headers must be (name, value) pairs, not {_type(given)}")
    return tuple([_header(topic, number, header) for number, header in enumerate(given)])


def _header(topic: str, number: int, header: Any) -> Header:
    if not isinstance(header, tuple | list) or len(header) != _HEADER_SIZE:
        raise _refusal(topic, f"headers[{number}] must be a (name, value) pair, not {shown(header)}")
    name, value = header
    if type(name) is str and (type(value) is bytes or value is None) and name.isascii():
        return name, value
    if not isinstance(name, str):
        raise _refusal(topic, f"the name of headers[{number}] must be str, not {_type(name)}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{_record(topic)}: the name of headers[{number}] cannot be written in UTF-8") from None
    if value is not None and not isinstance(value, bytes | bytearray | memoryview):
        reason = f"the value of headers[{number}] ({shown(name)}) must be bytes or None, not {_type(value)}"
        raise _refusal(topic, reason)
    return name, None if value is None else bytes(value)


def check_callback(on_delivery: object) -> None:
    """Raises TypeError for what cannot be called."""
    if not callable(on_delivery):
        raise TypeError(f"on_delivery must be a function of (metadata, error), not {_type(on_delivery)}")


def _refusal(topic: str, reason: str) -> TypeError:
    return TypeError(f"{_record(topic)}: {reason}")


def _record(topic: str) -> str:
    return f"a record for {topic}"


def _type(value: object) -> str:
    return "None" if value is None else type(value).__name__
