"""The token of a client: until when it is used, and when a new one is retrieved (ExpiringCredentialRefreshingLogin)."""

from collections.abc import Mapping
from typing import Final

import attrs

from broker.security.oauth.json_parts import MalformedJson, decode_part, split_token
from kraft import lazy_attrs

# No time beyond the year 9999 is an expiration.
_SECONDS_MAX: Final = 253_402_300_799


class InvalidRetrievedToken(ValueError):
    """The text that was retrieved cannot be sent as a token. The message does not show it."""


@lazy_attrs.frozen
class RetrievedToken:
    """Times are of the wall clock, in milliseconds since 1970; None where the token does not say."""

    text: str = attrs.field(repr=False)
    expires_at_ms: int | None = None
    issued_at_ms: int | None = None
    extensions: Mapping[str, str] = attrs.field(factory=dict, repr=False)


@lazy_attrs.frozen(kw_only=True)
class TokenRefresh:
    """Kafka's configs `sasl.login.refresh.*`: a share of a token's time, and times in seconds before and after it."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: float = 60
    buffer_s: float = 300

    def refresh_at_ms(self, token: RetrievedToken, now_ms: float, random: float) -> float | None:
        """When the token, just retrieved, is replaced; None if it does not expire. `random` is between 0 and 1.

        The least period and the buffer are kept only if the token lasts long enough for both.
        """
        expires = token.expires_at_ms
        if expires is None:
            return None
        share = self.window_factor + self.window_jitter * random
        if now_ms + 1000 * (self.min_period_s + self.buffer_s) > expires:
            return now_ms + max(0.0, expires - now_ms) * share
        issued = now_ms if token.issued_at_ms is None else min(token.issued_at_ms, now_ms)
        wanted = min(issued + (expires - issued) * share, expires - 1000 * self.buffer_s)
        return max(wanted, now_ms + 1000 * self.min_period_s)


def read_token(text: str, extensions: Mapping[str, str] | None = None) -> RetrievedToken:
    """A token with the times of its claims; a token that is no JWT has none. Raises InvalidRetrievedToken.

    The client cannot check the signature, and need not: the token is for the broker.
    """
    token = text.strip()
    if not token or not token.isascii() or not all("!" <= character <= "~" for character in token):
        raise InvalidRetrievedToken("a token consists of printable ASCII characters without spaces")
    try:
        claims = decode_part(split_token(token)[1])
    except MalformedJson:
        claims = {}
    return RetrievedToken(token, _time_ms(claims.get("exp")), _time_ms(claims.get("iat")), extensions or {})


def _time_ms(seconds: object) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= _SECONDS_MAX:
        return None
    return int(seconds * 1000)
