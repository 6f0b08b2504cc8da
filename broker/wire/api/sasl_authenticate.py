"""SaslAuthenticate (key 36): a message of a SASL mechanism, and the answer to it (KIP-152).

Flexible from 2. From version 1 on, the client gets to know how long its authentication lasts (KIP-368).
"""

from broker.wire.schema import field, request, response


@request(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    auth_bytes: bytes = field("bytes", "0+", default=b"", is_secret=True)


@response(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """The client has to authenticate again within `session_lifetime_ms`; 0 is never."""

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    auth_bytes: bytes = field("bytes", "0+", default=b"", is_secret=True)
    session_lifetime_ms: int = field("int64", "1+", default=0)
