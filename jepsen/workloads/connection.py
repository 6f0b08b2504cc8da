"""A connection that speaks Kafka's protocol. It shares only `ConnectionLost` with the client library, and TLS and SASL.

The caller knows which server sent each response over which connection, and decides about each retry. The checkers need
that information, and the client library hides it.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import trio

from broker.client import ConnectionLost
from broker.client.brokers import security_of
from broker.client.config import ClientConfig, read_config
from broker.client.connection_security import PLAINTEXT, ConnectionSecurity
from broker.client.environment import Environment
from broker.wire.api import APIS
from broker.wire.codec import decode, encode
from broker.wire.header import encode_request_header, parse_response_header, response_header_version

Address: TypeAlias = tuple[str, int]

CLIENT_ID = "jepsen"
# The timeout of one request, and of one attempt to connect.
TIMEOUT_SECONDS = 3.0


def read_security(configs: Mapping[str, str]) -> ConnectionSecurity:
    """How connections are secured by these configs of a client. Raises ConfigError."""
    return security_of(read_config(ClientConfig, None, configs), Environment())


class Connection:
    """Requests may be pipelined; responses arrive in the order of the requests.

    `incarnation` belongs to the caller, see `jepsen.history.Operation`.
    """

    def __init__(self, stream: trio.abc.Stream, address: Address, incarnation: int, client_id: str = CLIENT_ID) -> None:
        self.address = address
        self.incarnation = incarnation
        self._stream = stream
        self._client_id = client_id
        self._received = bytearray()
        self._awaited: deque[tuple[int, type[Any], int]] = deque()
        self._correlation_id = 0

    @classmethod
    async def open(
        cls,
        address: Address,
        incarnation: int,
        client_id: str = CLIENT_ID,
        security: ConnectionSecurity = PLAINTEXT,
    ) -> "Connection":
        """Raises ConnectionLost if the server does not answer, or if one side refuses the other."""
        with trio.move_on_after(TIMEOUT_SECONDS):
            try:
                transport = await trio.open_tcp_stream(*address)
                try:
                    stream = await security.secure(transport, address[0])
                    if security.login is not None:
                        await security.login.authenticate(stream, client_id)
                except BaseException:
                    transport.socket.close()
                    raise
                return cls(stream, address, incarnation, client_id)
            except OSError as error:
                raise ConnectionLost(str(error)) from error
        raise ConnectionLost("no answer to the attempt to connect")

    async def call(self, request: Any, version: int, timeout_seconds: float = TIMEOUT_SECONDS) -> Any:
        """Send one request and return its response. Raises ConnectionLost."""
        await self.send([request], version)
        return await self.receive(timeout_seconds)

    async def send(self, requests: Sequence[Any], version: int) -> None:
        """Send requests of one version in one write. Raises ConnectionLost."""
        frames = b"".join(self._frame(request, version) for request in requests)
        with trio.move_on_after(TIMEOUT_SECONDS):
            try:
                await self._stream.send_all(frames)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise ConnectionLost(str(error)) from error
            return
        raise ConnectionLost("the request does not get through")

    async def receive(self, timeout_seconds: float = TIMEOUT_SECONDS) -> Any:
        """Wait for the response to the oldest unanswered request. Raises ConnectionLost."""
        expected, response_class, version = self._awaited.popleft()
        with trio.move_on_after(timeout_seconds):
            payload = await self._take(int.from_bytes(await self._take(4), "big"))
            is_flexible = response_header_version(response_class.__message__.key, version) == 1
            correlation_id, start = parse_response_header(payload, is_flexible)
            assert correlation_id == expected, f"response {correlation_id} instead of {expected}"
            response, end = decode(response_class, version, payload, start)
            assert end == len(payload), f"{len(payload) - end} bytes after a response"
            return response
        raise ConnectionLost("no response in time")

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)

    def _frame(self, request: Any, version: int) -> bytes:
        key = type(request).__message__.key
        self._correlation_id += 1
        self._awaited.append((self._correlation_id, APIS[key].response, version))
        body = b"".join(map(bytes, encode(request, version)))
        payload = encode_request_header(key, version, self._correlation_id, self._client_id) + body
        return len(payload).to_bytes(4, "big") + payload

    async def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            try:
                data = await self._stream.receive_some()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise ConnectionLost(str(error)) from error
            if not data:
                raise ConnectionLost("the node closed the connection")
            self._received += data
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken
