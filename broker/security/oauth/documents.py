"""Reads small documents by URL: sets of keys and tokens, over HTTP or from files."""

from typing import Final

from broker.security.oauth.http_exchange import RESPONSE_BYTES_MAX, Endpoint, EndpointFailed, HttpClient
from broker.security.regular_files import read_regular_file

_OK: Final = 200


async def read_document(endpoint: Endpoint, client: HttpClient) -> bytes:
    """The content of a file, or the response to a GET. Raises EndpointFailed."""
    if endpoint.scheme == "file":
        return read_small_file(endpoint.target)
    status, body = await client.request(endpoint, {})
    if status != _OK:
        raise EndpointFailed(f"{endpoint} answers with the status {status}")
    return body


def read_small_file(path: str) -> bytes:
    """The content of a file, which is usually in the page cache. Raises EndpointFailed."""
    try:
        data = read_regular_file(path, RESPONSE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise EndpointFailed(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > RESPONSE_BYTES_MAX:
        raise EndpointFailed(f"{path} has more than {RESPONSE_BYTES_MAX} bytes")
    return data
