"""Tokens of OAUTHBEARER and the key that signs them: valid tokens, and ones with a wrong header, claims or encoding."""

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from jepsen.hostile.byte_mutations import spoil
from jepsen.hostile.target import HEALTHY_USER, SUPER_USER, TOKEN_USER

AUDIENCE: Final = "hostile-audience"
_KEY_ID: Final = "hostile-key"
_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_OTHER_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
_PUBLIC: Final = _KEY.public_key().public_bytes_raw()
# Stories do not know the time: the token was issued long ago and expires in the year 2096.
_CLAIMS: Final[Mapping[str, Any]] = {"sub": TOKEN_USER, "aud": AUDIENCE, "iat": 1_700_000_000, "exp": 4_000_000_000}
_HEADER: Final[Mapping[str, Any]] = {"alg": "EdDSA", "kid": _KEY_ID}

# Values in JSON for claims and members of headers. Python's encoder would refuse or change some of them.
_VALUES: Final = (
    *("null", "true", "0", "-1", "1e400", "-0.0", "NaN", "Infinity", "1e-999", "9" * 400, "9" * 5_000, "0.1e1"),
    *('""', '"\\u0000"', '"\\ud800"', '"\\udfff\\ud800"', '"\\u202e\\n"', '" "', f'"{"x" * 9_000}"', '"漢🐘"'),
    *("[]", "{}", "[" * 500 + "]" * 500, "[" * 30_000 + "]" * 30_000, '{"a":' * 2_000 + "1" + "}" * 2_000),
    *('["hostile-audience"]', '["a", "a"]', "[null]", '[["hostile-audience"]]', '{"sub": "User"}', '"User:x"'),
    *("4000000000", "253402300799", "253402300800", "1.7e9", "-1.7e9", '"4000000000"', '"hostile-token,a=b"'),
)
_CLAIM_NAMES: Final = ("sub", "aud", "iat", "exp", "nbf", "iss", "scope", "jti", "", "sub ", "x" * 2_000)
_MEMBERS: Final = ("alg", "kid", "typ", "crit", "b64", "zip", "jwk", "jku", "x5c", "enc", "")
_MEMBER_VALUES: Final = (
    *('"none"', '"None"', '"HS256"', '"RS256"', '"ES256"', '"EdDSA"', '"PS512"', '"eddsa"', '"hostile-key"', '["b64"]'),
    *("false", f'"{"k" * 2_000}"', '{"kty": "oct", "k": "AAAA"}', '"file:///etc/passwd"', '"../../keys"'),
    *_VALUES,
)


def key_set() -> str:
    """The JWKS document with the public key."""
    key = {"kty": "OKP", "crv": "Ed25519", "x": _encoded(_PUBLIC), "kid": _KEY_ID, "alg": "EdDSA", "use": "sig"}
    return json.dumps({"keys": [key]})


def sound_token(user: str = TOKEN_USER) -> str:
    return _signed(json.dumps(_HEADER), json.dumps({**_CLAIMS, "sub": user}))


def spoiled_token(rng: Random) -> tuple[str, bool]:
    """A token, and whether the key's owner has signed it: then a node may accept it."""
    return rng.choice(_SPOILERS)(rng)


def _wrong_claims(rng: Random) -> tuple[str, bool]:
    values = {name: json.dumps(value) for name, value in _CLAIMS.items()}
    for _ in range(rng.choice((1, 1, 2, 4))):
        values[rng.choice(_CLAIM_NAMES)] = rng.choice(_VALUES)
    if rng.random() < 0.2:
        del values[rng.choice(list(values))]
    return _signed(json.dumps(_HEADER), _object(rng, values)), True


def _wrong_header(rng: Random) -> tuple[str, bool]:
    members = {name: json.dumps(value) for name, value in _HEADER.items()}
    for _ in range(rng.choice((1, 1, 2))):
        members[rng.choice(_MEMBERS)] = rng.choice(_MEMBER_VALUES)
    return _signed(_object(rng, members), json.dumps(_CLAIMS)), True


