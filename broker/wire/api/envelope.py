"""Envelope (key 58): a broker forwards a client's request to the active controller (KIP-590). Always flexible."""

from broker.wire.schema import field, request, response


@request(key=58, versions="0", flexible="0+")
class EnvelopeRequest:
    """`request_data` is the client's request with its header; `client_host_address` has 4 bytes, or 16 for IPv6."""

    request_data: bytes = field("bytes", "0+", default=b"")
    request_principal: bytes | None = field("bytes", "0+", default=b"", nullable="0+")
    client_host_address: bytes = field("bytes", "0+", default=b"")


@response(key=58, versions="0", flexible="0+")
class EnvelopeResponse:
    """`error_code` is about the envelope; `response_data` has the response to the forwarded request, with its own
    header.
    """

    response_data: bytes | None = field("bytes", "0+", default=None, nullable="0+")
    error_code: int = field("int16", "0+", default=0)
