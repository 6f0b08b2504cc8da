"""The messages of a client's authentication by each SASL mechanism: valid ones, and mutated, huge and foreign ones."""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from broker.security.sasl.exchange import SASL_MESSAGE_BYTES_MAX, ClientExchange, SaslFailure
from broker.security.sasl.oauthbearer import OAuthBearerClient
from broker.security.sasl.plain import PlainClient
from broker.security.sasl.scram import ScramClient
from jepsen.hostile.byte_mutations import spoil
from jepsen.hostile.json_tokens import sound_token, spoiled_token
from jepsen.hostile.target import (
    HEALTHY_USER,
    PASSING_USERS,
    SCRAM_PASSWORD,
    SCRAM_USER,
    SUPER_PASSWORD,
    SUPER_USER,
    TOKEN_USER,
)
from metadata.protocol import ScramMechanism

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
# Enough for every mechanism, with one message too many.
_MESSAGES_MAX: Final = 4
_FOREIGN_NAMES: Final = (HEALTHY_USER, *PASSING_USERS[:2], "a=2Cb", "a,b=c", "漢🐘", "x" * 8_000, "\u202e\n", "=3D2C")
_BAD_SCRAM: Final = (
    *(b"n,,n=%s,r=", b"y,,n=%s,r=abc", b"p=tls-unique,,n=%s,r=abc", b"n,a=other,n=%s,r=abc", b"n,a=%s,n=%s,r=abc"),
    *(b"n,,n=%s,r=abc,tokenauth=true", b"n,,m=x,n=%s,r=abc", b"n,,n=%s,r=" + b"r" * 9_000, b"n,,n==2c,r=abc", b"n,,,,"),
    *(b"n,,n=%s,r=abc" + b",x=y" * 1_500, b"c=biws,r=abc,p=", b"c=biws,r=abc,p=" + b"A" * 8_000, b"c=====,r=a,p=AA=="),
)
_BAD_BEARER: Final = (
    *("n,,\1auth=Bearer %s\1", "n,,\1\1", "n,,\1auth=Basic %s\1\1", "n,,\1auth=Bearer %s\1auth=Bearer %s\1\1"),
    *("n,a=healthy,\1auth=Bearer %s\1\1", "y,,\1auth=Bearer %s\1\1", "n,,\1auth=Bearer  %s \1\1", "\1", "%s", ""),
    *("n,,\1auth=Bearer %s\1" + "k=v\1" * 20_000 + "\1", "n,,\1AUTH=Bearer %s\1\1", "n,,\1auth=Bearer %s\1a b=c\1\1"),
)


class Message(NamedTuple):
    """One message, and whether a client may be authenticated after it."""

    data: bytes
    may_authenticate: bool


class Login:
    """One authentication by a mechanism. With `spoiled_at`, the message of this number is not what it should be.

    After such a message, or after one that the node has refused, `exchange` cannot prove who the client is.
    """

    def __init__(self, rng: Random, exchange: ClientExchange, spoiled_at: int | None) -> None:
        self.mechanism = exchange.mechanism
        self._rng = rng
        self._exchange = exchange
        self._spoiled_at = spoiled_at
        self._sent = 0
        self._is_sound = True

    def first(self) -> Message:
        return self._next(self._exchange.first())

    def answer(self, challenge: bytes) -> Message | None:
        """The message that follows; None if the client is authenticated, or has nothing to say."""
        if self._sent >= _MESSAGES_MAX:
            return None
        try:
            answer = self._exchange.answer(challenge)
        except SaslFailure:
            self._is_sound = False
            answer = self._rng.randbytes(8) if self._rng.random() < 0.3 else None
        return None if answer is None else self._next(answer)

    def _next(self, data: bytes) -> Message:
        place, self._sent = self._sent, self._sent + 1
        if place != self._spoiled_at:
            return Message(data, self._is_sound)
        spoiled = spoiled_message(self._rng, self.mechanism, data)
        self._is_sound = self._is_sound and spoiled.may_authenticate
        return spoiled


def sound_login(rng: Random, mechanism: str | None = None) -> Login:
    """The login of a user who exists, with the right password or a valid token."""
    return Login(rng, _exchange(rng, mechanism or rng.choice(MECHANISMS)), None)


