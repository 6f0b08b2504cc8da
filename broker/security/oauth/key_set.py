"""The public keys of an identity provider (JWKS, RFC 7517), and the verification of signatures by them (RFC 7515).

PyJWT verifies signatures: it is small, typed, depends on `cryptography` alone, and is the most used one in Python. The
keys decide which algorithms a token may use, not the token: only signatures by private keys are accepted. A token
without a signature is refused, and so is one with a symmetric signature by the text of a public key.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from broker.security.oauth.json_parts import MalformedJson, decode_part, read_object, split_token
from broker.security.sasl.exchange import InvalidToken
from kraft import lazy_attrs

# Identity providers publish two to five keys.
KEYS_MAX: Final = 100
# RFC 7518 asks for at least so many bits; shorter keys can be factored.
_RSA_BITS_MIN: Final = 2048
# Longer keys take as long as 16 signatures of 4096 bits to verify, and no identity provider has them.
_RSA_BITS_MAX: Final = 16_384
_KEY_ID_CHARACTERS_MAX: Final = 1000
_SHOWN_CHARACTERS: Final = 100

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# The algorithms of a key by its type and curve.
_ALGORITHMS: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
# The members of a public key. Others, as those of a private key, are not read.
_MEMBERS: Final[Mapping[str, Sequence[str]]] = {
    "RSA": ("kty", "n", "e"),
    "EC": ("kty", "crv", "x", "y"),
    "OKP": ("kty", "crv", "x"),
}

MISSING_LIBRARY: Final = "OAUTHBEARER with signed tokens needs PyJWT and cryptography: pip install 'kraft[security]'"


class InvalidKeySet(ValueError):
    """The bytes are not a set of keys, or no key can verify tokens."""


class UnknownKey(InvalidToken):
    """The token is signed by a key that is not in the set: the identity provider may have new keys."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no key with the id {key_id[:_SHOWN_CHARACTERS]!r} is known")
        self.key_id = key_id


@lazy_attrs.frozen
class _Key:
    """A public key of PyJWT, with the algorithms that it may be used with."""

    key: Any
    algorithms: Sequence[str]


@lazy_attrs.frozen
class KeySet:
    """Keys by their ids; "" is a key without an id. `skipped` says why other keys of the document are not used."""

    keys: Mapping[str, _Key]
    skipped: Sequence[str] = ()

    def verified_claims(self, token: str) -> dict[str, Any]:
        """The claims of a token whose signature is valid. Raises InvalidToken, or UnknownKey."""
        from jwt import PyJWS  # only nodes with OAUTHBEARER need it
        from jwt.exceptions import PyJWTError

        try:
            header = decode_part(split_token(token)[0])
        except MalformedJson as error:
            raise InvalidToken(str(error)) from None
        key = self._key_of(header)
        options: Any = {"enforce_minimum_key_length": True}
        try:
            payload = PyJWS().decode_complete(token, key.key, algorithms=key.algorithms, options=options)["payload"]
            return read_object(payload)
        except PyJWTError as error:
            raise InvalidToken(f"{type(error).__name__}: {error}"[:_SHOWN_CHARACTERS]) from None
        except MalformedJson as error:
            raise InvalidToken(f"claims: {error}") from None
        except ValueError:
            raise InvalidToken("the token cannot be read") from None

    def _key_of(self, header: Mapping[str, Any]) -> _Key:
        key_id = header.get("kid", "")
        if not isinstance(key_id, str) or len(key_id) > _KEY_ID_CHARACTERS_MAX:
            raise InvalidToken("the id of the token's key is not a short text")
        key = self.keys.get(key_id)
        if key is None and not key_id and len(self.keys) == 1:
            key = next(iter(self.keys.values()))
        if key is None:
            raise UnknownKey(key_id)
        if header.get("alg") not in key.algorithms:
            shown = repr(header.get("alg"))[:_SHOWN_CHARACTERS]
            raise InvalidToken(f"the algorithm {shown} is not one of the key's, {', '.join(key.algorithms)}")
        return key


def parse_key_set(document: bytes) -> KeySet:
    """Reads a JWKS document. Raises InvalidKeySet, and ImportError without PyJWT."""
    try:
        entries = read_object(document).get("keys")
    except MalformedJson as error:
        raise InvalidKeySet(f"not a JWKS document: {error}") from None
    if not isinstance(entries, list) or len(entries) > KEYS_MAX:
        raise InvalidKeySet(f"not a JWKS document: no list `keys` of at most {KEYS_MAX} keys")
    keys: dict[str, _Key] = {}
    skipped = []
    for place, entry in enumerate(entries):
        try:
            key_id, key = _read_key(entry)
            if key_id in keys:
                raise InvalidKeySet("another key has the same id")
            keys[key_id] = key
        except InvalidKeySet as error:
            skipped.append(f"key {place}: {error}")
    if not keys:
        raise InvalidKeySet(f"no key that can verify tokens. {'; '.join(skipped)[:500]}")
    return KeySet(keys, skipped)


def _read_key(entry: object) -> tuple[str, _Key]:
    from cryptography.exceptions import UnsupportedAlgorithm
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    if not isinstance(entry, dict):
        raise InvalidKeySet("not an object")
    kind, curve, key_id = (_short_text(entry, name) for name in ("kty", "crv", "kid"))
    if entry.get("use", "sig") != "sig":
        raise InvalidKeySet("it is not for signatures")
    algorithms = _ALGORITHMS.get((kind, "" if kind == "RSA" else curve), ())
    if "alg" in entry:
        algorithms = [algorithm for algorithm in algorithms if algorithm == entry["alg"]]
    if not algorithms:
        raise InvalidKeySet("its type is not supported")
    public = {name: entry[name] for name in _MEMBERS[kind] if name in entry}
    try:
        key = PyJWK.from_dict(public, algorithms[0]).key
    except (PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, LookupError):
        raise InvalidKeySet("it cannot be read") from None
    if kind == "RSA" and not _RSA_BITS_MIN <= key.key_size <= _RSA_BITS_MAX:
        raise InvalidKeySet(f"it has {key.key_size} bits, not between {_RSA_BITS_MIN} and {_RSA_BITS_MAX}")
    return key_id, _Key(key, algorithms)


def _short_text(entry: Mapping[str, object], name: str) -> str:
    text = entry.get(name, "")
    if not isinstance(text, str) or len(text) > _KEY_ID_CHARACTERS_MAX:
        raise InvalidKeySet(f"its {name} is not a short text")
    return text
