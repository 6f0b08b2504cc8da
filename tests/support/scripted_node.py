"""A node that accepts connections and answers requests according to a script."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import trio

from broker.net.tls_stream import HandshakeFailed, start_tls
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from broker.wire.codec import decode, encode
from broker.wire.header import encode_response_header, parse_request_header

# A response message, bytes to be sent unchanged, or None for no response.
Answer: TypeAlias = Any
Script: TypeAlias = Callable[[Any], Answer | Awaitable[Answer]]
# A function from the request and its version to the response and the version in which it is encoded.
ApiVersionsScript: TypeAlias = Callable[[ApiVersionsRequest, int], tuple[ApiVersionsResponse, int]]


class ScriptedNode:
    """Answers requests one after the other. `requests` has the requests of all connections.

    ApiVersions, with which connections to controllers begin, is an exception: the node answers it itself unless
    `is_heard`.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Any] = []
        self.ends: list[str] = []
        self.connections = 0
        self.is_heard = True
        self.api_versions: list[ApiVersion] = []
        self.answer_api_versions: ApiVersionsScript = self._api_versions
        self.port = 0
        self._arrived = trio.Event()
        self._ended = trio.Event()
        self._scopes: list[trio.CancelScope] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def wait_for(self, requests: int) -> None:
        """Wait until `requests` requests have arrived."""
        with trio.fail_after(5):
            while len(self.requests) < requests:
                await self._arrived.wait()

    async def wait_for_end(self) -> None:
        """Wait until a connection has ended. `ends` records how it ended."""
        with trio.fail_after(5):
            await self._ended.wait()

    def drop_connections(self) -> None:
        for scope in self._scopes:
            scope.cancel()

    async def serve(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        with trio.CancelScope() as scope:
            self._scopes.append(scope)
            try:
                await self._serve(stream)
            except trio.BrokenResourceError:
                self.ends.append("reset")
            else:
                self.ends.append("closed")
            self._ended.set()

    async def _serve(self, stream: trio.abc.Stream) -> None:
        received = bytearray()
        while data := await stream.receive_some():
            received += data
            while len(received) >= 4 and len(received) >= 4 + (size := int.from_bytes(received[:4])):
                payload = bytes(received[4 : 4 + size])
                del received[: 4 + size]
                await self._answer(stream, payload)

    async def _answer(self, stream: trio.abc.Stream, payload: bytes) -> None:
        key, version, correlation_id, _, start = parse_request_header(payload)
        request, _ = decode(APIS[key].request, version, payload, start)
        if isinstance(request, ApiVersionsRequest):
            answer, version = self.answer_api_versions(request, version)
        else:
            answer = await self._play(request)
        if answer is None or not self.is_heard:
            return
        if not isinstance(answer, bytes):
            body = b"".join(map(bytes, encode(answer, version)))
            answer = encode_response_header(key, version, correlation_id) + body
            answer = len(answer).to_bytes(4) + answer
        await stream.send_all(answer)

    def _api_versions(self, request: ApiVersionsRequest, version: int) -> tuple[ApiVersionsResponse, int]:
        return ApiVersionsResponse(api_keys=self.api_versions), version

    async def _play(self, request: Any) -> Answer:
        self.requests.append(request)
        arrived, self._arrived = self._arrived, trio.Event()
        arrived.set()
        answer = self.script(request)
        return await answer if isinstance(answer, Awaitable) else answer


@asynccontextmanager
async def scripted_node(script: Script, context: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedNode]:
    """A node that listens on a free port within the block; with a `context`, it speaks TLS."""
    node = ScriptedNode(script)

    async def serve(stream: trio.SocketStream) -> None:
        if context is None:
            await node.serve(stream)
            return
        try:
            await node.serve(await start_tls(stream, context))
        except HandshakeFailed:
            node.ends.append("refused")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        node.port = listeners[0].socket.getsockname()[1]
        yield node
        nursery.cancel_scope.cancel()
