"""Keys are fetched over HTTP or from a file, again after a time, after failures, and for unknown keys."""

import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from broker.security.oauth.claims import ClaimRules
from broker.security.oauth.http_exchange import (
    RESPONSE_BYTES_MAX,
    Endpoint,
    EndpointFailed,
    HttpClient,
    HttpTimeouts,
)
from broker.security.oauth.key_set import KeySet, UnknownKey
from broker.security.oauth.key_source import UNKNOWN_KEY_REFRESH_S, KeySource, RefreshTimes
from broker.security.oauth.token_validator import TokenValidator
from broker.security.sasl.exchange import InvalidToken
from tests.support.certificates import TestAuthority
from tests.support.identity_provider import AUDIENCE, IdentityProvider, claims_of, identity_provider, jwks, rsa_key


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


class Fetches:
    """The outcomes of a source's attempts."""

    def __init__(self) -> None:
        self.send, self.receive = trio.open_memory_channel[KeySet | str](100)

    def add(self, outcome: KeySet | str) -> None:
        self.send.send_nowait(outcome)

    async def next(self) -> KeySet | str:
        with trio.fail_after(10):
            return await self.receive.receive()


@asynccontextmanager
async def running_source(url: str, **times: float) -> AsyncIterator[tuple[KeySource, Fetches]]:
    fetches = Fetches()
    source = KeySource(Endpoint.parse(url), HttpClient(), RefreshTimes(**times), random.Random(1), fetches.add)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.run)
        yield source, fetches
        nursery.cancel_scope.cancel()


def validator_of(source: KeySource) -> TokenValidator:
    return TokenValidator(ClaimRules(audiences=(AUDIENCE,)), source, lambda: time.time_ns() // 1_000_000)


async def test_tokens_are_validated_once_the_keys_are_fetched(provider: IdentityProvider) -> None:
    async with running_source(provider.jwks_url) as (source, fetches):
        with pytest.raises(InvalidToken, match=r"no keys were read yet from http://127\.0\.0\.1"):
            validator_of(source).validate(provider.token())
        assert isinstance(await fetches.next(), KeySet)
        assert validator_of(source).validate(provider.token()).user == "alice"


async def test_keys_are_refreshed_and_removed_keys_verify_no_longer(provider: IdentityProvider) -> None:
    async with running_source(provider.jwks_url, refresh_ms=20) as (source, fetches):
        await fetches.next()
        old = provider.token()
        provider.keys = [rsa_key("second")]
        while source.keys is None or "second" not in source.keys.keys:
            await fetches.next()
        with pytest.raises(UnknownKey):
            validator_of(source).validate(old)
        assert validator_of(source).validate(provider.token()).user == "alice"


async def test_an_unknown_key_refreshes_the_keys_at_most_every_ten_seconds(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(jwks(rsa_key()))
    async with running_source(path.as_uri()) as (source, fetches):
        await fetches.next()
        path.write_bytes(jwks(rsa_key("second")))
        token = rsa_key("second").sign(claims_of())
        await trio.sleep(UNKNOWN_KEY_REFRESH_S - 1)
        with pytest.raises(UnknownKey):
            validator_of(source).validate(token)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(UnknownKey):
            validator_of(source).validate(token)
        await trio.sleep(1)
        with pytest.raises(UnknownKey):
            validator_of(source).validate(token)
        await fetches.next()
        assert validator_of(source).validate(token).user == "alice"


async def test_failed_fetches_are_retried_and_old_keys_stay_in_use(provider: IdentityProvider) -> None:
    async with running_source(provider.jwks_url, refresh_ms=10, retry_backoff_ms=1) as (source, fetches):
        await fetches.next()
        provider.failing = 3
        failures = []
        while len(failures) < 3:
            if isinstance(outcome := await fetches.next(), str):
                failures.append(outcome)
                assert validator_of(source).validate(provider.token()).user == "alice"
        assert set(failures) == {f"{provider.jwks_url} answers with the status 503"}
        assert isinstance(await fetches.next(), KeySet)


async def test_pauses_after_failures_grow_to_their_bound(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    times = []
    async with running_source((tmp_path / "none").as_uri(), retry_backoff_ms=100, retry_backoff_max_ms=1000) as (
        _,
        fetches,
    ):
        for _ in range(8):
            assert "cannot be read: No such file" in str(await fetches.next())
            times.append(trio.current_time())
    pauses = [after - before for before, after in pairwise(times)]
    for pause, expected in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1, 1, 1], strict=True):
        assert 0.8 * expected <= pause <= 1.2 * expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "printable"),
        ("http://a b", "printable"),
        ("http://a\nHost: b", "printable"),
        ("ftp://host/", "begins with http"),
        ("http://", "begins with http"),
        ("host:80", "begins with http"),
        ("http://host:99999/", "malformed"),
        ("http://[::1/", "malformed"),
        ("http://user:secret@host/", "credentials have configs"),
        ("file://host/path", "file:///path"),
        ("file:path", "file:///path"),
    ],
)
def test_urls_that_cannot_be_used_are_refused_without_repeating_them(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        Endpoint.parse(url)
    assert "secret" not in str(raised.value)


def test_urls_are_split() -> None:
    assert Endpoint.parse("https://idp.example/a/b?c=d") == Endpoint("https", "idp.example", 443, "/a/b?c=d")
    assert Endpoint.parse("http://[::1]:8080") == Endpoint("http", "::1", 8080, "/")
    assert Endpoint.parse("file:///a%20b") == Endpoint("file", "", 0, "/a b")
    assert str(Endpoint.parse("https://idp.example/a?secret=1")) == "https://idp.example:443/a"


async def _answer_once(answer: bytes, read_s: float = 10) -> tuple[int, bytes]:
    """The response of a client to a server that sends these bytes."""

    async def serve(stream: trio.SocketStream) -> None:
        try:
            await stream.receive_some(1000)
            await stream.send_all(answer)
            if not answer:
                await trio.sleep_forever()
        except trio.BrokenResourceError:
            pass

    outcome: tuple[int, bytes] | EndpointFailed
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        port = listeners[0].socket.getsockname()[1]
        client = HttpClient(HttpTimeouts(read_s=read_s))
        try:
            outcome = await client.request(Endpoint.parse(f"http://127.0.0.1:{port}/"), {})
        except EndpointFailed as error:
            outcome = error
        nursery.cancel_scope.cancel()
    if isinstance(outcome, EndpointFailed):
        raise outcome
    return outcome


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"nonsense\r\n\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"x" * 200_000, "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (RESPONSE_BYTES_MAX + 1), "more than 1048576 bytes"),
    ],
    ids=["nonsense", "short", "headers", "large"],
)
async def test_answers_that_are_no_documents_are_refused(answer: bytes, message: str) -> None:
    with pytest.raises(EndpointFailed, match=message):
        await _answer_once(answer)


