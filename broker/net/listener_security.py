"""How a listener secures its connections: TLS or plain TCP, and the principal that the transport proves."""

import ssl
from collections.abc import Callable
from typing import Final

import attrs
import trio

from broker.net.tls_stream import HandshakeFailed, start_tls
from kraft import lazy_attrs

# The principal of a client that has not authenticated, as Kafka names it.
ANONYMOUS: Final = "User:ANONYMOUS"
# How long a handshake may take. Clients give up after 10 s by default (socket.connection.setup.timeout.ms).
HANDSHAKE_TIMEOUT_S: Final = 10.0
# The handshakes of one address that are not finished. A client that opens connections and never finishes them takes
# the place of its own older ones, and not of other addresses'. Each takes a descriptor and some 50 KB.
UNFINISHED_PER_ADDRESS_MAX: Final = 256


class NotSecured(Exception):
    """A connection was not secured, and has to be closed; the message says why, or is empty for a mere probe."""


def anonymous(certificate: bytes | None) -> str:
    """The principal of every client of a listener without authentication."""
    return ANONYMOUS


def _ignore(is_secured: bool) -> None:
    pass


def _describe(failure: HandshakeFailed) -> str:
    return str(failure.tls_error or failure.__cause__ or failure)


@lazy_attrs.frozen
class ListenerSecurity:
    """How the connections of one listener are secured.

    `tls` gives the context of a new connection, whose certificates may have been replaced; None is plain TCP.
    `principal_of` gives the principal of a client from the certificate that it has shown, in DER, or from None. It is
    empty if the client has to authenticate by SASL. It raises NotSecured for a certificate without a principal.
    `explain` says in words why a handshake has failed. `on_outcome` is called after a handshake: with True if the
    client is secured, and with False if one side refuses the other.
    """

    tls: Callable[[], ssl.SSLContext] | None = attrs.field(default=None, repr=False)
    principal_of: Callable[[bytes | None], str] = anonymous
    explain: Callable[[HandshakeFailed], str] = _describe
    on_outcome: Callable[[bool], None] = _ignore

    async def secure(self, stream: trio.abc.Stream) -> tuple[trio.abc.Stream, str]:
        """The stream of a new connection, ready for requests, and the principal. Raises NotSecured."""
        if self.tls is None:
            return stream, self.principal_of(None)
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT_S):
                secured = await start_tls(stream, self.tls())
        except HandshakeFailed as failure:
            if failure.tls_error is not None:
                self.on_outcome(False)
            raise NotSecured(self.explain(failure)) from failure
        except trio.TooSlowError as error:
            raise NotSecured(f"the client has not finished the TLS handshake in {HANDSHAKE_TIMEOUT_S:.0f} s") from error
        try:
            principal = self.principal_of(secured.peer_certificate)
        except NotSecured:
            self.on_outcome(False)
            raise
        self.on_outcome(True)
        return secured, principal


PLAINTEXT: Final = ListenerSecurity()


class Handshakes:
    """The handshakes that are not finished, with a bound per address: the oldest one makes room for a new one."""

    def __init__(self) -> None:
        self._unfinished: dict[str, dict[trio.CancelScope, None]] = {}  # by address, the oldest first

    async def secure(
        self, security: ListenerSecurity, stream: trio.abc.Stream, address: str
    ) -> tuple[trio.abc.Stream, str]:
        """See `ListenerSecurity.secure`."""
        if security.tls is None:
            return await security.secure(stream)
        scopes = self._unfinished.setdefault(address, {})
        if len(scopes) >= UNFINISHED_PER_ADDRESS_MAX:
            oldest = next(iter(scopes))
            # Its task runs later. By then, it must not make room for a second connection.
            del scopes[oldest]
            oldest.cancel()
        with trio.CancelScope() as scope:
            scopes[scope] = None
            try:
                return await security.secure(stream)
            finally:
                scopes.pop(scope, None)
                if not scopes and self._unfinished.get(address) is scopes:
                    del self._unfinished[address]
        raise NotSecured(f"{UNFINISHED_PER_ADDRESS_MAX} newer connections from there have not finished the handshake")
