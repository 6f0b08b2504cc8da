"""A hostile client's bytes at a port of TLS before a handshake is complete: ClientHellos and records.

The messages are made here, byte by byte: a TLS library makes no wrong ones, and its own random numbers would make a
story differ from run to run.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from jepsen.hostile.byte_mutations import spoil

CHANGE_CIPHER_SPEC: Final = 20
ALERT: Final = 21
HANDSHAKE: Final = 22
APPLICATION_DATA: Final = 23
_CONTENT_TYPES: Final = (0, CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, 24, 25, 0x80, 255)
_VERSIONS: Final = (b"\3\1", b"\3\3", b"\3\0", b"\3\4", b"\3\377", b"\2\0", b"\0\0", b"\377\377")
# RFC 8446, 5.1 and 5.2: a record has at most 2^14 bytes, and 256 more if it is encrypted.
_RECORD_BYTES_MAX: Final = 1 << 14
_LENGTHS: Final = (0, 1, 2, _RECORD_BYTES_MAX, _RECORD_BYTES_MAX + 1, _RECORD_BYTES_MAX + 256, 18_433, 65_535)
_HANDSHAKE_TYPES: Final = (0, 1, 1, 2, 4, 8, 11, 13, 14, 15, 16, 20, 22, 24, 67, 254, 255)
_CIPHERS: Final = b"\x13\1\x13\2\x13\3\xc0\x2b\xc0\x2f\xc0\x2c\xc0\x30\xcc\xa9\xcc\xa8"
_CIPHER_LISTS: Final = (_CIPHERS, b"", b"\0\0", b"\0", b"\x13\1" * 30_000, b"\0\xff\x56\0" + _CIPHERS, b"\x1a\x1a" * 8)
_SESSION_IDS: Final = (b"", bytes(32), bytes(33), b"\xff" * 255)
_COMPRESSIONS: Final = (b"\0", b"\0", b"\0", b"", b"\1", b"\1\0", bytes(255))
_ALERTS: Final = (b"\1\0", b"\2\0", b"\1\x5a", b"\2\x28", b"\1\x64", b"\0\0", b"\xff\xff", b"\1", b"", b"\1\0" * 2_000)
_REPEATS: Final = (1, 2, 40, 400)


def record(payload: bytes, content_type: int = HANDSHAKE, version: bytes = b"\3\1", length: int | None = None) -> bytes:
    """A record of TLS; `length` is what its header says, if that is not the payload's."""
    size = len(payload) if length is None else length
    return bytes([content_type]) + version + size.to_bytes(2, "big") + payload


def client_hello(rng: Random, *, is_sound: bool = True) -> bytes:
    """A ClientHello, without its record. A server responds to one that is sound, by TLS 1.2 or 1.3."""
    wrong = 0.0 if is_sound else 0.25

    def either(sound: bytes, hostile: Sequence[bytes]) -> bytes:
        return rng.choice(hostile) if rng.random() < wrong else sound

    extensions = _extensions(rng, wrong)
    body = either(b"\3\3", _VERSIONS) + rng.randbytes(32)
    body += _sized(1, either(rng.randbytes(32), _SESSION_IDS))
    body += _sized(2, either(_CIPHERS, _CIPHER_LISTS))
    body += _sized(1, either(b"\0", _COMPRESSIONS))
    body += _sized(2, b"".join([number.to_bytes(2, "big") + _sized(2, content) for number, content in extensions]))
    return _message(1, body)


def hostile_opening(rng: Random) -> list[bytes]:
    """Writes to a port of TLS that complete no handshake."""
    return rng.choice(_OPENINGS)(rng)


def _message(kind: int, body: bytes, length: int | None = None) -> bytes:
    return bytes([kind]) + (len(body) if length is None else length).to_bytes(3, "big") + body


def _sized(width: int, content: bytes) -> bytes:
    """The content after its length, which is cut where it does not fit: then the rest of the message is wrong."""
    return (len(content) & ((1 << 8 * width) - 1)).to_bytes(width, "big") + content


