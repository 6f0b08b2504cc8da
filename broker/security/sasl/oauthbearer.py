"""The mechanism OAUTHBEARER (RFC 7628, KIP-255): the client sends a token, and the server validates it.

The only message of the client is `n,,\\x01auth=Bearer <token>\\x01\\x01`, with extensions between the last two
separators. A server that refuses the token answers with a JSON object, which the client acknowledges with \\x01.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from broker.security.sasl.exchange import Authenticated, InvalidToken, SaslFailure
from kraft import lazy_attrs

MECHANISM: Final = "OAUTHBEARER"

_SEPARATOR: Final = "\x01"
# How a client acknowledges the error of a server.
_ACKNOWLEDGEMENT: Final = b"\x01"
_MALFORMED: Final = "Invalid OAUTHBEARER client first message"
# The patterns of Kafka (OAuthBearerClientInitialResponse). None of them can match the same text in two ways.
_HEADER: Final = re.compile(r"n,(?:a=((?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,")
_NAME: Final = re.compile("[A-Za-z]+")
_VALUE: Final = re.compile("[\\x21-\\x7e \t\r\n]+")
_AUTHORIZATION: Final = re.compile(r"(\w+) +([-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_AUTH: Final = "auth"


@lazy_attrs.frozen
class BearerMessage:
    """The message of a client. `authorization_id` is empty if the client does not ask for a certain user."""

    token: str = attrs.field(repr=False)
    authorization_id: str = ""
    extensions: Mapping[str, str] = attrs.field(factory=dict, repr=False)

    def encode(self) -> bytes:
        """The message as bytes. Raises ValueError for extensions that the message cannot carry."""
        check_extensions(self.extensions)
        name = self.authorization_id.replace("=", "=3D").replace(",", "=2C")
        pairs = {_AUTH: f"Bearer {self.token}", **self.extensions}
        shown = "".join(f"{key}={value}{_SEPARATOR}" for key, value in pairs.items())
        return f"n,{name and f'a={name}'},{_SEPARATOR}{shown}{_SEPARATOR}".encode()


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Raises ValueError if a name or a value of an extension is not one that Kafka accepts."""
    for name, value in extensions.items():
        if name == _AUTH or not _NAME.fullmatch(name):
            raise ValueError(f"Extension name {name} is invalid")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"The value of the extension {name} is invalid")


def parse_message(message: bytes) -> BearerMessage:
    """Reads the message of a client. Raises SaslFailure."""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise SaslFailure(_MALFORMED) from None
    header, *parts = text.split(_SEPARATOR)
    matched = _HEADER.fullmatch(header)
    if matched is None or parts[-2:] != ["", ""]:
        raise SaslFailure(_MALFORMED)
    pairs = _read_pairs(parts[:-2])
    authorization = pairs.pop(_AUTH, None)
    if authorization is None:
        raise SaslFailure(f"{_MALFORMED}: 'auth' not specified")
    found = _AUTHORIZATION.fullmatch(authorization)
    if found is None:
        raise SaslFailure(f"{_MALFORMED}: invalid 'auth' format")
    scheme, token = found.groups()
    if scheme.lower() != "bearer":
        raise SaslFailure("Invalid scheme in OAUTHBEARER client first message")
    name = (matched[1] or "").replace("=2C", ",").replace("=3D", "=")
    return BearerMessage(token, name, pairs)


def _read_pairs(parts: list[str]) -> dict[str, str]:
    pairs = {}
    for part in parts:
        key, is_pair, value = part.partition("=")
        if not is_pair or not _NAME.fullmatch(key) or not _VALUE.fullmatch(value):
            raise SaslFailure(_MALFORMED)
        pairs[key] = value
    return pairs


class OAuthBearerServer:
    """The server's side. `validate` returns whose token it is, and raises InvalidToken. Extensions are not used."""

    def __init__(self, validate: Callable[[str], Authenticated]) -> None:
        self._validate = validate
        self._refusal: InvalidToken | None = None

    def evaluate(self, message: bytes) -> tuple[bytes, Authenticated | None]:
        """As `broker.security.sasl.exchange.ServerExchange.evaluate`.

        The reason of a refusal is the cause of the error. After a refusal only the acknowledgement of the client is
        accepted, which ends the exchange.
        """
        if self._refusal is not None:
            raise SaslFailure(_error_json(self._refusal)) from self._refusal
        received = parse_message(message)
        try:
            authenticated = self._validate(received.token)
        except InvalidToken as error:
            self._refusal = error
            return _error_json(error).encode(), None
        if received.authorization_id not in ("", authenticated.user):
            raise SaslFailure(
                f"Authentication failed: Client requested an authorization id ({received.authorization_id}) that is "
                f"different from the token's principal name ({authenticated.user})"
            )
        return b"", authenticated


def _error_json(refusal: InvalidToken) -> str:
    values = {"status": refusal.status, "scope": refusal.scope}
    return json.dumps({key: value for key, value in values.items() if value is not None})


class OAuthBearerClient:
    """The client's side, for one token."""

    mechanism = MECHANISM

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        self._message = BearerMessage(token, extensions=extensions or {})
        self._is_refused = False

    def first(self) -> bytes:
        """As `broker.security.sasl.exchange.ClientExchange.first`."""
        return self._message.encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """As `broker.security.sasl.exchange.ClientExchange.answer`."""
        if not challenge and not self._is_refused:
            return None
        if self._is_refused:
            raise SaslFailure("the server goes on after it has refused the token")
        self._is_refused = True
        return _ACKNOWLEDGEMENT