def _wrong_json(rng: Random) -> tuple[str, bool]:
    """Mutated bytes of the header or the claims, under a valid signature."""
    parts = [json.dumps(_HEADER).encode(), json.dumps(_CLAIMS).encode()]
    place = rng.randrange(2)
    parts[place] = spoil(rng, parts[place])
    return _signed(parts[0], parts[1]), True


def _unsigned(rng: Random) -> tuple[str, bool]:
    """Without a signature, or with a symmetric one by the text of the public key; the header says so."""
    kind = rng.choice(("none", "None", "HS256", "HS512", "EdDSA"))
    claims = {**_CLAIMS, "sub": rng.choice((TOKEN_USER, HEALTHY_USER, SUPER_USER))}
    content = f"{_encoded(json.dumps({**_HEADER, 'alg': kind}))}.{_encoded(json.dumps(claims))}"
    secret = rng.choice((_PUBLIC, _encoded(_PUBLIC).encode(), key_set().encode()))
    signature = hmac.digest(secret, content.encode(), "sha512" if kind == "HS512" else "sha256")
    return f"{content}.{rng.choice(('', _encoded(signature), _encoded(bytes(64))))}", False


def _foreign(rng: Random) -> tuple[str, bool]:
    """Signed by a key that is not in the set, which the header may bring along, or name as the set's."""
    other = {"kty": "OKP", "crv": "Ed25519", "x": _encoded(_OTHER_KEY.public_key().public_bytes_raw()), "kid": _KEY_ID}
    header = {**_HEADER, **rng.choice(({}, {"jwk": other}, {"kid": "other"}, {"kid": "other", "jwk": other}))}
    claims = {**_CLAIMS, "sub": rng.choice((TOKEN_USER, HEALTHY_USER, SUPER_USER))}
    return _signed(json.dumps(header), json.dumps(claims), _OTHER_KEY), False


def _wrong_text(rng: Random) -> tuple[str, bool]:
    """Mutated characters of a valid token. It may be accepted if the signed part is whole."""
    token = sound_token()
    spoiled = spoil(rng, token.encode()).decode("latin-1")
    return spoiled, token[:-2] in spoiled


def _wrong_parts(rng: Random) -> tuple[str, bool]:
    header, claims, signature = sound_token().split(".")
    return rng.choice(
        (
            *(f"{header}.{claims}", f"{header}.{claims}.", f"..{signature}", ".".join((header, claims) * 3), "...."),
            *(f"{header}.{claims}.{signature}.{signature}", f"{claims}.{header}.{signature}", "." * 60_000),
            *(f"{header}==.{claims}=.{'A' * 400_000}", f"{'A' * 70_000}.{claims}.{signature}", f"{header}.{header}.-_"),
        )
    ), False


def _object(rng: Random, values: Mapping[str, str]) -> str:
    members = [f"{json.dumps(name)}:{value}" for name, value in values.items()]
    if rng.random() < 0.2:  # the same name twice
        members.append(rng.choice(members))
    text = "{" + ",".join(members) + "}"
    return rng.choice((text, text, text, text, f"[{text}]", f"{text} {text}", f"\ufeff{text}", " " * 5_000 + text))


def _signed(header: str | bytes, claims: str | bytes, key: Ed25519PrivateKey = _KEY) -> str:
    content = f"{_encoded(header)}.{_encoded(claims)}"
    return f"{content}.{_encoded(key.sign(content.encode()))}"


def _encoded(content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    return urlsafe_b64encode(data).rstrip(b"=").decode()


_SPOILERS: Final[tuple[Callable[[Random], tuple[str, bool]], ...]] = (
    _wrong_claims,
    _wrong_claims,
    _wrong_header,
    _wrong_json,
    _unsigned,
    _foreign,
    _wrong_text,
    _wrong_parts,
)
