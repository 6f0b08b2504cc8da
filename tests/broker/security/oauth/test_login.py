"""A client's login: tokens by client credentials, kept, refreshed in time, and retried."""

import random
from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio

from broker.security.oauth.http_exchange import Endpoint, EndpointFailed, HttpClient
from broker.security.oauth.login import LoginRetries, TokenLogin
from broker.security.oauth.retrieved_tokens import InvalidRetrievedToken, RetrievedToken, TokenRefresh, read_token
from broker.security.oauth.token_endpoint import ClientCredentials, request_token
from tests.support.identity_provider import IdentityProvider, claims_of, identity_provider, rsa_key

HOUR_MS = 3_600_000


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


async def _request(provider: IdentityProvider, credentials: ClientCredentials) -> str:
    return await request_token(Endpoint.parse(provider.token_url), credentials, HttpClient())


async def test_client_credentials_are_exchanged_for_a_token(provider: IdentityProvider) -> None:
    token = await _request(
        provider, ClientCredentials(client_id="alice", client_secret="alice-secret", scope="read write")
    )
    assert read_token(token).expires_at_ms is not None
    assert provider.grants == [("alice", "read write")]


async def test_ids_and_secrets_may_be_url_encoded(provider: IdentityProvider) -> None:
    provider.secrets["a:b"] = "1+1 %"
    await _request(provider, ClientCredentials(client_id="a:b", client_secret="1+1 %", is_url_encoded=True))
    assert provider.grants == [("a:b", "")]


async def test_wrong_credentials_fail_for_good_and_do_not_show_the_secret(provider: IdentityProvider) -> None:
    credentials = ClientCredentials(client_id="alice", client_secret="wrong-secret")
    with pytest.raises(EndpointFailed, match="status 401: invalid_client - unknown client") as raised:
        await _request(provider, credentials)
    assert raised.value.is_permanent
    assert "wrong-secret" not in f"{raised.value} {credentials!r}"


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000.0

    def __call__(self) -> float:
        return self.now_ms


class Retriever:
    """Gives tokens of an hour; fails for as long as it is told to."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.calls = 0
        self.failure: EndpointFailed | None = None

    async def __call__(self) -> RetrievedToken:
        self.calls += 1
        await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure
        return RetrievedToken(f"token {self.calls}", int(self.clock.now_ms) + HOUR_MS)


def _login(retrieve: Callable[[], Awaitable[RetrievedToken]], clock: Clock, backoff_max_ms: float = 0) -> TokenLogin:
    retries = LoginRetries(backoff_max_ms=backoff_max_ms)
    return TokenLogin(retrieve, clock, random.Random(1), TokenRefresh(window_jitter=0), retries)


async def test_a_token_is_kept_until_its_refresh_time() -> None:
    clock = Clock()
    login = _login(retriever := Retriever(clock), clock)
    assert (await login.token()).text == "token 1"
    clock.now_ms += 0.8 * HOUR_MS - 1
    assert (await login.token()).text == "token 1"
    clock.now_ms += 1
    assert (await login.token()).text == "token 2"
    assert retriever.calls == 2


async def test_tasks_that_ask_together_share_one_request() -> None:
    clock = Clock()
    login = _login(retriever := Retriever(clock), clock)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(login.token)
    assert retriever.calls == 1


async def test_a_failed_refresh_keeps_the_valid_token_and_is_tried_again_later() -> None:
    clock = Clock()
    login = _login(retriever := Retriever(clock), clock)
    await login.token()
    clock.now_ms += 0.9 * HOUR_MS
    retriever.failure = EndpointFailed("down")
    assert (await login.token()).text == "token 1"
    assert (await login.token()).text == "token 1"
    assert retriever.calls == 2
    clock.now_ms += 10_000
    await login.token()
    assert retriever.calls == 3
    clock.now_ms += HOUR_MS
    with pytest.raises(EndpointFailed, match="down"):
        await login.token()


async def test_temporary_failures_are_retried_for_the_configured_time(autojump_clock: trio.testing.MockClock) -> None:
    clock = Clock()
    login = _login(retriever := Retriever(clock), clock, backoff_max_ms=10_000)
    retriever.failure = EndpointFailed("down")
    started = trio.current_time()
    with pytest.raises(EndpointFailed):
        await login.token()
    assert 4 < trio.current_time() - started <= 10
    assert 6 <= retriever.calls <= 8


async def test_permanent_failures_are_not_retried() -> None:
    clock = Clock()
    login = _login(retriever := Retriever(clock), clock, backoff_max_ms=10_000)
    retriever.failure = EndpointFailed("unknown client", is_permanent=True)
    with pytest.raises(EndpointFailed):
        await login.token()
    assert retriever.calls == 1


@pytest.mark.parametrize(
    ("token", "refresh", "expected"),
    [
        (RetrievedToken("x"), TokenRefresh(), None),
        (RetrievedToken("x", HOUR_MS), TokenRefresh(window_jitter=0), 0.8 * HOUR_MS),
        (RetrievedToken("x", HOUR_MS), TokenRefresh(), 0.825 * HOUR_MS),
        (RetrievedToken("x", HOUR_MS), TokenRefresh(buffer_s=1800), 0.5 * HOUR_MS),
        (RetrievedToken("x", HOUR_MS, -9 * HOUR_MS), TokenRefresh(window_jitter=0), 60_000),
        (RetrievedToken("x", 100_000), TokenRefresh(window_jitter=0), 80_000),
        (RetrievedToken("x", -5), TokenRefresh(), 0),
    ],
)
def test_refresh_times_are_those_of_kafka(token: RetrievedToken, refresh: TokenRefresh, expected: float | None) -> None:
    assert refresh.refresh_at_ms(token, 0, 0.5) == (None if expected is None else pytest.approx(expected))


def test_times_are_read_from_the_claims_of_a_token() -> None:
    text = rsa_key().sign(claims_of(iat=100, exp=200.5))
    assert read_token(f" {text}\n") == RetrievedToken(text, 200_500, 100_000)
    assert text not in repr(read_token(text))


@pytest.mark.parametrize("text", ["opaque", "a.b.c", rsa_key().sign({"exp": 10**30, "iat": True})], ids=range(3))
def test_tokens_without_readable_times_are_used_as_they_are(text: str) -> None:
    assert read_token(text) == RetrievedToken(text)


@pytest.mark.parametrize("text", ["", " ", "a b", "a\x01b", "é"])
def test_texts_that_are_no_tokens_are_refused(text: str) -> None:
    with pytest.raises(InvalidRetrievedToken):
        read_token(text)
