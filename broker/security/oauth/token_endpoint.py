"""Tokens by client credentials (RFC 6749 section 4.4, KIP-768): a client's id and secret for a token."""

from base64 import b64encode
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import attrs

from broker.printable import printable
from broker.security.oauth.http_exchange import Endpoint, EndpointFailed, HttpClient
from broker.security.oauth.json_parts import MalformedJson, read_object
from kraft import lazy_attrs

_SUCCESS: Final = (200, 201)
# The same request cannot succeed later after these (UNRETRYABLE_HTTP_CODES in Kafka).
_PERMANENT: Final = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})
_SHOWN_CHARACTERS: Final = 200


@lazy_attrs.frozen(kw_only=True)
class ClientCredentials:
    """`is_url_encoded` encodes id and secret in the header as RFC 6749 asks for; many identity providers do not."""

    client_id: str
    client_secret: str = attrs.field(repr=False)
    scope: str = ""
    is_url_encoded: bool = False

    def authorization(self) -> str:
        """The value of the header `Authorization`."""
        pair = (self.client_id, self.client_secret)
        joined = ":".join(map(quote_plus, pair) if self.is_url_encoded else pair)
        return f"Basic {b64encode(joined.encode()).decode()}"


async def request_token(endpoint: Endpoint, credentials: ClientCredentials, client: HttpClient) -> str:
    """The access token that the identity provider gives. Raises EndpointFailed."""
    form = {"grant_type": "client_credentials", **({"scope": credentials.scope} if credentials.scope else {})}
    headers = {
        "Authorization": credentials.authorization(),
        "Content-Type": "application/x-www-form-urlencoded",
        "Cache-Control": "no-cache",
    }
    status, body = await client.request(endpoint, headers, urlencode(form).encode())
    if status not in _SUCCESS:
        raise EndpointFailed(
            f"{endpoint} answers with the status {status}{_error_in(body)}", is_permanent=status in _PERMANENT
        )
    token = _object(body).get("access_token")
    if not isinstance(token, str) or not token.strip():
        raise EndpointFailed(f"the answer of {endpoint} has no access_token")
    return token


def _error_in(body: bytes) -> str:
    """The error that a response names (RFC 6749 section 5.2). Such a response holds no secrets."""
    found = _object(body)
    texts = [found.get("error", found.get("errorCode")), found.get("error_description", found.get("errorSummary"))]
    shown = " - ".join(text for text in texts if isinstance(text, str))
    return f": {printable(shown[:_SHOWN_CHARACTERS])}" if shown else ""


def _object(body: bytes) -> dict[str, Any]:
    try:
        return read_object(body)
    except MalformedJson:
        return {}
