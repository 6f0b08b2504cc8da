"""Signatures: only keys of the identity provider verify tokens, and keys decide which algorithms are allowed."""

import hmac
import json
from base64 import urlsafe_b64encode
from contextlib import suppress
from functools import cache
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.security.oauth.json_parts import TOKEN_BYTES_MAX
from broker.security.oauth.key_set import KEYS_MAX, InvalidKeySet, KeySet, UnknownKey, parse_key_set
from broker.security.sasl.exchange import InvalidToken
from tests.support.identity_provider import SigningKey, ec_key, ed_key, encoded, jwks, rsa_key

CLAIMS = {"sub": "alice", "exp": 100, "iat": 1}


@cache
def all_keys() -> KeySet:
    return parse_key_set(jwks(rsa_key(), ec_key(), ed_key()))


@pytest.fixture
def keys() -> KeySet:
    return all_keys()


@pytest.mark.parametrize("key", [rsa_key(), ec_key(), ed_key()], ids=lambda key: key.algorithm)
def test_signed_claims_are_read(keys: KeySet, key: SigningKey) -> None:
    assert keys.verified_claims(key.sign(CLAIMS)) == CLAIMS


@pytest.mark.parametrize("algorithm", ["RS384", "RS512", "PS256", "PS384", "PS512"])
def test_an_rsa_key_without_an_algorithm_verifies_all_of_its_type(keys: KeySet, algorithm: str) -> None:
    token = jwt.encode(CLAIMS, rsa_key().private, algorithm, {"kid": "first"})
    assert keys.verified_claims(token) == CLAIMS


def test_a_key_with_an_algorithm_verifies_no_other() -> None:
    keys = parse_key_set(json.dumps({"keys": [rsa_key().jwk(alg="RS256")]}).encode())
    assert keys.verified_claims(rsa_key().sign(CLAIMS)) == CLAIMS
    with pytest.raises(InvalidToken, match="'PS256' is not one of the key's, RS256"):
        keys.verified_claims(jwt.encode(CLAIMS, rsa_key().private, "PS256", {"kid": "first"}))


def test_a_signature_by_another_key_is_refused(keys: KeySet) -> None:
    forged = SigningKey(rsa_key("other").private, "RS256", "first").sign(CLAIMS)
    with pytest.raises(InvalidToken, match="Signature"):
        keys.verified_claims(forged)


def test_changed_claims_are_refused(keys: KeySet) -> None:
    header, _, signature = rsa_key().sign(CLAIMS).split(".")
    with pytest.raises(InvalidToken, match="Signature"):
        keys.verified_claims(f"{header}.{encoded({**CLAIMS, 'sub': 'admin'})}.{signature}")


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None])
@pytest.mark.parametrize("signature", ["", "AA"])
def test_a_token_without_an_algorithm_is_refused(keys: KeySet, algorithm: str | None, signature: str) -> None:
    token = f"{encoded({'alg': algorithm, 'kid': 'first'})}.{encoded(CLAIMS)}.{signature}"
    with pytest.raises(InvalidToken, match="algorithm"):
        keys.verified_claims(token)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_the_text_of_a_public_key_is_no_symmetric_key(keys: KeySet, algorithm: str) -> None:
    text = (
        rsa_key()
        .private.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    signed = f"{encoded({'alg': algorithm, 'kid': 'first'})}.{encoded(CLAIMS)}"
    mac = hmac.digest(text, signed.encode(), algorithm.replace("HS", "sha"))
    with pytest.raises(InvalidToken, match="algorithm"):
        keys.verified_claims(f"{signed}.{urlsafe_b64encode(mac).rstrip(b'=').decode()}")


def test_a_symmetric_key_of_the_document_is_not_used() -> None:
    with pytest.raises(InvalidKeySet, match="its type is not supported"):
        parse_key_set(json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}]}).encode())


