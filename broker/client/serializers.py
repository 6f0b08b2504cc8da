"""Serializers turn values into bytes, deserializers bytes into values.

A producer takes a `Serializer` for keys and one for values, a consumer a `Deserializer` for each. Any object with the
method will do: docs/client.md shows Avro, Protobuf and JSON Schema with a schema registry.
"""

import json
from typing import Any, Protocol, TypeVar

S = TypeVar("S", contravariant=True)
D = TypeVar("D", covariant=True)


class Serializer(Protocol[S]):
    """Turns the keys or the values of a producer into bytes, or None for a tombstone. None itself is not serialized."""

    def serialize(self, topic: str, value: S, /) -> bytes | None: ...


class Deserializer(Protocol[D]):
    """Turns bytes into the keys or the values of a consumer. None is not deserialized: it stays None."""

    def deserialize(self, topic: str, data: bytes, /) -> D: ...


def deserialized(deserializer: Deserializer[Any] | None, topic: str, data: bytes | None) -> Any:
    """The key or the value that a deserializer makes of these bytes, or the bytes without one. Raises as it does."""
    return data if deserializer is None or data is None else deserializer.deserialize(topic, data)


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


class StringDeserializer:
    """Text in an encoding, UTF-8 by default."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def deserialize(self, topic: str, data: bytes, /) -> str:
        """Decodes the text. Raises UnicodeDecodeError."""
        return data.decode(self._encoding)


class StringSerializer(StringDeserializer):
    """Text in an encoding, UTF-8 by default; a deserializer too."""

    def serialize(self, topic: str, value: str, /) -> bytes:
        """Encodes the text. Raises TypeError for what is no text, and UnicodeEncodeError."""
        if not isinstance(value, str):
            raise TypeError(f"a record for {topic} has {type(value).__name__} where str is needed")
        return value.encode(self._encoding)


class JsonDeserializer:
    """JSON in UTF-8."""

    def deserialize(self, topic: str, data: bytes, /) -> Any:
        """Decodes JSON. Raises ValueError, as `json.loads` does."""
        return json.loads(data)


class JsonSerializer(JsonDeserializer):
    """JSON in UTF-8 without blanks: what `json.dumps` takes and `json.loads` returns; a deserializer too."""

    def serialize(self, topic: str, value: Any, /) -> bytes:
        """Encodes JSON. Raises TypeError and ValueError, as `json.dumps` does."""
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
