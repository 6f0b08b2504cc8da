"""The stories for a listener that asks for SASL: logins, requests before them, messages out of order, and tokens.

An empty window ends the connection: what follows goes over another one.
"""

from base64 import b64encode
from collections.abc import Generator, Sequence
from typing import Any, Final

from broker.wire.api.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from broker.wire.api.describe_delegation_token import DescribeDelegationTokenRequest
from broker.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from broker.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from broker.wire.api.sasl_authenticate import SaslAuthenticateRequest
from broker.wire.api.sasl_handshake import SaslHandshakeRequest
from jepsen.hostile.frames import RAW_SASL, Frame, framed
from jepsen.hostile.sasl_messages import MECHANISMS, PLAIN, Login, Message, any_login, sound_login, token_login
from jepsen.hostile.story import Story, StoryTools
from jepsen.hostile.target import HEALTHY_USER, SCRAM_USER, SUPER_USER, TOKEN_USER

# Yields windows of frames, as a story, and returns whether the client is authenticated.
_Attempt = Generator[Sequence[Frame], Sequence[Any], bool]

_RIGHTS: Final = (29, 30, 31, 38, 39, 40, 41, 50, 51)
_SASL: Final = (17, 36)
_PERIODS: Final = (-1, -1, 0, 1, 1_000, 2**63 - 1, -(2**63), -2)
_MECHANISM_NAMES: Final = ("", "plain", "GSSAPI", "PLAIN\0", "SCRAM-SHA-1", "x" * 32_000, "漢")


def logins(tools: StoryTools) -> Story:
    """Logins by all mechanisms, most of which fail at some message, and requests after those that succeed."""
    rng = tools.rng
    for _ in range(4):
        yield [tools.ping()] * rng.randrange(2)
        if (yield from _log_in(tools, any_login(rng))):
            yield [tools.any_frame() for _ in range(rng.randint(2, 8))]
        yield []


def unauthenticated_requests(tools: StoryTools) -> Story:
    """Requests of all APIs before the client has authenticated, also while it does."""
    rng = tools.rng
    for _ in range(5):
        kind = rng.randrange(3)
        if kind:
            mechanism = rng.choice(MECHANISMS)
            yield [tools.request(SaslHandshakeRequest(mechanism=mechanism), rng.choice((0, 1, 1)))]
        if kind == 2:
            yield [_in_request(tools, any_login(rng).first())]
        yield [tools.any_frame() for _ in range(rng.randint(1, 3))]
        yield []


def disordered_messages(tools: StoryTools) -> Story:
    """Handshakes and messages of mechanisms in any order, many in one write."""
    rng = tools.rng
    for _ in range(5):
        yield [_any_sasl(tools) for _ in range(rng.randint(1, 6))]
        if rng.random() < 0.5:
            yield []


def reauthentication(tools: StoryTools) -> Story:
    """A valid login, and others over the same connection: too soon, by another user or mechanism, or with an end."""
    rng = tools.rng
    for _ in range(3):
        first = sound_login(rng, rng.choice((None, PLAIN)))
        if (yield from _log_in(tools, first)):
            yield [tools.any_frame() for _ in range(rng.randrange(3))] + [tools.ping()]
            again = rng.choice((sound_login(rng, first.mechanism), sound_login(rng), any_login(rng)))
            yield from _log_in(tools, again)
            yield [tools.any_frame(), _any_sasl(tools), tools.any_frame()]
        yield []


def rights(tools: StoryTools) -> Story:
    """A super user changes ACLs, credentials and tokens by hostile requests; a user without rights makes others."""
    rng = tools.rng
    yield from _log_in(tools, sound_login(rng, PLAIN))
    for _ in range(3):
        yield [tools.plausible(rng.choice(_RIGHTS), rng.choice((0.0, 0.05, 0.3))) for _ in range(rng.randint(3, 10))]
    yield []
    if (yield from _log_in(tools, sound_login(rng))):
        yield [tools.any_frame() for _ in range(6)] + [tools.plausible(rng.choice(_RIGHTS), 0.02) for _ in range(4)]


