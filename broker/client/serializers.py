"""Serializers turn values into bytes, deserializers bytes into values.

A producer takes a `Serializer` for keys and one for values, a consumer a `Deserializer` for each. Any object with the
method will do: docs/client.md shows Avro, Protobuf and JSON Schema with a schema registry.
"""

import json
from typing import Any, Protocol


class Serializer(Protocol):
    """Turns the keys or the values of a producer into bytes. None is not serialized: it stays None."""

    def serialize(self, topic: str, value: Any, /) -> bytes: ...


class Deserializer(Protocol):
    """Turns bytes into the keys or the values of a consumer. None is not deserialized: it stays None."""

    def deserialize(self, topic: str, data: bytes, /) -> Any: ...


class BytesSerializer:
    """Takes and returns bytes. Clients use it unless another serializer is given."""

    def serialize(self, topic: str, value: bytes | bytearray | memoryview, /) -> bytes:
        """Returns the bytes unchanged. Raises TypeError for another type."""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(
                f"a record for {topic} has {type(value).__name__} where bytes are needed: encode it, or give the client"
                " a serializer (key_serializer, value_serializer)"
            )
        return bytes(value)

    def deserialize(self, topic: str, data: bytes, /) -> bytes:
        return data


class StringSerializer:
    """Text in an encoding, UTF-8 by default."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def serialize(self, topic: str, value: str, /) -> bytes:
        return value.encode(self._encoding)

    def deserialize(self, topic: str, data: bytes, /) -> str:
        """Decodes the text. Raises UnicodeDecodeError."""
        return data.decode(self._encoding)


class JsonSerializer:
    """JSON in UTF-8 without blanks: what `json.dumps` takes and `json.loads` returns."""

    def serialize(self, topic: str, value: Any, /) -> bytes:
        """Encodes JSON. Raises TypeError and ValueError, as `json.dumps` does."""
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    def deserialize(self, topic: str, data: bytes, /) -> Any:
        """Decodes JSON. Raises ValueError, as `json.loads` does."""
        return json.loads(data)
