"""The rules for the claims of a token whose signature is valid (RFC 7519; BrokerJwtValidator in Kafka)."""

from collections.abc import Mapping
from typing import Any, Final

from broker.security.sasl.exchange import Authenticated, InvalidToken
from kraft import lazy_attrs

# No time beyond the year 9999 is a time of a token.
_SECONDS_MAX: Final = 253_402_300_799
# Names of users stand in ACLs, logs and responses; the protocol carries no longer strings.
_SUBJECT_CHARACTERS_MAX: Final = 32_767 // 4
_SHOWN_CHARACTERS: Final = 100


@lazy_attrs.frozen(kw_only=True)
class ClaimRules:
    """The rules of a listener. `issuer` is not checked if it is None.

    A token has to name one of `audiences`. If there are none, it must not name any: it is meant for another service.
    """

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_ms: int = 30_000


def check_claims(rules: ClaimRules, claims: Mapping[str, Any], now_ms: int) -> Authenticated:
    """The user that the claims name, until the token expires. `now_ms` is the wall clock. Raises InvalidToken.

    A token has to have an expiration and a time of issue.
    """
    expires_at_ms = _required_time(claims, "exp")
    if now_ms - rules.clock_skew_ms >= expires_at_ms:
        raise InvalidToken(f"the token expired {now_ms - expires_at_ms} ms ago")
    _required_time(claims, "iat")
    begins_at_ms = _time(claims, "nbf")
    if begins_at_ms is not None and now_ms + rules.clock_skew_ms < begins_at_ms:
        raise InvalidToken(f"the token is not valid for another {begins_at_ms - now_ms} ms")
    _check_audience(rules, claims)
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise InvalidToken(f"the token's issuer is {_shown(claims.get('iss'))}, not {rules.issuer}")
    read_scopes(claims, rules.scope_claim)
    return Authenticated(read_subject(claims, rules.subject_claim), expires_at_ms)


def read_subject(claims: Mapping[str, Any], claim: str) -> str:
    """The name of the user. Raises InvalidToken."""
    subject = claims.get(claim)
    if not isinstance(subject, str) or not subject.strip():
        raise InvalidToken(f"the token has no claim {claim} that names a user")
    if len(subject) > _SUBJECT_CHARACTERS_MAX:
        raise InvalidToken(f"the claim {claim} has more than {_SUBJECT_CHARACTERS_MAX} characters")
    try:
        subject.encode()
    except UnicodeEncodeError:  # a half of a surrogate pair, which JSON can escape: no response or record carries it
        raise InvalidToken(f"the claim {claim} is not Unicode text") from None
    return subject.strip()


def read_scopes(claims: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    """The scopes of the token; none if the claim is absent or of another type. Raises InvalidToken."""
    value = claims.get(claim)
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if not all(isinstance(scope, str) and scope.strip() for scope in values):
        raise InvalidToken(f"the claim {claim} has an element that is not a scope")
    scopes = tuple(scope.strip() for scope in values)
    if len(set(scopes)) < len(scopes):
        raise InvalidToken(f"the claim {claim} names a scope twice")
    return scopes


def _check_audience(rules: ClaimRules, claims: Mapping[str, Any]) -> None:
    value = claims.get("aud")
    if value is None and not rules.audiences:
        return
    if not rules.audiences:
        raise InvalidToken(
            f"the token's audience is {_shown(value)}, but sasl.oauthbearer.expected.audience is not set"
        )
    found = value if isinstance(value, list) else [value]
    if not any(isinstance(audience, str) and audience in rules.audiences for audience in found):
        raise InvalidToken(f"the token's audience is {_shown(value)}, not one of {', '.join(rules.audiences)}")


def _required_time(claims: Mapping[str, Any], claim: str) -> int:
    time_ms = _time(claims, claim)
    if time_ms is None:
        raise InvalidToken(f"the token has no claim {claim}")
    return time_ms


def _time(claims: Mapping[str, Any], claim: str) -> int | None:
    """A time in milliseconds since 1970; None if the claim is absent."""
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidToken(f"the claim {claim} is not a number")
    if not 0 <= value <= _SECONDS_MAX:  # also for infinity
        raise InvalidToken(f"the claim {claim} is not a time")
    return int(value * 1000)


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN_CHARACTERS]
