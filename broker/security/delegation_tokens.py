"""The SCRAM credentials of delegation tokens: a client shows a token's id as its name, and the HMAC as its password."""

import hmac
from base64 import b64encode
from collections.abc import Callable
from typing import Final

from broker.security.sasl.scram import TokenCredential
from metadata.image import DelegationTokensImage
from metadata.protocol import ScramMechanism
from metadata.protocol.delegation_tokens import token_hmac
from metadata.protocol.scram import ITERATIONS_MIN, ScramCredential, credential_of, salted_password

_SALT_BYTES: Final = 26
# Credentials of removed tokens stay until there are so many more than tokens.
_SPARE_CREDENTIALS: Final = 100


class TokenCredentials:
    """Derives credentials from the secret key, when a token is first used on this node: that takes some 4 ms.

    `tokens` returns the present tokens, and `now_ms` the wall clock. Kafka derives the credentials of all tokens at
    once.
    """

    def __init__(self, secret_key: str, tokens: Callable[[], DelegationTokensImage], now_ms: Callable[[], int]) -> None:
        self._secret_key = secret_key
        self._tokens = tokens
        self._now_ms = now_ms
        self._credentials: dict[tuple[ScramMechanism, str], ScramCredential] = {}

    def find(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """The credential of a token; None if there is no such token, or it has expired."""
        tokens = self._tokens().by_id
        token = tokens.get(token_id)
        now_ms = self._now_ms()
        if token is None or token.is_expired(now_ms):
            return None
        credential = self._credentials.get((mechanism, token_id))
        if credential is None:
            if len(self._credentials) >= len(ScramMechanism) * len(tokens) + _SPARE_CREDENTIALS:
                self._credentials = {key: each for key, each in self._credentials.items() if key[1] in tokens}
            credential = self._credentials[mechanism, token_id] = self._derive(mechanism, token_id)
        _, _, owner_name = token.owner.partition(":")
        return TokenCredential(owner_name, min(token.expires_ms, token.max_ms), credential)

    def _derive(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        mac = token_hmac(self._secret_key, token_id)
        salt = hmac.digest(mac, b"salt", "sha256")[:_SALT_BYTES]
        password = b64encode(mac).decode()
        return credential_of(
            mechanism, salted_password(mechanism, password, salt, ITERATIONS_MIN), salt, ITERATIONS_MIN
        )