def _extensions(rng: Random, wrong: float) -> list[tuple[int, bytes]]:
    versions = rng.choice((b"\3\4\3\3", b"\3\4", b"\3\3"))
    key_share = b"\0\x1d" + _sized(2, rng.randbytes(32))
    sound = [
        (0, _sized(2, b"\0" + _sized(2, b"localhost"))),
        (10, _sized(2, b"\0\x1d\0\x17\0\x18")),
        (11, _sized(1, b"\0")),
        (13, _sized(2, b"\4\3\x08\4\4\1\x08\7\x08\5\5\1\6\1")),
        (43, _sized(1, versions)),
        (45, _sized(1, b"\1")),
        (51, _sized(2, key_share)),
    ]
    if rng.random() >= wrong * 3:
        return sound
    extensions = [
        (number, _wrong_content(rng, content) if rng.random() < 0.3 else content) for number, content in sound
    ]
    for _ in range(rng.choice((0, 1, 1, 3))):
        extensions.insert(rng.randrange(len(extensions) + 1), rng.choice(_EXTENSIONS))
    if rng.random() < 0.3:
        del extensions[rng.randrange(len(extensions))]
    if rng.random() < 0.2:
        extensions += extensions[: rng.randrange(len(extensions) + 1)]
    return extensions


def _wrong_content(rng: Random, content: bytes) -> bytes:
    return rng.choice((b"", content[:-1], content * 2, content + b"\0", spoil(rng, content), b"\xff" * 40))


def _extension_pool() -> tuple[tuple[int, bytes], ...]:
    """Extensions by number: names, groups, versions, keys and tickets that are empty, huge or of an unknown kind."""
    names = (b"", b"\0", b"a" * 60_000, b"\xff" * 300, b"127.0.0.1", b".." * 50)
    shares = (b"", b"\0\x1d\0\0", b"\0\x1d\0\x20" + bytes(32), b"\0\x17\0\x41\4" + bytes(64), b"\x1a\x1a\0\1\0" * 5_000)
    by_number: dict[int, tuple[bytes, ...]] = {
        0: (*(_sized(2, b"\0" + _sized(2, name)) for name in names), _sized(2, (b"\0" + _sized(2, b"a")) * 1_000)),
        5: (b"\1\0\0\0\0",),
        10: tuple(_sized(2, groups) for groups in (b"", b"\xff\xff", b"\0\x1d" * 20_000, b"\1\0\1\1")),
        15: (b"\1",),
        16: tuple(_sized(2, protocols) for protocols in (b"", b"\0", b"\x02h2\x08http/1.1", b"\1a" * 20_000)),
        21: (bytes(16_000),),
        27: (b"\2\0\1",),
        35: (b"", b"ticket" * 5_000),
        41: (bytes(200), _sized(2, _sized(2, bytes(32)) + bytes(4)) + _sized(2, _sized(1, bytes(32)))),
        42: (b"",),
        43: tuple(_sized(1, versions) for versions in (b"", b"\3", b"\3\0", b"\x7f\x1c", b"\3\4" * 127)),
        44: (_sized(2, bytes(60_000)),),
        51: tuple(_sized(2, share) for share in (*shares, b"\0\x18\0\x61\4" + b"\xff" * 96)),
        0xFF01: (b"\0", _sized(1, bytes(12))),
        0xFFFF: (b"", bytes(9_000)),
    }
    return tuple((number, content) for number, contents in by_number.items() for content in contents)


_EXTENSIONS: Final = _extension_pool()


def _wrong_hello(rng: Random) -> list[bytes]:
    return _in_records(rng, client_hello(rng, is_sound=False))


def _spoiled_hello(rng: Random) -> list[bytes]:
    return _in_records(rng, spoil(rng, client_hello(rng)))


def _spoiled_record(rng: Random) -> list[bytes]:
    return [spoil(rng, record(client_hello(rng)))]


