"""Why a connection could not be made, or was lost, in words that a user can act on."""

import ssl
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import trio

from broker.client.errors import AuthenticationFailed, ConnectionLost

_IS_PLAINTEXT: Final = "this client speaks no TLS (security.protocol)"
_HAS_NO_LOGIN: Final = "this client does not authenticate (security.protocol)"

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


def connect_failure(error: Exception, timeout_ms: float) -> str:
    """Why no connection could be made, in words."""
    if isinstance(error, trio.TooSlowError):
        return f"timed out: no answer within {timeout_ms / 1000:.0f} s"
    if isinstance(error, UnicodeError):
        return "this cannot be a host name"
    if isinstance(error, trio.socket.gaierror):
        is_unknown = error.errno in (trio.socket.EAI_NONAME, trio.socket.EAI_NODATA)
        return "unknown host" if is_unknown else f"the host name cannot be resolved now: {error.strerror}"
    reasons = dict.fromkeys(_words(each) for each in _causes(error))
    return "; ".join(reasons)


def _causes(error: BaseException) -> Iterable[BaseException]:
    """The errors of the attempts at the addresses of a host name, of which Trio makes one."""
    cause = error.__cause__ or error
    return cause.exceptions if isinstance(cause, BaseExceptionGroup) else [cause]


def _words(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: no process listens there"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def lost_reason(error: Exception | None, *, may_be_tls_port: bool, may_be_sasl_port: bool) -> str:
    """Why a connection was lost: by an error, or without one because the other side has closed it.

    TLS servers often end a connection of a client that does not speak TLS without a word. Brokers answer ApiVersions to
    a client that has not authenticated, and close the connection at its next request.
    """
    reason = "closed by the other side" if error is None else f"the connection broke: {error.__cause__ or error}"
    if may_be_tls_port:
        return f"{reason}, without an answer, as TLS ports do; {_IS_PLAINTEXT}"
    if may_be_sasl_port and error is None:
        return f"{reason} at the second request, as SASL ports do; {_HAS_NO_LOGIN}"
    return reason


def foreign_answer(first_bytes: bytes) -> ConnectionLost:
    """Names the server that answers where no broker does, by the first bytes that it sends."""
    if first_bytes.startswith(b"HTTP"):
        return ConnectionLost("an HTTP server answers, not a Kafka broker")
    if first_bytes[:2] in (b"\x15\x03", b"\x16\x03"):
        return AuthenticationFailed(f"a TLS port answers; {_IS_PLAINTEXT}")
    size = int.from_bytes(first_bytes[:4])
    return ConnectionLost(f"a response of {size} bytes, as no broker sends it; it begins with {first_bytes!r}")


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
