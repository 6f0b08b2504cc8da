"""A peer that sends false messages in the quorum's protocol, as an unknown replica or under a node's id."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final

import attrs
import trio

from jepsen.simulation.faults.fault import FaultInjection
from jepsen.simulation.faults.lies import STRANGE_DIRECTORY, STRANGE_ID, Lies, QuorumMembers
from kraft.core import ReplicaKey
from kraft.core.messages import is_answer
from kraft.frames import Frames, PeerConnectionLost
from kraft.handshake import PROTOCOL, Hello, decode_hello
from kraft.message_codec import decode_request, encode, encode_request, encode_response
from kraft.msgpack_reading import MalformedMessage

HOST_NAME: Final = "liar"
LIE_SECONDS_MAX: Final = 8.0
# The longest pause between two messages, from the network's limit to the rate of a correct replica.
_PAUSES_SECONDS: Final = (0.0005, 0.01, 0.2)
# The most messages that are sent over one connection.
_LIES_MAX: Final = 300
# The probability of sending the response to a different request.
_NOT_MEANT_SHARE: Final = 0.05
_CONNECT_SECONDS: Final = 2.0


@attrs.frozen
class ClaimedIdentity:
    """The identity that a lying peer claims."""

    cluster_id: str
    key: ReplicaKey


def known_node(members: QuorumMembers, rng: Random) -> ClaimedIdentity | None:
    """The identity of a random node; None if its disk is still empty."""
    key = members.key_of(rng.choice(list(members.names.values())))
    return None if key is None else ClaimedIdentity(members.cluster_id(), key)


def stranger(members: QuorumMembers, rng: Random) -> ClaimedIdentity:
    """The identity of a node of another cluster, of an unknown node, or of a known node with another disk."""
    node_id = rng.choice((STRANGE_ID, *(members.names if members.founders_have_disks else ())))
    key = members.key_of(rng.choice(list(members.names.values())))
    if key is not None and rng.random() < 0.3:
        return ClaimedIdentity("another", key)
    return ClaimedIdentity(members.cluster_id(), ReplicaKey(node_id, STRANGE_DIRECTORY))


class LyingPeer:
    """For some seconds, a peer sends false requests to one node or to all, and false responses to their requests.

    `claim_identity` returns its identity, or None for no fault. A stranger's messages must have no effect.
    """

    def __init__(
        self, claim_identity: Callable[[QuorumMembers, Random], ClaimedIdentity | None], *, is_stranger: bool
    ) -> None:
        self._claim_identity = claim_identity
        self._is_stranger = is_stranger

    async def inject(self, injection: FaultInjection) -> None:
        members, rng, simulation = injection.members, injection.rng, injection.cluster.simulation
        identity = self._claim_identity(members, rng)
        if identity is None:
            return
        targets = rng.choice((list(members.serving), [rng.choice(members.serving)]))
        told = {"key": str(identity.key), "is_stranger": self._is_stranger, "targets": tuple(targets)}
        simulation.trace.event(HOST_NAME, "lies", told)
        host = simulation.hosts.get(HOST_NAME) or simulation.add_host(HOST_NAME)
        with trio.move_on_after(rng.uniform(0.5, LIE_SECONDS_MAX)):
            await simulation.on(host, _Liar(injection, identity).run, targets)


class _Liar:
    def __init__(self, injection: FaultInjection, identity: ClaimedIdentity) -> None:
        self._strike = injection
        self._identity = identity
        self._rng = injection.rng
        self._lies = Lies(injection.members, identity.key, injection.rng)
        self._hello = Hello(PROTOCOL, identity.cluster_id, identity.key.node_id, identity.key.directory_id)

    async def run(self, targets: list[str]) -> None:
        async with trio.open_nursery() as nursery:
            listeners: list[trio.SocketListener] = await nursery.start(trio.serve_tcp, self._answer, 0)
            self._lies.address = f"{HOST_NAME}:{listeners[0].socket.getsockname()[1]}"
            for target in targets:
                nursery.start_soon(self._lie_to, target)

    async def _lie_to(self, target: str) -> None:
        while True:
            try:
                with trio.fail_after(_CONNECT_SECONDS):
                    stream = await trio.open_tcp_stream(target, self._strike.members.port)
            except (OSError, trio.TooSlowError):
                await trio.sleep(0.1)
                continue
            async with stream:
                await self._converse(target, Frames(stream))
            await trio.sleep(self._rng.choice((0.001, 0.1, 1.0)))

    async def _converse(self, target: str, frames: Frames) -> None:
        """Send requests until the node closes the connection or the number of requests is reached."""
        pause_seconds, listens = self._rng.choice(_PAUSES_SECONDS), self._rng.random() < 0.8
        async with trio.open_nursery() as nursery:

            async def tell() -> None:
                with suppress(PeerConnectionLost):
                    await frames.send(encode(self._hello))
                    for number in range(self._rng.randint(1, _LIES_MAX)):
                        correlation_id = self._rng.choice((number, number, number, 0, self._lies.number()))
                        await frames.send(encode_request(correlation_id, self._lies.request(target)))
                        await trio.sleep(pause_seconds * self._rng.random())
                nursery.cancel_scope.cancel()

            async def listen() -> None:
                with suppress(PeerConnectionLost):
                    while True:
                        await frames.receive()
                nursery.cancel_scope.cancel()

            nursery.start_soon(tell)
            if listens:
                nursery.start_soon(listen)

    async def _answer(self, stream: trio.SocketStream) -> None:
        """Answer the requests of a node: late, twice, or with the response to another request."""
        frames, rng = Frames(stream), self._rng
        members = self._strike.members
        with suppress(PeerConnectionLost, MalformedMessage):  # brokers connect here too, with Kafka's protocol
            asking = decode_hello(await frames.receive())
            await frames.send(encode(self._hello))
            while True:
                correlation_id, request = decode_request(await frames.receive())
                await trio.sleep(rng.choice((0.0, 0.0, 0.01, 1.0)))
                for _ in range(rng.choice((0, 1, 1, 1, 2))):
                    response = self._lies.response(members.names[asking.node_id], request)
                    while not is_answer(request, response) and rng.random() > _NOT_MEANT_SHARE:
                        response = self._lies.response(members.names[asking.node_id], request)
                    told = correlation_id if rng.random() > _NOT_MEANT_SHARE else self._lies.number()
                    await frames.send(encode_response(told, response))