def test_a_key_in_the_header_of_a_token_is_not_used(keys: KeySet) -> None:
    other = rsa_key("other")
    with pytest.raises(UnknownKey):
        keys.verified_claims(other.sign(CLAIMS, jwk=other.jwk()))


def test_an_unknown_critical_header_is_refused(keys: KeySet) -> None:
    with pytest.raises(InvalidToken):
        keys.verified_claims(_signed_parts({"alg": "RS256", "kid": "first", "crit": ["exp"], "exp": 1}, CLAIMS))


def test_an_unknown_key_is_told_apart(keys: KeySet) -> None:
    with pytest.raises(UnknownKey, match="no key with the id 'other'") as raised:
        keys.verified_claims(rsa_key("other").sign(CLAIMS))
    assert raised.value.key_id == "other"


def test_a_token_without_a_key_id_is_verified_by_the_only_key(keys: KeySet) -> None:
    token = jwt.encode(CLAIMS, rsa_key().private, "RS256")
    assert parse_key_set(jwks(rsa_key())).verified_claims(token) == CLAIMS
    with pytest.raises(UnknownKey):
        keys.verified_claims(token)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        {},
        {"kty": 1},
        {"kty": "RSA"},
        {"kty": "RSA", "n": "AQAB", "e": ""},
        {"kty": "RSA", "n": 5, "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-192"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
    ],
    ids=str,
)
def test_keys_that_cannot_be_used_are_skipped(entry: dict[str, Any] | None) -> None:
    found = parse_key_set(json.dumps({"keys": [entry, ec_key().jwk()]}).encode())
    assert (list(found.keys), len(found.skipped)) == (["curve"], 1)


@pytest.mark.parametrize(
    ("bits", "members"),
    [
        (1024, {}),
        (2048, {"use": "enc"}),
        (2048, {"kid": 5}),
        (2048, {"kid": "x" * 2000}),
        (2048, {"alg": "HS256"}),
        (2048, {"alg": ["RS256"]}),
    ],
    ids=["short", "use", "number-as-id", "long-id", "algorithm", "algorithms"],
)
def test_whole_keys_for_other_uses_are_skipped(bits: int, members: dict[str, Any]) -> None:
    test_keys_that_cannot_be_used_are_skipped(rsa_key(bits=bits).jwk(**members))


def test_private_parts_of_a_key_are_not_read() -> None:
    algorithm = jwt.algorithms.get_default_algorithms()["RS256"]
    document = {"keys": [{**algorithm.to_jwk(rsa_key().private, as_dict=True), "kid": "first"}]}
    keys = parse_key_set(json.dumps(document).encode())
    assert keys.verified_claims(rsa_key().sign(CLAIMS)) == CLAIMS
    assert not hasattr(keys.keys["first"].key, "private_numbers")


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{}", b"\xff", b'{"keys": {}}', b'{"keys": []}', b"[" * 100_000, b'{"keys": [NaN]}', b"9" * 5000],
    ids=lambda document: document[:15],
)
def test_documents_that_are_not_jwks_are_refused(document: bytes) -> None:
    with pytest.raises(InvalidKeySet):
        parse_key_set(document)


def test_the_number_of_keys_is_bounded() -> None:
    document = json.dumps({"keys": [ec_key().jwk(kid=str(place)) for place in range(KEYS_MAX + 1)]}).encode()
    with pytest.raises(InvalidKeySet, match="at most 100 keys"):
        parse_key_set(document)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a",
        "a.b",
        "a.b.c",
        "..",
        "a.b.c.d",
        "\x00.\x00.\x00",
        "é.é.é",
        encoded([]) + ".e30.AA",
        encoded({"alg": "RS256", "kid": 5}) + ".e30.AA",
        encoded({"alg": "RS256", "kid": "x" * 2000}) + ".e30.AA",
        encoded({"alg": ["RS256"], "kid": "first"}) + ".e30.AA",
        encoded({"alg": "RS256", "kid": "first", "b64": False}) + ".e30.AA",
        urlsafe_b64encode(b"[" * 30_000).decode() + ".e30.AA",
    ],
    ids=lambda token: token[:20],
)
def test_malformed_tokens_are_refused(keys: KeySet, token: str) -> None:
    with pytest.raises(InvalidToken):
        keys.verified_claims(token)


