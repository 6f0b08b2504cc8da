"""Frames of Kafka's protocol, with the expected reaction of the node."""

from typing import Any, Final, NamedTuple

from broker.wire.api import APIS
from broker.wire.codec import decode, encode
from broker.wire.errors import WireError
from broker.wire.header import (
    encode_request_header,
    parse_request_header,
    parse_response_header,
    response_header_version,
)
from jepsen.hostile.harm import is_harmful

CLIENT_ID: Final = "hostile"
# Instead of an API's key: a message of a SASL mechanism without a header, as after version 0 of SaslHandshake.
RAW_SASL: Final = -2
_PRODUCE: Final = 0
_API_VERSIONS: Final = 18
_LENGTH_BYTES: Final = 4


class BadResponse(Exception):
    """The node sent bytes that are not a response to the request."""


class Frame(NamedTuple):
    """A frame to send. With `is_decodable`, the node has no reason to close the connection.

    `is_answered` is False if the node sends no response. A frame with `is_harmful` must not be sent. The client may be
    authenticated after the response only if `may_authenticate`.
    """

    data: bytes
    key: int
    version: int
    correlation_id: int
    is_decodable: bool = True
    is_answered: bool = True
    is_harmful: bool = False
    may_authenticate: bool = False

    @property
    def api(self) -> str:
        if self.key == RAW_SASL:
            return "raw SASL"
        api = APIS.get(self.key)
        return f"{self.key}" if api is None else f"{api.name} v{self.version}"

    def read_response(self, payload: bytes) -> Any:
        """Decode a response from a frame without its length: bytes of a mechanism, or a message. Raises BadResponse."""
        if self.key == RAW_SASL:
            return payload
        api = APIS.get(self.key)
        if api is None:
            raise BadResponse(f"an answer to API {self.key}, which does not exist")
        version = 0 if _is_unknown_api_versions(self) else self.version
        try:
            is_flexible = response_header_version(self.key, version) == 1
            correlation_id, start = parse_response_header(payload, is_flexible)
            if correlation_id != self.correlation_id:
                raise BadResponse(f"an answer to request {correlation_id} instead of {self.correlation_id}")
            response, end = decode(api.response, version, payload, start)
        except WireError as error:
            raise BadResponse(f"{self.api}: {error}") from error
        if end != len(payload):
            raise BadResponse(f"{self.api}: {len(payload) - end} bytes after the response")
        return response


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(_LENGTH_BYTES, "big") + payload


def request_payload(message: Any, version: int, correlation_id: int) -> bytes:
    """Encode header and body of a request. Raises WireError for values that the version cannot carry."""
    header = encode_request_header(type(message).__message__.key, version, correlation_id, CLIENT_ID)
    return header + b"".join(map(bytes, encode(message, version)))


def frame(message: Any, version: int, correlation_id: int) -> Frame:
    """Encode a request as a frame. Raises WireError for values that the version cannot carry."""
    key = type(message).__message__.key
    data = framed(request_payload(message, version, correlation_id))
    is_answered = key != _PRODUCE or message.acks != 0
    return Frame(data, key, version, correlation_id, is_answered=is_answered, is_harmful=is_harmful(message))


def spoiled_frame(payload: bytes) -> Frame:
    """The frame of a malformed request. The expected reaction is found by decoding it here."""
    data = framed(payload)
    try:
        key, version, correlation_id, _, start = parse_request_header(payload)
    except WireError:
        return Frame(data, -1, -1, -1, is_decodable=False)
    api = APIS.get(key)
    if api is None or not api.min_version <= version <= api.max_version:
        return Frame(data, key, version, correlation_id, is_decodable=key == _API_VERSIONS)
    try:
        message, _ = decode(api.request, version, payload, start)
    except WireError:
        return Frame(data, key, version, correlation_id, is_decodable=False)
    is_answered = key != _PRODUCE or getattr(message, "acks", -1) != 0
    return Frame(data, key, version, correlation_id, is_answered=is_answered, is_harmful=is_harmful(message))


def _is_unknown_api_versions(sent: Frame) -> bool:
    """True for an unknown version of ApiVersions, which is answered in version 0 (KIP-511)."""
    api = APIS[_API_VERSIONS]
    return sent.key == _API_VERSIONS and not api.min_version <= sent.version <= api.max_version
