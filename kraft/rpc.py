"""Requests and responses between nodes: msgpack in length-prefixed frames, with many requests in flight.

A connection starts with a Hello from each side (`kraft.handshake`). Then one side sends requests, and the other side
responses in any order. Responses are matched by correlation ids, which a connection never reuses. A late response on an
old connection can therefore not be taken for the response to a new request.
"""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Protocol, TypeAlias

import attrs
import trio

from kraft.connecting import Connect, PeerRefused, open_stream
from kraft.core import ReplicaKey
from kraft.core.joining import JoinRequest
from kraft.core.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    Request,
    Response,
    VoterChangeResponse,
    is_answer,
    sender_is,
)
from kraft.env import Env
from kraft.frames import FRAME_BYTES_MAX, Frames, PeerConnectionLost, receive_message
from kraft.handshake import ANSWER_BYTES_MAX, HELLO_BYTES_MAX, HELLO_TIMEOUT_S, Hello, decode_hello, refusal_of
from kraft.message_codec import (
    decode_request,
    decode_response,
    encode,
    encode_request,
    encode_response,
)

# No request carries batches: the largest one lists all voters.
REQUEST_BYTES_MAX = 4_096
# A core has at most one request of each type in flight per node, so a node with more requests is faulty.
IN_FLIGHT_MAX = 32
# Voters, bootstrap servers, the leader, and former ones.
LINKS_MAX = 300
# The backoff before reconnecting: after the first failure, and at most. Half of it is random.
RECONNECT_BACKOFF_S = 0.02
RECONNECT_BACKOFF_MAX_S = 0.5

# Sends a replica's request to be added to the voters to the leader at an address, in a protocol that authorizes it.
# Returns None if there is no response.
SendJoinRequest: TypeAlias = Callable[[str, JoinRequest], Awaitable[VoterChangeResponse | None]]


class Caller(Protocol):
    """The sender of requests, which is notified of their results. The methods must not block."""

    def connected(self, destination: int, server: ReplicaKey) -> None: ...

    def responded(self, destination: int, request: Request, response: Response) -> None: ...

    def request_failed(self, destination: int, request: Request) -> None: ...

    def connection_reset(self, destination: int) -> None: ...