def test_the_length_of_a_token_is_bounded(keys: KeySet) -> None:
    with pytest.raises(InvalidToken, match="where at most 65536 are read"):
        keys.verified_claims(rsa_key().sign({**CLAIMS, "roles": "x" * TOKEN_BYTES_MAX}))


@pytest.mark.parametrize("payload", [b"[" * 10_000, b"[]", b"NaN", b'{"exp": Infinity}', b"\xff"])
def test_signed_bytes_that_are_no_claims_are_refused(keys: KeySet, payload: bytes) -> None:
    token = jwt.PyJWS().encode(payload, rsa_key().private, "RS256", {"kid": "first"})
    with pytest.raises(InvalidToken, match="claims"):
        keys.verified_claims(token)


@settings(max_examples=300)
@given(
    st.one_of(
        st.text(max_size=60),
        st.tuples(
            st.fixed_dictionaries(
                {
                    "alg": st.sampled_from(["RS256", "none", "HS256", "ES256"]),
                    "kid": st.sampled_from(["first", "curve"]),
                },
                optional={"crit": st.just(["x"]), "zip": st.just("DEF"), "b64": st.booleans()},
            ),
            st.text(alphabet="abcAB019-_=.", max_size=40),
        ).map(lambda parts: f"{encoded(parts[0])}.{parts[1]}.{parts[1]}"),
    )
)
def test_hostile_tokens_are_refused(token: str) -> None:
    with pytest.raises(InvalidToken):
        all_keys().verified_claims(token)


def _signed_parts(header: dict[str, object], claims: dict[str, object]) -> str:
    signed = f"{encoded(header)}.{encoded(claims)}"
    algorithm = jwt.algorithms.get_default_algorithms()["RS256"]
    signature = algorithm.sign(signed.encode(), rsa_key().private)
    return f"{signed}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
NUMBERS = st.binary(max_size=300).map(lambda number: urlsafe_b64encode(number).rstrip(b"=").decode())
ENTRIES = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {"kty": st.sampled_from(["RSA", "EC", "OKP", "oct"]) | JSON},
        optional={
            "crv": st.sampled_from(["P-256", "P-384", "P-521", "Ed25519", "Ed448", "secp256k1"]) | JSON,
            **dict.fromkeys(("n", "e", "x", "y", "d", "k"), NUMBERS | JSON),
            **dict.fromkeys(("kid", "use", "alg", "key_ops"), JSON),
        },
    ),
    st.dictionaries(st.sampled_from(["n", "e", "alg", "use", "kid", "crv", "oth"]), NUMBERS | JSON).map(
        lambda changes: rsa_key().jwk(**changes)
    ),
    st.dictionaries(st.sampled_from(["x", "y", "crv"]), NUMBERS).map(lambda changes: ec_key().jwk(**changes)),
    st.dictionaries(st.sampled_from(["x", "crv"]), NUMBERS).map(lambda changes: ed_key().jwk(**changes)),
)


@settings(max_examples=300)
@given(st.lists(ENTRIES, max_size=3))
def test_hostile_documents_are_read_or_refused(entries: list[Any]) -> None:
    with suppress(InvalidKeySet):
        parse_key_set(json.dumps({"keys": entries}).encode())


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(["crit", "b64", "zip", "typ", "cty", "x5c", "jwk", "enc"]), JSON))
def test_hostile_headers_of_tokens_are_refused(header: dict[str, Any]) -> None:
    token = f"{encoded({'alg': 'RS256', 'kid': 'first', **header})}.{encoded(CLAIMS)}.AAAA"
    with pytest.raises(InvalidToken):
        all_keys().verified_claims(token)