def any_login(rng: Random) -> Login:
    """A login of which a message is spoiled; sometimes one that is sound, or by a wrong name or password."""
    mechanism = rng.choice(MECHANISMS)
    if rng.random() < 0.15:
        return Login(rng, _foreign_exchange(rng, mechanism), None)
    return Login(rng, _exchange(rng, mechanism), rng.choice((0, 0, 1, None)))


def token_login(rng: Random, token_id: str, password: str, *, by_token: bool) -> Login:
    """The login of a delegation token's holder. The node may refuse it."""
    mechanism = rng.choice(tuple(ScramMechanism)[-2:])
    exchange = ScramClient(mechanism, token_id, password, rng.randbytes(9).hex(), by_token=by_token)
    return Login(rng, exchange, rng.choice((None, None, None, 0, 1)))


def _exchange(rng: Random, mechanism: str) -> ClientExchange:
    if mechanism == PLAIN:
        return PlainClient(SUPER_USER, SUPER_PASSWORD)
    if mechanism == OAUTHBEARER:
        return OAuthBearerClient(sound_token())
    return ScramClient(_scram(mechanism), SCRAM_USER, SCRAM_PASSWORD, rng.randbytes(9).hex())


def _foreign_exchange(rng: Random, mechanism: str) -> ClientExchange:
    name, password = rng.choice(_FOREIGN_NAMES), rng.choice((SUPER_PASSWORD, "", "wrong", "p" * 70_000))
    if mechanism == PLAIN:
        return PlainClient(name, password)
    if mechanism == OAUTHBEARER:
        return OAuthBearerClient(sound_token(), {"k": "v" * rng.choice((1, 100_000))})
    by_token = rng.random() < 0.5
    return ScramClient(_scram(mechanism), name, password, rng.randbytes(9).hex(), by_token=by_token)


def _scram(mechanism: str) -> ScramMechanism:
    return ScramMechanism[mechanism.replace("-", "_")]


def spoiled_message(rng: Random, mechanism: str, data: bytes) -> Message:
    """A message instead of `data`. It may authenticate the client if it differs in what proves nothing."""
    kind = rng.randrange(10)
    if kind < 4:
        spoiled = spoil(rng, data)
        return Message(spoiled, _is_equivalent(mechanism, data, spoiled))
    if kind == 4:
        return Message(rng.choice((b"", b"\0", data * 2, bytes(SASL_MESSAGE_BYTES_MAX), data + bytes(600_000))), False)
    return _SPOILERS[mechanism](rng)


def _is_equivalent(mechanism: str, data: bytes, spoiled: bytes) -> bool:
    """True if what proves the client's identity is whole. The last characters of Base64 have bits without meaning."""
    if mechanism == PLAIN:
        return spoiled.split(b"\0")[-2:] == data.split(b"\0")[-2:]
    if mechanism == OAUTHBEARER:
        return sound_token()[:-2].encode() in spoiled
    return spoiled[: len(data) - 4] == data[: len(data) - 4]


def _bad_plain(rng: Random) -> Message:
    user, password = SUPER_USER.encode(), SUPER_PASSWORD.encode()
    parts = rng.choice(
        (
            *([user, password], [b"", user, password, b""], [b"", user], [b"", b"", password], [b"", user, b""]),
            *([b"healthy", user, password], [b"", user, password[:-1]], [b"", user.upper(), password]),
            *(
                [b"", b"\xff\xfe", password],
                [b"", user, b"\xff" * 5_000],
                [b""] * 400_000,
                [b"", user + b" ", password],
            ),
        )
    )
    return Message(b"\0".join(parts), False)


def _bad_scram(rng: Random) -> Message:
    name = rng.choice((SCRAM_USER, HEALTHY_USER, "missing", "a=3Db", "=3D" * 2_000)).encode()
    return Message(rng.choice(_BAD_SCRAM).replace(b"%s", name), False)


def _bad_bearer(rng: Random) -> Message:
    if rng.random() < 0.75:
        token, is_signed = spoiled_token(rng)
        return Message(f"n,,\1auth=Bearer {token}\1\1".encode(errors="surrogatepass"), is_signed)
    text = rng.choice(_BAD_BEARER).replace("%s", rng.choice((sound_token(TOKEN_USER), "x", "a.b.c")))
    return Message(text.encode(), True)


_SPOILERS: Final[dict[str, Callable[[Random], Message]]] = {
    PLAIN: _bad_plain,
    "SCRAM-SHA-256": _bad_scram,
    "SCRAM-SHA-512": _bad_scram,
    OAUTHBEARER: _bad_bearer,
}
