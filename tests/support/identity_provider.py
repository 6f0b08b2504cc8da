"""An identity provider on the loopback interface: it publishes its keys, and gives tokens to clients that it knows."""

import json
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus

import attrs
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER = "https://identity.example"
AUDIENCE = "kafka"


@attrs.frozen(eq=False)
class SigningKey:
    """A key of the identity provider. `algorithm` is the one that it signs with."""

    private: Any
    algorithm: str
    key_id: str = "first"

    def jwk(self, **members: object) -> dict[str, Any]:
        """The public key as an entry of a JWKS document."""
        algorithm = jwt.algorithms.get_default_algorithms()[self.algorithm]
        return {**algorithm.to_jwk(self.private.public_key(), as_dict=True), "kid": self.key_id, **members}

    def sign(self, claims: Mapping[str, object], **headers: object) -> str:
        """A token with these claims."""
        return jwt.encode(dict(claims), self.private, self.algorithm, {"kid": self.key_id, **headers})


@cache
def rsa_key(name: str = "first", bits: int = 2048) -> SigningKey:
    return SigningKey(rsa.generate_private_key(65537, bits), "RS256", name)


@cache
def ec_key(name: str = "curve") -> SigningKey:
    return SigningKey(ec.generate_private_key(ec.SECP256R1()), "ES256", name)


@cache
def ed_key(name: str = "edwards") -> SigningKey:
    return SigningKey(ed25519.Ed25519PrivateKey.generate(), "EdDSA", name)


def jwks(*keys: SigningKey) -> bytes:
    return json.dumps({"keys": [key.jwk() for key in keys]}).encode()


def claims_of(subject: str = "alice", lifetime_s: float = 3600, **others: object) -> dict[str, object]:
    """The claims of a token that is issued now. A claim that is given as None is left out."""
    now = time.time()
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": int(now), "exp": now + lifetime_s, **others}
    return {name: value for name, value in claims.items() if value is not None}


def encoded(value: object) -> str:
    """A part of a token, in JSON and Base64."""
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@attrs.define(eq=False)
class IdentityProvider:
    """Its state may be changed while it serves. `failing` is the number of next requests that end with status 503.

    `grants` are the requests to the token endpoint, as pairs of a client id and a scope; `key_requests` counts those
    to the JWKS endpoint. A token is granted `pause_s` after its request.
    """

    url: str
    secrets: dict[str, str] = attrs.field(factory=lambda: {"alice": "alice-secret"})
    keys: list[SigningKey] = attrs.field(factory=lambda: [rsa_key()])
    lifetime_s: float = 3600
    failing: int = 0
    pause_s: float = 0
    grants: list[tuple[str, str]] = attrs.field(factory=list)
    key_requests: int = 0

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/jwks"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    def token(self, subject: str = "alice", **others: Any) -> str:
        """A token as the token endpoint gives it."""
        return self.keys[0].sign(claims_of(subject, **{"lifetime_s": self.lifetime_s, **others}))

    def serve_keys(self) -> tuple[int, object]:
        self.key_requests += 1
        return self._unless_failing(200, {"keys": [key.jwk() for key in self.keys]})

    def grant(self, authorization: str, form: Mapping[str, list[str]]) -> tuple[int, object]:
        """Answers a request for client credentials (RFC 6749, section 4.4)."""
        kind, _, encoded_pair = authorization.partition(" ")
        client_id, _, secret = b64decode(encoded_pair).decode().partition(":")
        client_id, secret = unquote_plus(client_id), unquote_plus(secret)
        scope = form.get("scope", [""])[0]
        self.grants.append((client_id, scope))
        time.sleep(self.pause_s)
        if kind != "Basic" or form.get("grant_type") != ["client_credentials"]:
            return self._unless_failing(400, {"error": "unsupported_grant_type"})
        if self.secrets.get(client_id) != secret:
            return self._unless_failing(401, {"error": "invalid_client", "error_description": "unknown client"})
        token = self.token(client_id, scope=scope.split() or None)
        return self._unless_failing(
            200, {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lifetime_s)}
        )

    def _unless_failing(self, status: int, answer: object) -> tuple[int, object]:
        if self.failing:
            self.failing -= 1
            return 503, {"error": "temporarily_unavailable"}
        return status, answer


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """An identity provider that serves in threads until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(*(provider.serve_keys() if self.path == "/jwks" else (404, {})))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            found = provider.grant(self.headers.get("Authorization", ""), parse_qs(body.decode()))
            self._answer(*(found if self.path == "/token" else (404, {})))

        def log_message(self, *args: object) -> None:
            """Prints nothing."""

        def _answer(self, status: int, answer: object) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = IdentityProvider(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