def delegation_tokens(tools: StoryTools) -> Story:
    """Tokens are made with hostile fields, used to authenticate, renewed and ended, also by users with no right to."""
    rng = tools.rng
    yield from _log_in(tools, any_login(rng) if rng.random() < 0.3 else sound_login(rng))
    created = yield [_create_token(tools) for _ in range(rng.randint(1, 4))]
    made = [each for each in created if getattr(each, "hmac", b"")]
    for token in made:
        yield [_token_request(tools, token.hmac) for _ in range(rng.randint(1, 4))]
        yield []
        password = b64encode(token.hmac).decode() if rng.random() < 0.8 else "wrong"
        name = rng.choice((token.token_id, token.token_id, token.token_id, token.token_id.lower(), SCRAM_USER))
        if (yield from _log_in(tools, token_login(rng, name, password, by_token=rng.random() < 0.85))):
            yield [tools.any_frame(), _create_token(tools), _token_request(tools, token.hmac), tools.any_frame()]


def _log_in(tools: StoryTools, login: Login) -> _Attempt:
    """An authentication in requests, or by messages without headers."""
    is_raw = tools.rng.random() < 0.2
    (response,) = yield [tools.request(SaslHandshakeRequest(mechanism=login.mechanism), 0 if is_raw else 1)]
    message: Message | None = None if getattr(response, "error_code", -1) else login.first()
    while message is not None:
        (answer,) = yield [_raw(message) if is_raw else _in_request(tools, message)]
        if not isinstance(answer, bytes) and (answer is None or answer.error_code):
            return False
        challenge = answer if isinstance(answer, bytes) else bytes(answer.auth_bytes)
        if is_proof(challenge):
            return True
        message = login.answer(challenge)
    return False


def is_proof(challenge: bytes) -> bool:
    """True for the message of a server by which a client is authenticated; for one without an error."""
    return not challenge or challenge.startswith(b"v=")


def _raw(message: Message) -> Frame:
    return Frame(framed(message.data), RAW_SASL, 0, 0, may_authenticate=message.may_authenticate)


def _in_request(tools: StoryTools, message: Message) -> Frame:
    sent = tools.request(SaslAuthenticateRequest(auth_bytes=message.data))
    return sent._replace(may_authenticate=message.may_authenticate)


def _any_sasl(tools: StoryTools) -> Frame:
    """A handshake, a message of a mechanism or another request, in any state. It may authenticate a client."""
    rng = tools.rng
    kind = rng.randrange(8)
    if kind < 3:
        name = rng.choice((*MECHANISMS, *MECHANISMS, *_MECHANISM_NAMES))
        return tools.request(SaslHandshakeRequest(mechanism=name))
    if kind < 6:
        return _in_request(tools, sound_login(rng).first() if kind == 3 else any_login(rng).first())
    if kind == 6:
        changed = tools.changed(SaslAuthenticateRequest(auth_bytes=any_login(rng).first().data))
        return changed._replace(may_authenticate=True)
    return rng.choice((tools.ping(), tools.plausible(rng.choice(_SASL), 0.3), _raw(any_login(rng).first())))


def _create_token(tools: StoryTools) -> Frame:
    rng = tools.rng
    names = (SUPER_USER, SCRAM_USER, TOKEN_USER, HEALTHY_USER, "", "x" * 999, "x" * 1_001, "漢", "a:b")
    renewer = CreatableRenewers(
        principal_type=rng.choice(("User", "User", "", "Group")), principal_name=rng.choice(names)
    )
    owner_type, owner = rng.choice((("", ""), ("", ""), ("User", rng.choice(names)), (None, None), ("Group", "x")))
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner,
        renewers=[renewer] * rng.choice((0, 1, 2, 101)),
        max_lifetime_ms=rng.choice(_PERIODS),
    )
    return tools.request(request)


def _token_request(tools: StoryTools, mac: bytes) -> Frame:
    rng = tools.rng
    used = rng.choice((mac, mac, mac, b"", mac[:-1], mac * 100, bytes(64)))
    request: Any = rng.choice(
        (
            RenewDelegationTokenRequest(hmac=used, renew_period_ms=rng.choice(_PERIODS)),
            ExpireDelegationTokenRequest(hmac=used, expiry_time_period_ms=rng.choice(_PERIODS[2:])),
            DescribeDelegationTokenRequest(owners=rng.choice((None, []))),
        )
    )
    return tools.request(request)
