"""Bytes that crash a decoder which follows nested extension types of msgpack."""

import msgpack


def nested_extensions(depth: int, payload: bytes = b"") -> bytes:
    """`payload` in `depth` extension types, one around the other: 200 of them take 812 bytes."""
    for _ in range(depth):
        payload = msgpack.packb(msgpack.ExtType(3, payload))
    return payload