def _torn_hello(rng: Random) -> list[bytes]:
    """A sound ClientHello in many records or writes, sometimes without its end."""
    hello = client_hello(rng)
    step = rng.choice((1, 2, 3, 50, 200))
    if rng.random() < 0.5:
        sent = b"".join([record(hello[start : start + step]) for start in range(0, len(hello), step)])
        step = rng.choice((len(sent), 100, 7))
    else:
        sent = record(hello)
    writes = [sent[start : start + step] for start in range(0, len(sent), step)]
    return writes[: rng.randint(1, len(writes))] if rng.random() < 0.5 else writes


def _wrong_records(rng: Random) -> list[bytes]:
    """Records of any kind and length, after a ClientHello or without one."""
    writes = [record(client_hello(rng))] if rng.random() < 0.6 else []
    for _ in range(rng.randint(1, 5)):
        length = rng.choice(_LENGTHS)
        payload = rng.choice((bytes(length), rng.randbytes(min(length, 300)), b""))
        kind, version = rng.choice(_CONTENT_TYPES), b"\3\3" if rng.random() < 0.8 else rng.choice(_VERSIONS)
        writes.append(record(payload, kind, version, rng.choice((None, length))))
    return writes


def _many_records(rng: Random) -> list[bytes]:
    """One small record over and over: alerts, changes of the cipher, empty records, another ClientHello."""
    hello = client_hello(rng)
    repeated = rng.choice(
        (
            record(rng.choice(_ALERTS)[:_RECORD_BYTES_MAX], ALERT, b"\3\3"),
            record(rng.choice((b"\1", b"\1", b"\0", b"")), CHANGE_CIPHER_SPEC, b"\3\3"),
            record(b"", rng.choice(_CONTENT_TYPES), b"\3\3"),
            record(rng.randbytes(32), APPLICATION_DATA, b"\3\3"),
            record(hello, HANDSHAKE, b"\3\3"),
        )
    )
    return [record(hello) if rng.random() < 0.7 else b"", repeated * rng.choice(_REPEATS)]


def _wrong_messages(rng: Random) -> list[bytes]:
    """Messages of a handshake that do not come first, or not from a client, with a length that may be wrong."""
    writes = [record(client_hello(rng))] if rng.random() < 0.7 else []
    body = rng.choice((b"", bytes(4), rng.randbytes(60), bytes(300_000)))
    length = rng.choice((None, None, 0, 1, len(body) + 1, 100_000, (1 << 24) - 1))
    message = _message(rng.choice(_HANDSHAKE_TYPES), body, length)
    parts = [message[start : start + _RECORD_BYTES_MAX] for start in range(0, len(message), _RECORD_BYTES_MAX)]
    return writes + [record(part, HANDSHAKE, b"\3\3") for part in parts]


def _other_protocol(rng: Random) -> list[bytes]:
    """The first bytes of a client of another protocol: Kafka's without TLS, HTTP, SSL 2, or random bytes."""
    return [
        rng.choice(
            (
                b"\0\0\0\x0a\0\x12\0\3\0\0\0\1\xff\xff",
                b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n",
                b"\x80\x2e\1\0\2\0\x15\0\0\0\x10\1\0\x80" + bytes(36),
                b"SSH-2.0-client\r\n",
                bytes(rng.choice((1, 5, 60_000))),
                rng.randbytes(rng.randint(1, 400)),
            )
        )
    ]


def _in_records(rng: Random, message: bytes) -> list[bytes]:
    """The message in records as large as they may be, sometimes with a version that none should have."""
    version = b"\3\1" if rng.random() < 0.9 else rng.choice(_VERSIONS)
    parts = [message[start : start + _RECORD_BYTES_MAX] for start in range(0, len(message), _RECORD_BYTES_MAX)]
    return [record(part, HANDSHAKE, version) for part in parts]


_OPENINGS: Final[tuple[Callable[[Random], list[bytes]], ...]] = (
    _wrong_hello,
    _wrong_hello,
    _spoiled_hello,
    _spoiled_record,
    _torn_hello,
    _wrong_records,
    _many_records,
    _wrong_messages,
    _other_protocol,
)
