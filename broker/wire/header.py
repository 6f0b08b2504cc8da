"""The headers before every request and response body.

`client.id` is never compact, not even in the flexible request header, so that every broker can read the header of a
version it does not know (KIP-482); ApiVersions' response header is never flexible, for the same reason (KIP-511).
"""

from struct import Struct
from struct import error as struct_error
from typing import Final

from broker.wire.api.registry import APIS
from broker.wire.errors import WireError
from broker.wire.schema import Buffer
from broker.wire.varint import read_varint

API_VERSIONS_KEY: Final = 18

_REQUEST: Final = Struct(">hhih")
_NEVER_FLEXIBLE: Final = 1 << 15
_FLEXIBLE_FROM: Final = {api.key: api.flexible_from for api in APIS.values()}
# More than any client sends; each takes at least two bytes, and a frame could hold millions.
_TAGGED_FIELDS_MAX: Final = 1000


def parse_request_header(
    buffer: Buffer, start: int = 0, end: int | None = None
) -> tuple[int, int, int, str | None, int]:
    """Returns API key, API version, correlation id, client id, and the position of the body.

    The key and the version may be unknown. A header with an unknown key is read without tagged fields. Raises
    WireError.
    """
    if end is None:
        end = len(buffer)
    try:
        key, version, correlation_id, size = _REQUEST.unpack_from(buffer, start)
        position = start + _REQUEST.size
        client_id = None
        if size >= 0:
            stop = position + size
            client_id = str(buffer[position:stop], "utf-8")
            position = stop
        if version >= _FLEXIBLE_FROM.get(key, _NEVER_FLEXIBLE):
            if buffer[position] == 0:
                position += 1
            else:
                position = _skip_tagged_fields(buffer, position)
    except (struct_error, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"request header: {error}") from None
    if position > end or size < -1:
        raise WireError("the request header runs past the end of the request")
    return key, version, correlation_id, client_id, position


def request_header_version(api_key: int, api_version: int) -> int:
    """2, with tagged fields, for flexible requests; 1 for the others."""
    return 2 if api_version >= _FLEXIBLE_FROM.get(api_key, _NEVER_FLEXIBLE) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """1, with tagged fields, for flexible responses other than ApiVersions; 0 for the others."""
    return 0 if api_key == API_VERSIONS_KEY else request_header_version(api_key, api_version) - 1


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The header of a request, without its length prefix."""
    name = b"" if client_id is None else client_id.encode()
    fixed = _REQUEST.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(name))
    return fixed + name + (b"\0" if request_header_version(api_key, api_version) == 2 else b"")


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The header of a response, without its length prefix."""
    tagged_fields = b"\0" if response_header_version(api_key, api_version) == 1 else b""
    return correlation_id.to_bytes(4, "big", signed=True) + tagged_fields


def parse_response_header(buffer: Buffer, flexible: bool, start: int = 0) -> tuple[int, int]:
    """Correlation id, and where the body begins. Raises WireError."""
    position = start + 4
    if position > len(buffer):
        raise WireError("a response without a whole header")
    correlation_id = int.from_bytes(buffer[start:position], "big", signed=True)
    if flexible:
        try:
            position = _skip_tagged_fields(buffer, position)
        except IndexError as error:
            raise WireError(f"response header: {error}") from None
    return correlation_id, position


def _skip_tagged_fields(buffer: Buffer, position: int) -> int:
    count, position = read_varint(buffer, position)
    if count > _TAGGED_FIELDS_MAX:
        raise WireError(f"{count} tagged fields in a header")
    for _ in range(count):
        _, position = read_varint(buffer, position)
        size, position = read_varint(buffer, position)
        position += size
    return position
