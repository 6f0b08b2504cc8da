"""Says in words why a listener could not make a TLS connection with a client."""

import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.net.tls_stream import HandshakeFailed

_UNTRUSTED: Final = "the client does not trust the certificate of this listener"
# By the names of OpenSSL: what this side finds, and the alerts that a client sends.
_REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has sent no certificate, and ssl.client.auth is required",
        "UNSUPPORTED_PROTOCOL": "the client has none of the TLS versions of ssl.enabled.protocols",
        "NO_SHARED_CIPHER": "the client has no cipher suite in common with ssl.cipher.suites and the certificate",
        "NO_SUITABLE_SIGNATURE_ALGORITHM": "the client does not support the certificate's kind of key",
        "TLSV1_ALERT_PROTOCOL_VERSION": "the client has none of the TLS versions of ssl.enabled.protocols",
        "TLSV1_ALERT_UNKNOWN_CA": f"{_UNTRUSTED}: it does not know its authority",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _UNTRUSTED,
        "SSLV3_ALERT_BAD_CERTIFICATE": f"{_UNTRUSTED}: the host name may be another one",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"{_UNTRUSTED}: it has expired",
        "SSLV3_ALERT_HANDSHAKE_FAILURE": "the client refuses the handshake",
    }
)


def explain(failure: HandshakeFailed) -> str:
    """Why the handshake of a client has failed; empty for one that has sent nothing, as a probe of the port does."""
    if not failure.first_bytes:
        return ""
    if failure.is_foreign:
        return "the client does not speak TLS, and this listener does: it needs security.protocol=SSL or SASL_SSL"
    error = failure.tls_error
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if error is not None:
        reason = error.reason or str(error)
        return _REASONS.get(reason) or f"TLS failed: {reason.lower().replace('_', ' ')}"
    return "the client has closed the connection during the TLS handshake"
