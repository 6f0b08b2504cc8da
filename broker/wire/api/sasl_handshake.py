"""SaslHandshake (key 17): the client names the SASL mechanism by which it authenticates (KIP-43). Never flexible.

After version 0, the messages of the mechanism follow as frames without headers; after version 1, in SaslAuthenticate
(KIP-152).
"""

from broker.wire.schema import field, request, response


@request(key=17, versions="0-1", flexible="2+")
class SaslHandshakeRequest:
    mechanism: str = field("string", "0+", default="")


@response(key=17, versions="0-1", flexible="2+")
class SaslHandshakeResponse:
    """`mechanisms` are those that the listener offers."""

    error_code: int = field("int16", "0+", default=0)
    mechanisms: list[str] = field(["string"], "0+", factory=list)
