"""The quorum's protocol (`kraft.rpc`) as a peer with a bug speaks it, or a stranger: every message, every field."""

from collections.abc import Generator, Sequence
from enum import Enum
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin

import attrs
import msgpack

from broker.wire.uuids import encode_uuid
from jepsen.hostile.byte_mutations import spoil
from jepsen.hostile.frames import framed
from jepsen.hostile.target import FAKE_BROKER_ID, FAKE_DIRECTORY, NODE_ID, UNKNOWN_ID, Target
from kraft.core import messages
from kraft.core.voters import ReplicaKey
from kraft.message_codec import MalformedMessage, decode_request, encode
from kraft.rpc import PROTOCOL

_INTS: Final = (
    *(0, 1, 2, -1, -2, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**31), -(2**63)),
    *(1_000, 2**15),
)
_STRINGS: Final = (
    "",
    "not a uuid",
    "x" * 600,
    "x" * 70_000,
    "é漢🐘",
    "\0",
    "127.0.0.1:9",
    "nowhere:-1",
    "[::1]:99999",
    "a:b:c",
)
_OTHERS: Final = (None, True, 1.5, b"bytes", (), ("x",), {"a": 1}, "text", -1)
_REQUESTS: Final = (
    messages.VoteRequest,
    messages.BeginEpochRequest,
    messages.EndEpochRequest,
    messages.FetchRequest,
    messages.FetchSnapshotRequest,
    messages.AddVoterRequest,
    messages.RemoveVoterRequest,
    messages.UpdateVoterRequest,
)
_RESPONSES: Final = (
    messages.VoteResponse,
    messages.BeginEpochResponse,
    messages.EndEpochResponse,
    messages.FetchResponse,
    messages.FetchSnapshotResponse,
    messages.VoterChangeResponse,
)


class QuorumFrame(NamedTuple):
    """`is_decodable`: the node has no reason to close the connection. `name` is that of the message."""

    data: bytes
    name: str
    correlation_id: int
    is_decodable: bool


# Yields frames for one connection, after its hello; gets nothing back.
QuorumStory: TypeAlias = Generator[Sequence[QuorumFrame], None, None]


def hello(rng: Random, target: Target, hostility: float) -> bytes:
    """What a connection begins with: of the voter, of the fake broker, of a stranger, or junk."""
    if rng.random() < hostility:
        return _wrong_hello(rng, target)
    return framed(encode((PROTOCOL, target.cluster_id, rng.choice((FAKE_BROKER_ID, FAKE_BROKER_ID, NODE_ID, -1)))))


def quorum_story(rng: Random, target: Target) -> QuorumStory:
    """Requests with wrong fields, wrong bytes among them, and responses that nobody asked for."""
    correlation_id = 0
    hostility = rng.choice((0.0, 0.05, 0.05, 0.2, 0.6))
    for _ in range(4):
        frames = []
        for _ in range(rng.randint(2, 14)):
            correlation_id += 1
            frames.append(_frame(rng, target, hostility, correlation_id))
        yield frames


def _frame(rng: Random, target: Target, hostility: float, correlation_id: int) -> QuorumFrame:
    cls = rng.choice(_REQUESTS) if rng.random() < 0.97 else rng.choice(_RESPONSES)
    message = _Composer(rng, target, hostility).compose(cls)
    try:
        body = encode((rng.choice(_INTS) if rng.random() < hostility / 4 else correlation_id, message))
    except (ValueError, TypeError, OverflowError):  # msgpack has no such value
        body = msgpack.packb((correlation_id, cls.__name__))
    if rng.random() < 0.05:
        return QuorumFrame(framed(_nested(rng)), "nested", -1, is_decodable=False)
    if rng.random() < 0.1:
        body = spoil(rng, body)
    try:
        decoded_id, request = decode_request(body)
    except MalformedMessage:
        return QuorumFrame(framed(body), cls.__name__, -1, is_decodable=False)
    if _is_harmful(request):
        return _frame(rng, target, 0.0, correlation_id)
    return QuorumFrame(framed(body), cls.__name__, decoded_id, is_decodable=True)


def _is_harmful(request: messages.Request) -> bool:
    """A voter that fetches may be added, and then be missed; the only one may be removed, or sent elsewhere."""
    if isinstance(request, messages.RemoveVoterRequest):
        return request.key.node_id == NODE_ID
    if isinstance(request, messages.AddVoterRequest | messages.UpdateVoterRequest):
        return request.voter.node_id in (NODE_ID, FAKE_BROKER_ID)
    return False


