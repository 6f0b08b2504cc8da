"""SCRAM (RFC 5802, RFC 7677): client and server prove to each other that they know a password, without sending it.

Channel binding is not supported, as in Kafka. The messages have at most a few hundred bytes; longer ones are refused.
"""

import binascii
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

from broker.security.sasl.exchange import Authenticated, InvalidCredentials, SaslFailure
from kraft import lazy_attrs
from metadata.protocol import ScramMechanism
from metadata.protocol.scram import (
    ITERATIONS_MIN,
    ScramCredential,
    client_key,
    exclusive_or,
    salted_password,
    server_key,
    signature,
    stored_key,
)

# A server's number of iterations is a client's time: a million take half a second. Kafka's servers ask for 16,384 at
# most.
CLIENT_ITERATIONS_MAX: Final = 1_000_000
# The extension by which a client says that its name is the id of a delegation token.
TOKEN_EXTENSION: Final = "tokenauth"
_MESSAGE_BYTES_MAX: Final = 8 * 1024
# Kafka's tools make salts of about this length.
_SALT_BYTES: Final = 26

_SASL_NAME: Final = r"(?:[^\0=,]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9/+]*={0,2}"
_EXTENSIONS: Final = r"(?P<extensions>(?:,[A-Za-z]+=[^\0,]+)*)"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization_id>{_SASL_NAME}))?,)n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>[^\0=,]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


@lazy_attrs.frozen
class TokenCredential:
    """The credential of a delegation token, its owner's name, and the wall-clock time at which it expires."""

    owner: str
    expires_at_ms: int
    credential: ScramCredential


