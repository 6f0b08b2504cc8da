"""How connections to nodes are secured: by TLS or not, and by SASL or not."""

import ssl
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

import attrs
import trio

from broker.client.connection_failures import connect_failure, refusal
from broker.client.errors import AuthenticationFailed, ConnectionLost
from broker.net.tls_stream import HandshakeFailed, start_tls
from kraft import lazy_attrs

if TYPE_CHECKING:
    from broker.client.sasl_login import SaslLogin


@lazy_attrs.frozen
class ConnectionSecurity:
    """`tls` gives the context of a new connection, whose certificates may have been replaced; None is plain TCP.

    `login` authenticates this side once the connection is secured; None if the other side asks for no SASL.
    """

    tls: Callable[[], ssl.SSLContext] | None = attrs.field(default=None, repr=False)
    login: "SaslLogin | None" = None

    async def connect(
        self, host: str, port: int, client_id: str, connect_timeout_ms: float
    ) -> tuple[trio.abc.Stream, float]:
        """Connect to a node, secure the connection and authenticate.

        Returns the stream, and when to authenticate again as a time of Trio's clock; inf is never. Raises
        ConnectionLost if that takes longer than `connect_timeout_ms`, or fails; AuthenticationFailed if one side
        refuses the other.
        """
        try:
            with trio.fail_after(connect_timeout_ms / 1000):
                transport = await trio.open_tcp_stream(host, port)
                try:
                    stream = await self.secure(transport, host)
                    again_at = inf if self.login is None else await self.login.authenticate(stream, client_id)
                except BaseException:
                    transport.socket.close()
                    raise
        except (OSError, UnicodeError, trio.TooSlowError) as error:  # UnicodeError: the host name cannot be one
            raise ConnectionLost(connect_failure(error, connect_timeout_ms)) from error
        return stream, again_at

    async def secure(self, stream: trio.SocketStream, host: str) -> trio.abc.Stream:
        """The stream of a new connection to `host`, ready for requests or for the login.

        Raises ConnectionLost, and AuthenticationFailed if one side refuses the other.
        """
        if self.tls is None:
            return stream
        try:
            address = stream.socket.getpeername()
        except OSError as error:
            raise ConnectionLost(f"the connection broke: {error}") from error
        try:
            return await start_tls(stream, self.tls(), server_hostname=host)
        except HandshakeFailed as failure:
            lost = _handshake_error(failure)
            if lost.retriable and await _speaks_plaintext(address[0], address[1]):
                lost = AuthenticationFailed("a PLAINTEXT port answers; this client speaks TLS (security.protocol)")
            raise lost from failure


PLAINTEXT: Final = ConnectionSecurity()
# A request that brokers answer to every client: ApiVersions in version 0, without a client id.
_API_VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 6b726166 ffff")
_CORRELATION_ID: Final = slice(8, 12)
_ANSWER_BEGINS: Final = slice(4, 8)


def _handshake_error(failure: HandshakeFailed) -> ConnectionLost:
    if failure.is_foreign:
        return AuthenticationFailed("this port does not speak TLS, but security.protocol asks for it")
    reason = refusal(failure.tls_error)
    if reason is not None:
        return AuthenticationFailed(reason)
    return ConnectionLost("closed by the other side during the TLS handshake")


async def _speaks_plaintext(host: str, port: int) -> bool:
    """True if a broker answers there without TLS. It closes the connection of a client that begins with TLS.

    A node that stops closes connections likewise, and only its answer tells that retries are in vain.
    """
    with suppress(OSError, trio.BrokenResourceError):
        async with await trio.open_tcp_stream(host, port) as stream:
            await stream.send_all(_API_VERSIONS)
            received = b""
            while len(received) < _ANSWER_BEGINS.stop and (data := await stream.receive_some()):
                received += data
            return received[_ANSWER_BEGINS] == _API_VERSIONS[_CORRELATION_ID]
    return False
