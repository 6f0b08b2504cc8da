"""Validates the tokens of clients on a listener, with the keys of an identity provider (KIP-768)."""

from collections.abc import Callable

from broker.security.oauth.claims import ClaimRules, check_claims
from broker.security.oauth.key_set import UnknownKey
from broker.security.oauth.key_source import KeySource
from broker.security.sasl.exchange import Authenticated, InvalidToken


class TokenValidator:
    """`now_ms` is the wall clock."""

    def __init__(self, rules: ClaimRules, source: KeySource, now_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._source = source
        self._now_ms = now_ms

    def validate(self, token: str) -> Authenticated:
        """The user that the token names. Raises InvalidToken.

        A token that names an unknown key is refused, and the keys are fetched: its client succeeds when it retries.
        """
        keys = self._source.keys
        if keys is None:
            raise InvalidToken(f"no keys were read yet from {self._source.endpoint}")
        try:
            claims = keys.verified_claims(token)
        except UnknownKey:
            self._source.refresh_for_unknown_key()
            raise
        return check_claims(self._rules, claims, self._now_ms())
