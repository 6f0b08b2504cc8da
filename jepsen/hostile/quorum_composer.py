"""Messages of the quorum's protocol as a broken peer might send them, with values within, at and beyond their bounds.

Values follow the declarations of the messages' fields (`kraft.bounds`), so a new message or field is covered as soon as
it is declared. `Situation` makes a message more effective: a Fetch at the real end of the log gets further than one at
a random offset.
"""

from collections.abc import Sequence
from copy import deepcopy
from enum import Enum
from random import Random
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import attrs
import msgpack

from kraft.bounds import Count, IsAddress, IsBytes, IsDirectoryId, IsText, Range
from kraft.core import OffsetAndEpoch, ReplicaKey, Voter, VoterSet
from kraft.core.control_records import encode_voters
from kraft.core.messages import CurrentLeader, Error, FetchResponse, Request, Response
from kraft.handshake import Hello
from kraft.message_codec import REQUESTS, RESPONSES, encode
from kraft.replicated_log import Batch, BatchKind

# Replacement values of any type.
_ODD: Final[Sequence[object]] = (
    *(None, True, False, 0, 1, -1, 0.5, float("nan"), float("inf"), "", "x", b"", b"x", [], [[]], {}, {1: 2}),
    *(2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
    *(
        "not a uuid",
        "x" * 600,
        "x" * 1_001,
        "host:0",
        "host:65536",
        ":1",
        "a\0b:1",
        "\udcff".encode("utf-8", "replace"),
    ),
    *(list(range(101)), [b"x"] * 300, msgpack.ExtType(3, b"x"), msgpack.Timestamp(1)),
)
# Invalid msgpack: an array and an extension type with a length beyond the end, deep nesting, and the unused byte.
_ODD_BYTES: Final = (b"\xdd\x7f\xff\xff\xff", b"\xc9\0\0\0\xff\3", b"\x91" * 300, b"\xc1")
_SMALL_STEPS: Final = (-2, -1, 0, 0, 0, 0, 1, 2)


@attrs.frozen
class Situation:
    """The peer's knowledge of the target node. `me` is the peer."""

    me: ReplicaKey
    voters: VoterSet
    epoch: int
    log_end: OffsetAndEpoch
    snapshot: OffsetAndEpoch


class QuorumComposer:
    """Makes messages with random numbers from `rng`. `situation` may be replaced at any time."""

    def __init__(self, rng: Random, situation: Situation) -> None:
        self._rng = rng
        self.situation = situation

    def request(self) -> Request:
        """A well-formed request, usually with the peer's own key."""
        request: Request = self._object(self._rng.choice(list(REQUESTS.values())))
        return self._in_own_name(request) if self._rng.random() < 0.95 else request

    def response_to(self, request: Request) -> Response:
        """A well-formed response, usually of the right kind."""
        numbers = [number for number, cls in REQUESTS.items() if cls is type(request)]
        number = self._rng.choice(list(RESPONSES)) if self._rng.random() < 0.02 else numbers[0]
        response: Response = self._object(RESPONSES[number])
        if isinstance(response, FetchResponse) and self._rng.random() < 0.6:
            response = self._misled(response)
        if self._rng.random() < 0.3:
            return response
        current_leader = CurrentLeader(self.situation.epoch, self.situation.me.node_id)
        error = Error.NONE if self._rng.random() < 0.8 else response.error
        return attrs.evolve(response, current_leader=current_leader, error=error)

    def request_body(self, correlation_id: int) -> bytes:
        """A frame's body: a request, usually malformed."""
        return self.body(correlation_id, self.request())

    def body(self, correlation_id: int, message: Request | Response, intact: float = 0.4) -> bytes:
        """A frame's body: `message`, which is left unchanged with the probability `intact` and malformed otherwise."""
        classes = REQUESTS if isinstance(message, Request) else RESPONSES
        number = next(number for number, cls in classes.items() if cls is type(message))
        plain = msgpack.unpackb(encode((correlation_id, number, message)))
        return self._damaged(plain, intact)

    def hello_body(self, hello: Hello) -> bytes:
        """A frame's body: `hello`, malformed."""
        return self._damaged(msgpack.unpackb(encode(hello)), 0.0)

    # Well-formed messages

    def _object(self, cls: type[Any]) -> Any:
        if cls is ReplicaKey and self._rng.random() < 0.8:
            return self._rng.choice([self.situation.me, *(voter.key for voter in self.situation.voters.voters)])
        if cls is OffsetAndEpoch and self._rng.random() < 0.5:
            return self._rng.choice([self.situation.log_end, self.situation.snapshot])
        if cls is Batch and self._rng.random() < 0.7:
            return self._batch()
        return cls(*[self._value(field.type) for field in attrs.fields(cls)])

    def _value(self, hint: Any) -> Any:
        if get_origin(hint) is Annotated:
            inner, bound = get_args(hint)
            if isinstance(bound, Count):
                count = self._rng.choice((0, 1, 1, 2, 3, min(bound.maximum, 20)))
                return tuple(self._value(get_args(inner)[0]) for _ in range(count))
            return self._bounded(bound)
        if get_origin(hint) in (Union, UnionType):
            (inner,) = [each for each in get_args(hint) if each is not NoneType]
            return None if self._rng.random() < 0.4 else self._value(inner)
        if isinstance(hint, type) and issubclass(hint, Enum):
            values = list(hint)
            return values[0] if self._rng.random() < 0.6 else self._rng.choice(values)
        return self._rng.random() < 0.5 if hint is bool else self._object(hint)

    def _bounded(self, bound: object) -> object:
        rng = self._rng
        match bound:
            case Range():
                near = rng.choice((self.situation.epoch, self.situation.log_end.offset, *self.situation.voters.ids, 0))
                value = rng.choice((near, near, near, near, bound.minimum, bound.maximum, 2 ** rng.randrange(62)))
                return min(max(value + rng.choice(_SMALL_STEPS), bound.minimum), bound.maximum)
            case IsDirectoryId():
                known = [
                    self.situation.me.directory_id,
                    *(each.key.directory_id for each in self.situation.voters.voters),
                ]
                return rng.choice(["", f"{rng.getrandbits(64):x}".ljust(22, "A"), *known])
            case IsAddress():
                return rng.choice(
                    ["", "127.0.0.1:1", "[::1]:65535", *(each.address for each in self.situation.voters.voters)]
                )
            case IsText():
                return "x" * rng.choice((0, 1, bound.maximum))
            case IsBytes():
                return rng.randbytes(rng.choice((0, 1, 10, 1_000)))
        raise TypeError(f"nothing draws values for {bound}")

    def _misled(self, response: FetchResponse) -> FetchResponse:
        """Batches that do continue the log, with a wrong high watermark, or with a divergence near its end."""
        rng, end = self._rng, self.situation.log_end
        near = max(0, end.offset + rng.randrange(-6, 6))
        if rng.random() < 0.3:
            diverging = OffsetAndEpoch(near, rng.choice((end.epoch, self.situation.epoch)))
            return attrs.evolve(response, diverging=diverging, snapshot=None, batches=())
        batches, offset = [], end.offset
        for _ in range(rng.randrange(3)):
            records = tuple(rng.randbytes(4) for _ in range(rng.choice((1, 2, 5))))
            batches.append(Batch(offset, self.situation.epoch, 0, records))
            offset += len(records)
        return attrs.evolve(response, diverging=None, snapshot=None, batches=tuple(batches), high_watermark=near)

    def _batch(self) -> Batch:
        """A batch that may continue the log, or nearly does."""
        rng, end = self._rng, self.situation.log_end
        base_offset = max(0, end.offset + rng.choice(_SMALL_STEPS))
        epoch = max(0, self.situation.epoch + rng.choice((0, 0, 0, 0, -1, 1)))
        kind = rng.choice(list(BatchKind))
        records = tuple(rng.randbytes(rng.randrange(10)) for _ in range(rng.choice((0, 1, 1, 2))))
        if kind is BatchKind.VOTERS and rng.random() < 0.3:
            voters = self.situation.voters.with_voter(self._object(Voter))
            records = (encode_voters(voters),)
        return Batch(base_offset, epoch, rng.choice((-1, 0, 1_700_000_000_000)), records, kind)

    def _in_own_name(self, request: Request) -> Request:
        changes: dict[str, Any] = {}
        for name in ("candidate", "replica"):
            if hasattr(request, name):
                changes[name] = self.situation.me
        if hasattr(request, "leader_id"):
            changes["leader_id"] = self.situation.me.node_id
        if hasattr(request, "voter") and isinstance(request.voter, Voter):
            changes["voter"] = attrs.evolve(request.voter, key=self.situation.me)
        return attrs.evolve(request, **changes)

    # Malformed messages

    def _damaged(self, plain: list[Any], intact: float) -> bytes:
        """Encode `plain` as msgpack: unchanged with the probability `intact`, otherwise with changed structure or
        bytes.
        """
        rng = self._rng
        if rng.random() < intact:
            return _packed(plain)
        if rng.random() < 0.8:
            for _ in range(rng.choice((1, 1, 1, 2, 5))):
                self._change(plain)
            return _packed(plain)
        body = bytearray(_packed(plain))
        match rng.randrange(4):
            case 0:
                body[rng.randrange(len(body))] = rng.randrange(256)
            case 1:
                del body[rng.randrange(len(body)) :]
            case 2:
                body += rng.randbytes(rng.choice((1, 10, 300)))
            case 3:
                position = rng.randrange(len(body))
                body[position:position] = rng.choice(
                    (b"\xdd\x7f\xff\xff\xff", b"\xc9\0\0\0\xff\3", b"\x91" * 300, b"\xc1")
                )
        return bytes(body)

    def _change(self, plain: list[Any]) -> None:
        """Insert, replace, wrap or delete an element of a list, which may be nested."""
        rng, within = self._rng, plain
        while inner := [each for each in within if isinstance(each, list)]:
            if rng.random() < 0.3:
                break
            within = rng.choice(inner)
        index = rng.randrange(len(within) + 1)
        match rng.randrange(10):
            case 0 if within:
                del within[index - 1]
            case 1:
                within.insert(index, _odd(rng))
            case 2 if within:
                within[index - 1] = [within[index - 1]]
            case _ if within:
                within[index - 1] = _odd(rng)


def _odd(rng: Random) -> object:
    """A random replacement value, copied because lists are changed later."""
    return deepcopy(rng.choice(_ODD))


def _packed(plain: object) -> bytes:
    packed: bytes = msgpack.packb(plain)
    return packed
