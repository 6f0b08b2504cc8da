"""Nested msgpack extension types, which crash a recursive decoder."""

import msgpack


def nested_extensions(depth: int, payload: bytes = b"") -> bytes:
    """Wrap `payload` in `depth` nested extension types. 200 of them take 812 bytes."""
    for _ in range(depth):
        payload = msgpack.packb(msgpack.ExtType(3, payload))
    return payload
