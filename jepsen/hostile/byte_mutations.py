"""Mutations of single bytes of a message: flips, cuts, counts, varints, tagged fields, repeated parts."""

from collections.abc import Callable
from random import Random
from typing import Final

from broker.wire.varint import encode_varint

_BYTES: Final = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
_NUMBERS: Final = (
    *(b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff", b"\x80\0", b"\xff\xff", b"\0\x0f\x42\x40"),
    *(
        b"\xff\xff\xff\xff\x07",
        b"\xff\xff\xff\xff\x0f",
        b"\xff" * 10,
        b"\x80\x80\x80\x80\0",
        b"\xff\xff\x7f",
        b"\x81\0",
    ),
    *(b"\x7f" + b"\xff" * 7, b"\x80" + bytes(7), b"\xff" * 8),
)


def spoil(rng: Random, body: bytes) -> bytes:
    """Return the body with one or more mutations."""
    spoiled = bytearray(body)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choice(_MUTATIONS)(rng, spoiled)
    return bytes(spoiled)


def _flip(rng: Random, body: bytearray) -> None:
    if body:
        body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)


def _replace(rng: Random, body: bytearray) -> None:
    if body:
        body[rng.randrange(len(body))] = rng.choice(_BYTES)


def _cut(rng: Random, body: bytearray) -> None:
    del body[rng.randrange(len(body) + 1) :]


def _remove(rng: Random, body: bytearray) -> None:
    start = rng.randrange(len(body) + 1)
    del body[start : start + rng.choice((1, 1, 2, 4, 8, 20))]


def _insert(rng: Random, body: bytearray) -> None:
    start = rng.randrange(len(body) + 1)
    body[start:start] = rng.randbytes(rng.choice((1, 1, 2, 4, 16)))


def _number(rng: Random, body: bytearray) -> None:
    """Overwrite some bytes with an invalid length, count or varint."""
    number = rng.choice(_NUMBERS)
    start = rng.randrange(len(body) + 1)
    body[start : start + len(number)] = number


def _repeat(rng: Random, body: bytearray) -> None:
    start = rng.randrange(len(body) + 1)
    part = bytes(body[start : start + rng.choice((1, 4, 16, 64))])
    body[start:start] = part * rng.choice((1, 2, 20))


def _tagged_fields(rng: Random, body: bytearray) -> None:
    """Append tagged fields at the end, where the outermost struct of a flexible version has its own."""
    tags = [
        (rng.choice((0, 0, 1, 2, 3, 9, 2**31 - 1)), rng.randbytes(rng.randrange(12))) for _ in range(rng.randrange(4))
    ]
    tagged = b"".join(encode_varint(tag) + encode_varint(len(data)) + data for tag, data in tags)
    del body[-1:]
    body += encode_varint(rng.choice((len(tags), len(tags), len(tags) + 1, 2**31))) + tagged


_MUTATIONS: Final[tuple[Callable[[Random, bytearray], None], ...]] = (
    _flip,
    _flip,
    _replace,
    _replace,
    _cut,
    _remove,
    _insert,
    _number,
    _number,
    _repeat,
    _tagged_fields,
)