async def test_a_silent_server_is_given_up() -> None:
    with pytest.raises(EndpointFailed, match="does not answer in time"):
        await _answer_once(b"", 0.05)


async def test_redirects_are_not_followed() -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    assert await _answer_once(answer) == (302, b"")


async def test_a_port_that_nothing_listens_on_cannot_be_reached() -> None:
    with pytest.raises(EndpointFailed, match="cannot be reached"):
        await HttpClient().request(Endpoint.parse("http://127.0.0.1:1/"), {})


@pytest.mark.parametrize("trusts", [True, False])
async def test_an_https_endpoint_has_to_show_a_trusted_certificate(tmp_path: Path, trusts: bool) -> None:
    authority = TestAuthority(tmp_path / "own", "own")
    server_context = authority.server_context(authority.issue("localhost"))
    client_context = (authority if trusts else TestAuthority(tmp_path / "other", "other")).client_context()
    body = jwks(rsa_key())

    async def serve(stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, server_context, server_side=True, https_compatible=True)
        with suppress(trio.BrokenResourceError):
            await secured.receive_some(1000)
            await secured.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    found: bytes | str
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        endpoint = Endpoint.parse(f"https://localhost:{listeners[0].socket.getsockname()[1]}/")
        try:
            _, found = await HttpClient(make_context=lambda: client_context).request(endpoint, {})
        except EndpointFailed as error:
            found = str(error)
        nursery.cancel_scope.cancel()
    if trusts:
        assert found == body
    else:
        assert "cannot be reached" in str(found)
        assert "certificate verify failed" in str(found)
