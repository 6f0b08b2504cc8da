"""Requests and responses as the payloads of frames: header and body, without the length before them."""

from typing import Any

from broker.wire.api import APIS
from broker.wire.codec import decode, encode
from broker.wire.errors import WireError
from broker.wire.header import encode_request_header, parse_response_header, response_header_version
from broker.wire.schema import Buffer


def encode_request(request: Any, version: int, client_id: str) -> bytes:
    """The payload of a request, with correlation id 0. Raises WireError if the version cannot express it."""
    header = encode_request_header(request.__message__.key, version, 0, client_id)
    return b"".join([header, *encode(request, version)])


def decode_response(request: Any, version: int, payload: Buffer) -> Any:
    """The response to `request`. Raises WireError, also where bytes are left over."""
    key = request.__message__.key
    _, start = parse_response_header(payload, response_header_version(key, version) == 1)
    response, end = decode(APIS[key].response, version, payload, start)
    if end != len(payload):
        raise WireError(f"{len(payload) - end} bytes after the response")
    return response
