"""Conversations in the quorum's protocol: a peer with a bug or an unknown replica sends every message, with
any field.
"""

from collections.abc import Generator, Sequence
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from broker.wire.uuids import encode_uuid
from jepsen.hostile.frames import framed
from jepsen.hostile.quorum_composer import QuorumComposer, Situation
from jepsen.hostile.target import FAKE_DIRECTORY, NODE_ID, Target
from kraft.core import OffsetAndEpoch, ReplicaKey, Voter, VoterSet
from kraft.core.messages import FetchRequest, FetchResponse, Request, sender_is
from kraft.handshake import Hello, hello
from kraft.message_codec import RESPONSES, decode_request, encode, encode_request, encode_response
from kraft.msgpack_reading import MalformedMessage
from kraft.rpc import REQUEST_BYTES_MAX

_STRANGER_ID: Final = 98
_WRONG_HELLOS: Final = 0.2
# Invalid msgpack: nested extension types, arrays without an end, and lengths far beyond the end.
_JUNK: Final = (
    b"\x93\x01" + b"\xc7\x06\x03" * 250,
    b"\x91" * 4_000,
    b"\x93\x01\x04\xdd\x7f\xff\xff\xff",
    b"\x93\x01\x04\xc9\xff\xff\xff\xff\x03",
    b"\x93\x01\x04\xdb\xff\xff\xff\xff",
    b"\x93\x01\x04\xdf\x7f\xff\xff\xff",
    b"\xc1",
    b"",
)


class QuorumFrame(NamedTuple):
    """A frame to send. With `is_sound`, the node has no reason to close the connection. `name` is the message's."""

    data: bytes
    name: str
    correlation_id: int
    is_sound: bool


# Yields frames for one connection, beginning with the hello, and receives the responses.
QuorumStory: TypeAlias = Generator[Sequence[QuorumFrame], Sequence[Any], None]


class QuorumStoryTools:
    """Tells stories in the name of the replica `me`: a voter, a registered broker, or an unknown replica."""

    def __init__(self, rng: Random, target: Target) -> None:
        self._rng = rng
        self._target = target
        self.me = ReplicaKey(rng.choice((target.peer_id, target.peer_id, _STRANGER_ID)), encode_uuid(FAKE_DIRECTORY))
        ids = {NODE_ID: encode_uuid(target.directory_id), target.peer_id: self.me.directory_id}
        voters = VoterSet(tuple(Voter(ReplicaKey(*key), "127.0.0.1:9") for key in ids.items()))
        start = OffsetAndEpoch(0, 0)
        end = OffsetAndEpoch(target.log_end_offset, target.epoch)
        self._composer = QuorumComposer(rng, Situation(self.me, voters, target.epoch, end, start))
        self._correlation_id = 0

    def hello(self) -> QuorumFrame:
        mine = hello(self._target.cluster_id, self.me)
        if self._rng.random() < _WRONG_HELLOS:
            wrong = self._rng.choice((Hello("kraft/1", mine.cluster_id, 5, ""), hello("other", self.me), mine))
            return QuorumFrame(framed(self._composer.hello_body(wrong)), "Hello", -1, is_sound=False)
        return QuorumFrame(framed(encode(mine)), "Hello", -1, is_sound=True)

    def story(self) -> QuorumStory:
        """Requests with wrong fields or wrong bytes, and responses without a request."""
        self._heed((yield [self._fetch()]))
        for _ in range(5):
            self._heed((yield [self._frame() for _ in range(self._rng.randint(2, 12))]))

    def _heed(self, responses: Sequence[Any]) -> None:
        """Update the situation from responses, so that later messages use the real end of the node's log."""
        for response in responses:
            if isinstance(response, FetchResponse):
                epoch = response.current_leader.epoch
                end = OffsetAndEpoch(response.high_watermark, epoch)
                if response.batches:
                    end = OffsetAndEpoch(response.batches[-1].last_offset + 1, response.batches[-1].epoch)
                self._composer.situation = attrs.evolve(self._composer.situation, epoch=epoch, log_end=end)

    def _fetch(self) -> QuorumFrame:
        situation = self._composer.situation
        request = FetchRequest(situation.epoch, self.me, situation.log_end, 0)
        return self._expected(encode_request(self._next(), request), "FetchRequest")

    def _frame(self) -> QuorumFrame:
        rng, composer = self._rng, self._composer
        kind = rng.random()
        request: Request = composer.request()
        name = type(request).__name__
        if kind < 0.03:
            return QuorumFrame(framed(rng.choice(_JUNK)), "junk", -1, is_sound=False)
        if kind < 0.06:
            response = composer.response_to(request)
            if type(response) in RESPONSES.values():
                return self._expected(encode_response(self._next(), response), type(response).__name__)
        if kind < 0.2:
            return self._expected(composer.body(self._next(), request), name)
        return self._expected(encode_request(self._next(), request), name)

    def _expected(self, body: bytes, name: str) -> QuorumFrame:
        """The frame with the expected reaction of the node. A request in another replica's name is rejected like a
        malformed one.
        """
        try:
            correlation_id, request = decode_request(body)
        except MalformedMessage:
            return QuorumFrame(framed(body), name, -1, is_sound=False)
        is_sound = sender_is(request, self.me) and len(body) <= REQUEST_BYTES_MAX
        return QuorumFrame(framed(body), name, correlation_id if is_sound else -1, is_sound)

    def _next(self) -> int:
        self._correlation_id += 1
        return self._correlation_id