def _nested(rng: Random) -> bytes:
    """Arrays, maps and extension types within each other, and headers that announce far more than there is."""
    depth = rng.choice((10, 60, 200, 600, 2_000))
    kind = rng.randrange(5)
    if kind == 0:
        return b"\x91" * depth + b"\xc0"
    if kind == 1:
        body = b"\xc0"
        for _ in range(min(depth, 300)):
            body = bytes(msgpack.packb(msgpack.ExtType(rng.randrange(20), body)))
        return body
    if kind == 2:
        return b"\x92\x01" + rng.choice((b"\xdd\x7f\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x05"))
    if kind == 3:
        return b"\x81\x01" * depth + b"\x01"
    return b"\x92\x01" + rng.choice(
        (b"\xdb\xff\xff\xff\xff", b"\xc6\x7f\xff\xff\xff", b"\xc1", b"\xd9\x05\xff\xff\xff\xff\xff")
    )


def _wrong_hello(rng: Random, target: Target) -> bytes:
    parts: list[Any] = [PROTOCOL, target.cluster_id, FAKE_BROKER_ID]
    kind = rng.randrange(5)
    if kind == 0:
        parts[rng.randrange(3)] = rng.choice((*_INTS, *_STRINGS[:5], *_OTHERS))
    elif kind == 1:
        parts = parts * rng.choice((0, 2, 40))
    elif kind == 2:
        return framed(spoil(rng, encode(tuple(parts))))
    elif kind == 3:
        # The acceptor tells the quorum's protocol from Kafka's by an array of three.
        return framed(b"\x93" + _nested(rng)[:800])
    else:
        return rng.choice((2**31 - 1, 2**32 - 1, 64 << 20, 0, 1)).to_bytes(4) + encode(tuple(parts))
    return framed(encode(tuple(parts)))


class _Composer:
    """Makes messages: values that a peer may send, and others with a chance of `hostility` for each field."""

    def __init__(self, rng: Random, target: Target, hostility: float) -> None:
        self._rng = rng
        self._target = target
        self._hostility = hostility

    def compose(self, cls: type[Any]) -> Any:
        return cls(*(self._field(cls, field) for field in attrs.fields(cls)))

    def _field(self, cls: type[Any], field: "attrs.Attribute[Any]") -> Any:
        rng = self._rng
        if rng.random() >= self._hostility:
            return self._plausible(cls, field.name, field.type)
        return rng.choice(_OTHERS) if rng.random() < 0.1 else self._hostile(field.type)

    def _plausible(self, cls: type[Any], name: str, hint: Any) -> Any:
        rng = self._rng
        if cls is ReplicaKey:
            if name == "node_id":
                return rng.choice((NODE_ID, FAKE_BROKER_ID, FAKE_BROKER_ID, 99))
            ids = (self._target.directory_id, FAKE_DIRECTORY, FAKE_DIRECTORY, UNKNOWN_ID)
            return rng.choice((*map(encode_uuid, ids), ""))
        match name:
            case "epoch":
                return rng.choice((0, 1, 1, 2, 3))
            case "leader_id":
                return rng.choice((NODE_ID, FAKE_BROKER_ID))
            case "offset" | "high_watermark":
                return rng.choice((0, 1, 5, 50, 500))
            case "position" | "size_bytes":
                return rng.choice((0, 1, 100))
            case "timeout_ms":
                return rng.choice((1, 50))
            case "leader_address" | "address":
                return rng.choice(("127.0.0.1:9", ""))
        return self._value(hint, self._plausible_of)

    def _plausible_of(self, hint: Any) -> Any:
        return self._value(hint, self._plausible_of)

    def _hostile(self, hint: Any) -> Any:
        return self._value(hint, self._hostile)

    def _value(self, hint: Any, element: Any) -> Any:
        rng = self._rng
        if isinstance(hint, type):
            if attrs.has(hint):
                return self.compose(hint)
            if issubclass(hint, Enum):
                return rng.choice(list(hint))
            if hint is bool:
                return rng.random() < 0.5
            if hint is int:
                return rng.choice(_INTS)
            if hint is str:
                return rng.choice(_STRINGS)
            return rng.choice((b"", b"\0" * 100, rng.randbytes(20)))
        if get_origin(hint) is tuple:
            return tuple(element(get_args(hint)[0]) for _ in range(rng.choice((0, 1, 2, 40))))
        kinds = [each for each in get_args(hint) if each is not type(None)]
        return element(kinds[0]) if kinds and rng.random() < 0.7 else None
