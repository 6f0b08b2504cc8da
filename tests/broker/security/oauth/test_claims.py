"""The claims of signed and of unsecured tokens."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.oauth.claims import ClaimRules, check_claims
from broker.security.oauth.unsecured_tokens import UnsecuredValidator, has_unsecured_login, make_unsecured_token
from broker.security.sasl import Authenticated
from broker.security.sasl.exchange import InvalidToken
from tests.support.identity_provider import encoded

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
RULES = ClaimRules(audiences=("kafka", "other"), issuer="https://identity.example")
CLAIMS = {"iss": RULES.issuer, "aud": "kafka", "sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 60}


def test_valid_claims_name_the_user_and_the_expiration() -> None:
    assert check_claims(RULES, CLAIMS, NOW_MS) == Authenticated("alice", NOW_MS + 60_000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"exp": NOW_S - 30}, "expired 30000 ms ago"),
        ({"exp": None}, "no claim exp"),
        ({"exp": "soon"}, "exp is not a number"),
        ({"exp": True}, "exp is not a number"),
        ({"exp": -1}, "exp is not a time"),
        ({"exp": 10**400}, "exp is not a time"),
        ({"exp": float("inf")}, "exp is not a time"),
        ({"iat": None}, "no claim iat"),
        ({"nbf": NOW_S + 31}, "not valid for another 31000 ms"),
        ({"nbf": [1]}, "nbf is not a number"),
        ({"aud": "elsewhere"}, "audience is 'elsewhere', not one of kafka, other"),
        ({"aud": ["a", "b"]}, "audience is"),
        ({"aud": None}, "audience is None"),
        ({"aud": [["kafka"]]}, "audience is"),
        ({"iss": "https://other.example"}, "issuer is 'https://other.example', not https://identity.example"),
        ({"iss": None}, "issuer is None"),
        ({"sub": None}, "no claim sub"),
        ({"sub": " "}, "no claim sub"),
        ({"sub": 5}, "no claim sub"),
        ({"sub": "x" * 10_000}, "more than 8191 characters"),
        ({"sub": "a\ud800"}, "sub is not Unicode text"),
        ({"scope": ["a", "a"]}, "names a scope twice"),
        ({"scope": ["a", 1]}, "not a scope"),
        ({"scope": " "}, "not a scope"),
    ],
)
def test_claims_that_break_a_rule_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidToken, match=message):
        check_claims(RULES, {**CLAIMS, **changes}, NOW_MS)


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW_S - 29.9},
        {"nbf": NOW_S + 30},
        {"aud": ["x", "other"]},
        {"scope": "a b"},
        {"scope": ["a", "b"]},
        {"scope": {"a": 1}},
    ],
)
def test_claims_within_the_rules_and_the_clock_skew_are_valid(changes: dict[str, Any]) -> None:
    assert check_claims(RULES, {**CLAIMS, **changes}, NOW_MS).user == "alice"


def test_a_token_for_an_audience_is_refused_where_none_is_expected() -> None:
    with pytest.raises(InvalidToken, match=r"sasl\.oauthbearer\.expected\.audience is not set"):
        check_claims(ClaimRules(), CLAIMS, NOW_MS)
    assert check_claims(ClaimRules(), {**CLAIMS, "aud": None}, NOW_MS).user == "alice"


def test_the_claims_of_user_and_scope_have_configured_names() -> None:
    rules = ClaimRules(subject_claim="email", scope_claim="scp")
    assert check_claims(rules, {**CLAIMS, "aud": None, "email": " a@b "}, NOW_MS).user == "a@b"
    with pytest.raises(InvalidToken, match="scp has an element"):
        check_claims(rules, {**CLAIMS, "aud": None, "email": "a", "scp": [1]}, NOW_MS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["iss", "aud", "sub", "iat", "exp", "nbf", "scope"]), JSON))
def test_hostile_claims_are_refused_or_name_a_user(claims: dict[str, Any]) -> None:
    with suppress(InvalidToken):
        assert check_claims(RULES, {**CLAIMS, **claims}, NOW_MS).user.encode()


def test_an_unsecured_token_is_made_from_the_options_of_a_login_module() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginNumberClaim_level": "2.5",
        "unsecuredLoginListClaim_scope": "|read|write",
        "unsecuredLoginLifetimeSeconds": "60",
    }
    assert has_unsecured_login(options)
    token = make_unsecured_token(options, NOW_MS)
    validator = UnsecuredValidator.from_options({"unsecuredValidatorRequiredScope": "read write"})
    assert validator.validate(token, NOW_MS) == Authenticated("alice", NOW_MS + 60_000)
    with pytest.raises(InvalidToken, match="expired"):
        validator.validate(token, NOW_MS + 60_000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "No principal name in JWT claim: sub"),
        ({"unsecuredLoginStringClaim_exp": "5"}, "Cannot explicitly set the 'exp' claim"),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "long"}, "convert"),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginPrincipalClaimName": "user"}, "claim: user"),
    ],
)
def test_options_that_make_no_token_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_unsecured_token(options, NOW_MS)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (f"{encoded({'alg': 'RS256'})}.{encoded(CLAIMS)}.", "algorithm none"),
        (f"{encoded({'alg': 'none'})}.{encoded(CLAIMS)}.AA", "no signature"),
        (f"{encoded({'alg': 'none'})}.{encoded({})}.", "no claim exp"),
        (f"{encoded({'alg': 'none'})}.{encoded(CLAIMS)}", "three parts"),
        (f"{encoded({'alg': 'none'})}.é.", "Base64"),
        (f"{encoded({'alg': 'none'})}.{encoded([])}.", "no JSON object"),
    ],
)
def test_an_unsecured_validator_refuses_other_tokens(token: str, message: str) -> None:
    with pytest.raises(InvalidToken, match=message):
        UnsecuredValidator.from_options({}).validate(token, NOW_MS)


def test_a_missing_scope_is_named_to_the_client() -> None:
    token = make_unsecured_token({"unsecuredLoginStringClaim_sub": "alice"}, NOW_MS)
    validator = UnsecuredValidator.from_options({"unsecuredValidatorRequiredScope": "read"})
    with pytest.raises(InvalidToken) as raised:
        validator.validate(token, NOW_MS)
    assert (raised.value.status, raised.value.scope) == ("insufficient_scope", "[read]")


@pytest.mark.parametrize("skew", ["-1", "x", "1.5", "99999999999", "²"])
def test_a_clock_skew_that_is_no_number_is_refused(skew: str) -> None:
    with pytest.raises(ValueError, match="AllowableClockSkewMs"):
        UnsecuredValidator.from_options({"unsecuredValidatorAllowableClockSkewMs": skew})