class ScramClient:
    """The client's side. `nonce` is random, and used once. With `by_token`, the name is a delegation token's id."""

    def __init__(
        self, mechanism: ScramMechanism, username: str, password: str, nonce: str, *, by_token: bool = False
    ) -> None:
        self.mechanism = mechanism.sasl_name
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._first = f"n={_sasl_name(username)},r={nonce}" + (f",{TOKEN_EXTENSION}=true" if by_token else "")
        self._expected: bytes | None = None
        self._is_over = False

    def first(self) -> bytes:
        return f"n,,{self._first}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """See `ClientExchange`. The first answer proves the password; the second message proves the server."""
        if self._is_over:
            raise SaslFailure("The server went on after the end of the SCRAM exchange")
        if self._expected is None:
            return self._prove(challenge)
        self._verify(challenge, self._expected)
        self._is_over = True
        return None

    def _prove(self, challenge: bytes) -> bytes:
        match = _match(_SERVER_FIRST, challenge, "server first")
        nonce, iterations = match["nonce"], int(match["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslFailure("Invalid server nonce: it does not extend the client's nonce")
        if not ITERATIONS_MIN <= iterations <= CLIENT_ITERATIONS_MAX:
            raise SaslFailure(
                f"The server requests {iterations} iterations for {self.mechanism}, which is not between "
                f"{ITERATIONS_MIN} and {CLIENT_ITERATIONS_MAX}"
            )
        bare = f"c={b64encode(b'n,,').decode()},r={nonce}"
        auth_message = ",".join((self._first, match[0], bare)).encode()
        salted = salted_password(self._mechanism, self._password, _decode(match["salt"]), iterations)
        key = client_key(self._mechanism, salted)
        proof = exclusive_or(key, signature(self._mechanism, stored_key(self._mechanism, key), auth_message))
        self._expected = signature(self._mechanism, server_key(self._mechanism, salted), auth_message)
        return f"{bare},p={b64encode(proof).decode()}".encode()

    def _verify(self, challenge: bytes, expected: bytes) -> None:
        match = _match(_SERVER_FINAL, challenge, "server final")
        if match["error"] is not None:
            raise SaslFailure(f"Sasl authentication using {self.mechanism} failed with error: {match['error']:.100}")
        if not hmac.compare_digest(_decode(match["signature"]), expected):
            raise SaslFailure("Invalid server signature in server final message: the server does not know the password")


class ScramServer:
    """The server's side.

    `find_user` and `find_token` return the credential of a name and of a delegation token's id, or None. `nonce` is
    random, and used once. An exchange with an unknown name goes on with `unknown`, a credential that no password fits,
    so that the answers do not tell which names exist.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        nonce: str,
        find_user: Callable[[str], ScramCredential | None],
        find_token: Callable[[str], TokenCredential | None] | None = None,
        *,
        unknown: Callable[[str], ScramCredential],
    ) -> None:
        self._mechanism = mechanism
        self._nonce = nonce
        self._find_user, self._find_token, self._unknown = find_user, find_token, unknown
        self._started: _Started | None = None

    def evaluate(self, message: bytes) -> tuple[bytes, Authenticated | None]:
        """See `ServerExchange`. The client does not get to know why it fails."""
        if self._started is None:
            self._started = self._start(message)
            return self._started.server_first.encode(), None
        started, self._started = self._started, None
        return self._finish(started, message)

    def _start(self, message: bytes) -> "_Started":
        match = _match(_CLIENT_FIRST, message, "client first")
        name = _username(match["name"])
        authorization_id = match["authorization_id"]
        if authorization_id is not None and _username(authorization_id) != name:
            raise SaslFailure(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        client, credential = self._find(name, is_token=_has_token_extension(match["extensions"]))
        if credential is None or credential.iterations < ITERATIONS_MIN:
            client, credential = None, self._unknown(name)
        nonce = match["nonce"] + self._nonce
        first = f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        header = match["header"]
        return _Started(client, credential, header, nonce, match[0][len(header) :], first)

    def _find(self, name: str, *, is_token: bool) -> tuple[Authenticated | None, ScramCredential | None]:
        if not is_token:
            return Authenticated(name), self._find_user(name)
        token = None if self._find_token is None else self._find_token(name)
        if token is None:
            return None, None
        return Authenticated(token.owner, token.expires_at_ms, by_token=True), token.credential

    def _finish(self, started: "_Started", message: bytes) -> tuple[bytes, Authenticated]:
        match = _match(_CLIENT_FINAL, message, "client final")
        if match["nonce"] != started.nonce or _decode(match["binding"]) != started.header.encode():
            raise InvalidCredentials("the nonce or the channel binding has changed")
        auth_message = ",".join((started.client_first, started.server_first, match["bare"])).encode()
        stored, proof = started.credential.stored_key, _decode(match["proof"])
        expected = signature(self._mechanism, stored, auth_message)
        if len(proof) != len(expected):
            raise InvalidCredentials("the proof has another length than the hash")
        key = exclusive_or(proof, expected)
        if not hmac.compare_digest(stored_key(self._mechanism, key), stored) or started.client is None:
            raise InvalidCredentials("the name is unknown, or the password is wrong")
        proved = signature(self._mechanism, started.credential.server_key, auth_message)
        return f"v={b64encode(proved).decode()}".encode(), started.client


def unknown_credential(mechanism: ScramMechanism, secret: bytes, name: str) -> ScramCredential:
    """A credential for a name without one, which no password fits. It is the same each time the name is asked for.

    `secret` is the server's own: with it, salts could be told from those of credentials.
    """

    def part(purpose: bytes) -> bytes:
        return signature(mechanism, secret, purpose + name.encode())

    return ScramCredential(part(b"salt")[:_SALT_BYTES], part(b"stored key"), part(b"server key"), ITERATIONS_MIN)


@lazy_attrs.frozen
class _Started:
    """The state of a server after its first message; `client` is None if the name is unknown."""

    client: Authenticated | None
    credential: ScramCredential
    header: str
    nonce: str
    client_first: str
    server_first: str


def _match(pattern: re.Pattern[str], message: bytes, which: str) -> re.Match[str]:
    match = None
    if len(message) <= _MESSAGE_BYTES_MAX:
        try:
            match = pattern.fullmatch(message.decode())
        except UnicodeDecodeError:
            match = None
    if match is None:
        raise InvalidCredentials(f"Invalid SCRAM {which} message format")
    return match


def _decode(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise InvalidCredentials("Invalid base64 in a SCRAM message") from None


def _sasl_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _username(sasl_name: str) -> str:
    return sasl_name.replace("=2C", ",").replace("=3D", "=")


def _has_token_extension(extensions: str) -> bool:
    pairs = dict(part.split("=", 1) for part in extensions.split(",") if part)
    return pairs.get(TOKEN_EXTENSION, "").lower() == "true"
