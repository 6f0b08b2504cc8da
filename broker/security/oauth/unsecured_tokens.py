"""Tokens without a signature, for development only (RFC 7515 appendix A.5; OAuthBearerUnsecuredJws in Kafka).

Any client can claim to be any user with them. A listener accepts them only if its configuration names Kafka's class for
them, and a client makes them only if its login module has options that begin with "unsecuredLogin".
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

from broker.security.oauth.claims import ClaimRules, check_claims, read_scopes
from broker.security.oauth.json_parts import MalformedJson, decode_part, split_token
from broker.security.sasl.exchange import Authenticated, InvalidToken
from kraft import lazy_attrs

VALIDATOR_CLASS: Final = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
_RESERVED: Final = frozenset({"iat", "exp"})
_LOGIN: Final = "unsecuredLogin"
_INT32_MAX: Final = 2**31 - 1


@lazy_attrs.frozen
class UnsecuredValidator:
    """Kafka's options of the server's login module, `unsecuredValidator...`."""

    rules: ClaimRules
    required_scopes: tuple[str, ...] = ()

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "UnsecuredValidator":
        """Raises ValueError for a clock skew that is no number of milliseconds."""

        def option(name: str, default: str) -> str:
            return options.get(f"unsecuredValidator{name}", "").strip() or default

        skew = option("AllowableClockSkewMs", "0")
        if not skew.isascii() or not skew.isdigit() or len(skew) > 10 or int(skew) > _INT32_MAX:
            raise ValueError("unsecuredValidatorAllowableClockSkewMs is not a number of milliseconds")
        rules = ClaimRules(
            subject_claim=option("PrincipalClaimName", "sub"),
            scope_claim=option("ScopeClaimName", "scope"),
            clock_skew_ms=int(skew),
        )
        return cls(rules, tuple(option("RequiredScope", "").split()))

    def validate(self, token: str, now_ms: int) -> Authenticated:
        """The user that the token names. Raises InvalidToken."""
        try:
            header, claims, signature = split_token(token)
            algorithm, found = decode_part(header).get("alg"), decode_part(claims)
        except MalformedJson as error:
            raise InvalidToken(str(error)) from None
        if algorithm != "none" or signature:
            raise InvalidToken("an unsecured token has the algorithm none, and no signature")
        authenticated = check_claims(self.rules, {"iat": 0, **found, "aud": None}, now_ms)
        scopes = read_scopes(found, self.rules.scope_claim)
        if missing := [scope for scope in self.required_scopes if scope not in scopes]:
            wanted = f"[{', '.join(self.required_scopes)}]"
            raise InvalidToken(f"the token has no scope {missing[0]}", "insufficient_scope", wanted)
        return authenticated


def make_unsecured_token(options: Mapping[str, str], now_ms: int) -> str:
    """A token with the claims of a login module's options, `unsecuredLoginStringClaim_sub="alice"` among them.

    Raises ValueError for options from which no token can be made.
    """
    lifetime_s = float(options.get(f"{_LOGIN}LifetimeSeconds", "3600"))
    issued_s = now_ms / 1000
    claims: dict[str, Any] = {"exp": issued_s + lifetime_s, "iat": issued_s}
    for kind, read in (("String", str), ("Number", float), ("List", _read_list)):
        prefix = f"{_LOGIN}{kind}Claim_"
        for name in options:
            if name.startswith(prefix) and name != prefix:
                if (claim := name.removeprefix(prefix)) in _RESERVED:
                    raise ValueError(f"Cannot explicitly set the '{claim}' claim")
                claims[claim] = read(options[name])
    subject = options.get(f"{_LOGIN}PrincipalClaimName", "").strip() or "sub"
    if not claims.get(subject):
        raise ValueError(f"No principal name in JWT claim: {subject}")
    return f"{_encode({'alg': 'none'})}.{_encode(claims)}."


def has_unsecured_login(options: Mapping[str, str]) -> bool:
    """True if the options of a login module ask for an unsecured token."""
    return any(name.startswith(_LOGIN) for name in options)


def _read_list(value: str) -> list[str]:
    """The elements of a list, which begins with its separator: "|a|b"."""
    return value[1:].split(value[0]) if len(value) > 1 else []


def _encode(value: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=").decode()