class Link:
    """The connection to one destination, which is re-established after failures.

    Every request ends in exactly one `responded` or `request_failed`, at the latest after the request timeout.
    """

    def __init__(
        self, env: Env, caller: Caller, destination: int, hello: Hello, request_timeout_s: float, connect: Connect
    ) -> None:
        self.address = ""
        self._env = env
        self._connect = connect
        self._caller = caller
        self._destination = destination
        self._hello = hello
        self._request_timeout_s = request_timeout_s
        self._unsent: list[Request] = []
        self._wanted = trio.Event()
        self._under_way: dict[int, tuple[Request, float]] = {}
        self._next_id = 0
        self._scope = trio.CancelScope()
        self._failures = 0
        self._refusal = ""
        self._life = trio.CancelScope()

    @property
    def is_idle(self) -> bool:
        return not self._under_way and not self._unsent

    def end(self) -> None:
        """Make `run` return. Called only while the link is idle."""
        self._life.cancel()

    def send(self, request: Request) -> None:
        self._unsent.append(request)
        self._wanted.set()

    async def run(self) -> None:
        """Connect when there is a request to send, and again after failures, with a growing, random backoff."""
        with self._life:
            await self._connect_again_and_again()

    async def _connect_again_and_again(self) -> None:
        while True:
            await self._wanted.wait()
            address = self.address
            was_reset = False
            try:
                await self._connected(address)
            except PeerConnectionLost as error:
                was_reset = error.was_reset
                self._env.trace(
                    "rpc_connection_lost", destination=self._destination, address=address, reason=str(error)
                )
            self._fail_all()
            if was_reset:
                self._caller.connection_reset(self._destination)
            self._failures += 1
            longest_s = min(RECONNECT_BACKOFF_MAX_S, RECONNECT_BACKOFF_S * 2 ** min(self._failures, 10))
            await trio.sleep(longest_s * (0.5 + self._env.rng.random() / 2))

    async def _connected(self, address: str) -> None:
        try:
            opened = await open_stream(self._connect, address)
        except PeerRefused as refused:
            self._report_refusal(str(refused), address)
            raise
        async with opened.stream:
            with trio.CancelScope(deadline=opened.ends_at):
                await self._exchange(Frames(opened.stream), address)
            raise PeerConnectionLost("the session of this connection ends")

    async def _exchange(self, frames: Frames, address: str) -> None:
        """Exchange messages until the connection breaks, or a request times out. Raises PeerConnectionLost."""

        async def send() -> None:
            await frames.send(encode(self._hello))
            while True:
                await self._wanted.wait()
                if self.address != address:
                    raise PeerConnectionLost("the destination moved")
                for body in self._take_unsent():
                    await frames.send(body)

        async def receive() -> None:
            self._check_server(await receive_message(frames, ANSWER_BYTES_MAX, decode_hello), address)
            while True:
                self._finish(*await receive_message(frames, FRAME_BYTES_MAX, decode_response))

        with trio.CancelScope() as self._scope:
            raise await _until_lost(send, receive)
        raise PeerConnectionLost("no answer in time")

    def _check_server(self, server: Hello, address: str) -> None:
        """Raises PeerConnectionLost if the peer refuses the connection, or is not the destination."""
        refusal = server.refusal or refusal_of(self._hello, server)
        if not refusal and self._destination >= 0 and self._destination != server.node_id:
            refusal = f"Node {server.node_id} answers in place of node {self._destination}"
        self._report_refusal(refusal, address)
        if refusal:
            raise PeerConnectionLost(refusal)
        self._caller.connected(self._destination, server.key)

    def _report_refusal(self, refusal: str, address: str) -> None:
        """Report why one side refuses the other, once until that changes; "" if neither does."""
        if refusal != self._refusal and refusal:
            self._env.trace("quorum_connection_refused", node=self._hello.node_id, address=address, reason=refusal)
        self._refusal = refusal

    def _take_unsent(self) -> list[bytes]:
        self._wanted = trio.Event()
        unsent, self._unsent = self._unsent, []
        bodies = []
        for request in unsent:
            self._next_id += 1
            self._under_way[self._next_id] = (request, trio.current_time() + self._request_timeout_s)
            bodies.append(encode_request(self._next_id, request))
        self._watch()
        return bodies

    def _finish(self, correlation_id: int, response: Response) -> None:
        if correlation_id not in self._under_way:
            raise PeerConnectionLost("a response without a request")
        request, _ = self._under_way[correlation_id]
        if not is_answer(request, response):
            raise PeerConnectionLost(f"{type(response).__name__} in answer to {type(request).__name__}")
        del self._under_way[correlation_id]
        self._failures = 0
        self._watch()
        self._caller.responded(self._destination, request, response)

    def _watch(self) -> None:
        """Let the connection end at the deadline of the oldest request in flight."""
        self._scope.deadline = min((deadline for _, deadline in self._under_way.values()), default=inf)

    def _fail_all(self) -> None:
        failed = [*(request for request, _ in self._under_way.values()), *self._unsent]
        self._under_way, self._unsent = {}, []
        self._wanted = trio.Event()
        for request in failed:
            self._caller.request_failed(self._destination, request)


