"""How connections to nodes are secured: by TLS or not, and by SASL or not."""

import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs
import trio

from broker.client.errors import AuthenticationFailed, ConnectionLost
from broker.net.tls_stream import HandshakeFailed, start_tls

if TYPE_CHECKING:
    from broker.client.sasl_login import SaslLogin

# Alerts by which a node refuses this side, in OpenSSL's names, and what they mean.
_ALERTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker asks for a client certificate (ssl.client.auth=required);"
        " give one with ssl.keystore.location, or ssl.certificate.location and ssl.key.location",
        "SSLV3_ALERT_HANDSHAKE_FAILURE": "the broker refuses the TLS handshake: it asks for a client certificate, or"
        " has no cipher suite in common",
        "TLSV1_ALERT_UNKNOWN_CA": "the broker does not trust this client's certificate: its authority is not in the"
        " broker's truststore",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the broker does not accept this client's certificate",
        "SSLV3_ALERT_BAD_CERTIFICATE": "the broker does not accept this client's certificate, or asks for one",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this client's certificate has expired",
        "SSLV3_ALERT_CERTIFICATE_REVOKED": "this client's certificate was revoked",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "the broker cannot use this client's certificate, for example because it"
        " is only for servers",
        "TLSV1_ALERT_PROTOCOL_VERSION": "the broker has none of the TLS versions of ssl.enabled.protocols",
        "UNSUPPORTED_PROTOCOL": "the broker has none of the TLS versions of ssl.enabled.protocols",
    }
)


@attrs.frozen
class ConnectionSecurity:
    """`tls` gives the context of a new connection, whose certificates may have been replaced; None is plain TCP.

    `login` authenticates this side once the connection is secured; None if the other side asks for no SASL.
    """

    tls: Callable[[], ssl.SSLContext] | None = attrs.field(default=None, repr=False)
    login: "SaslLogin | None" = None

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


def refusal(error: BaseException | None) -> str | None:
    """Why the peer or this side refuses a TLS connection; None if `error` is not about that."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}{_advice(error)}"
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return (
            _ALERTS.get(error.reason or "") or f"TLS failed: {(error.reason or str(error)).lower().replace('_', ' ')}"
        )
    return None


def _advice(error: ssl.SSLCertVerificationError) -> str:
    message = error.verify_message
    if "mismatch" in message:
        return "; connect by a name of the certificate, or set ssl.endpoint.identification.algorithm to none"
    if "issuer" in message or "self-signed" in message or "self signed" in message:
        return "; name the authority's certificate with ssl.ca.location or ssl.truststore.location"
    return ""


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