class Links:
    """Sends requests to all destinations, while `run` runs.

    `send_join_request` is set before, if the replica adds itself to the voters.
    """

    send_join_request: SendJoinRequest | None = None

    def __init__(self, env: Env, caller: Caller, hello: Hello, request_timeout_s: float, connect: Connect) -> None:
        self._env = env
        self._connect = connect
        self._caller = caller
        self._hello = hello
        self._request_timeout_s = request_timeout_s
        self._links: dict[int, Link] = {}
        self._nursery: trio.Nursery | None = None
        self._has_ended = False

    def send(self, destination: int, address: str, request: Request) -> None:
        """Send a request. It is dropped after `run` has ended: a node that stops still performs queued effects."""
        assert self._nursery is not None, "requests are sent while the links run"
        if self._has_ended:
            return
        if isinstance(request, AddVoterRequest | RemoveVoterRequest):
            self._nursery.start_soon(self._request_to_join, destination, address, request)
            return
        link = self._links.get(destination)
        if link is None:
            self._end_idle()
            link = Link(self._env, self._caller, destination, self._hello, self._request_timeout_s, self._connect)
            self._links[destination] = link
            self._nursery.start_soon(link.run)
        link.address = address or link.address
        link.send(request)

    async def _request_to_join(self, destination: int, address: str, request: JoinRequest) -> None:
        assert self.send_join_request is not None, "a replica that adds itself can send the request"
        response = None
        with trio.move_on_after(self._request_timeout_s):
            response = await self.send_join_request(address, request)
        if response is None:
            self._caller.request_failed(destination, request)
        else:
            self._caller.responded(destination, request, response)

    def _end_idle(self) -> None:
        """End idle links if there are too many, which happens if faulty peers name many leaders."""
        if len(self._links) >= LINKS_MAX:
            for destination, link in list(self._links.items()):
                if link.is_idle:
                    link.end()
                    del self._links[destination]

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._has_ended = True


class ServedConnection:
    """A connection from another node. `received` is called with each request, and `respond` sends the response.

    `peer` is None before the Hello. A request names another replica as its sender than `peer` ends the connection.
    With a `refusal`, the other node is told this reason and nothing else, and the connection ends.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        hello: Hello,
        received: Callable[["ServedConnection", int, Request], None],
        refusal: str = "",
    ) -> None:
        self.peer: ReplicaKey | None = None
        self._frames = Frames(stream)
        self._hello = attrs.evolve(hello, cluster_id="", directory_id="", refusal=refusal) if refusal else hello
        self._received = received
        self._unsent: list[tuple[int, Response]] = []
        self._wanted = trio.Event()
        self._in_flight = 0

    def respond(self, correlation_id: int, response: Response) -> None:
        """Send a response. It is dropped if the connection has ended."""
        self._unsent.append((correlation_id, response))
        self._wanted.set()

    async def run(self) -> None:
        """Serve until the connection ends. Raises PeerConnectionLost."""
        await self._welcome()
        raise await _until_lost(self._receive, self._send)

    async def _welcome(self) -> None:
        """Exchange Hellos. Raises PeerConnectionLost if the peer's Hello is late, or is refused."""
        with trio.move_on_after(HELLO_TIMEOUT_S):
            theirs = await receive_message(self._frames, HELLO_BYTES_MAX, decode_hello)
            refusal = self._hello.refusal or refusal_of(self._hello, theirs)
            await self._frames.send(encode(attrs.evolve(self._hello, refusal=refusal)))
            if refusal:
                raise PeerConnectionLost(refusal)
            self.peer = theirs.key
            return
        raise PeerConnectionLost("no hello in time")

    async def _receive(self) -> None:
        assert self.peer is not None, "the first frame must be a hello"
        while True:
            correlation_id, request = await receive_message(self._frames, REQUEST_BYTES_MAX, decode_request)
            if not sender_is(request, self.peer):
                raise PeerConnectionLost(f"{type(request).__name__} names another replica as its sender")
            self._in_flight += 1
            if self._in_flight > IN_FLIGHT_MAX:
                raise PeerConnectionLost("too many requests at a time")
            self._received(self, correlation_id, request)

    async def _send(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            unsent, self._unsent = self._unsent, []
            for correlation_id, response in unsent:
                await self._frames.send(encode_response(correlation_id, response))
                self._in_flight -= 1


async def _until_lost(*works: Callable[[], Awaitable[None]]) -> PeerConnectionLost:
    """Run all of `works`, which do not return, until one raises PeerConnectionLost. Returns that exception."""
    lost: list[PeerConnectionLost] = []
    async with trio.open_nursery() as nursery:

        async def guarded(work: Callable[[], Awaitable[None]]) -> None:
            try:
                await work()
            except PeerConnectionLost as error:
                lost.append(error)
                nursery.cancel_scope.cancel()

        for work in works:
            nursery.start_soon(guarded, work)
    return lost[0]
