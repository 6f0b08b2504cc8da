"""OAUTHBEARER on a node: tokens are validated with the keys of an identity provider (KIP-255, KIP-768)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.node import Node
from broker.security.oauth.unsecured_tokens import VALIDATOR_CLASS, make_unsecured_token
from broker.security.sasl.jaas import OAUTHBEARER_MODULE
from broker.security.sasl.oauthbearer import OAuthBearerClient
from broker.wire.api.metadata import MetadataRequest
from broker.wire.api.sasl_authenticate import SaslAuthenticateRequest
from broker.wire.errors import ErrorCode
from kraft.env import real_env
from metadata.configuration import InvalidConfig
from tests.support.identity_provider import (
    IdentityProvider,
    SigningKey,
    claims_of,
    encoded,
    identity_provider,
    jwks,
    rsa_key,
)
from tests.support.oauth_node import PREFIX, oauth_node
from tests.support.running_node import node_config
from tests.support.sasl import LISTENERS, handshake, sasl_node, sasl_port
from tests.support.wire_client import WireClient, connected

FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
INVALID = '{"status": "invalid_token"}'


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


async def authenticate(client: WireClient, token: str) -> Any:
    """The last response of an authentication."""
    assert (await handshake(client, "OAUTHBEARER")).error_code == 0
    exchange = OAuthBearerClient(token)
    message: bytes | None = exchange.first()
    while True:
        response = await client.call(SaslAuthenticateRequest(auth_bytes=message), 2)
        if response.error_code or (message := exchange.answer(bytes(response.auth_bytes))) is None:
            return response


async def test_a_valid_token_authenticates_until_it_expires(tmp_path: Path, provider: IdentityProvider) -> None:
    async with oauth_node(tmp_path, provider.jwks_url) as node, connected(sasl_port(node)) as client:
        response = await authenticate(client, provider.token(lifetime_s=100))
        assert response.error_code == 0
        assert 90_000 < response.session_lifetime_ms <= 100_000
        assert (await client.call(MetadataRequest(), 12)).brokers


async def test_sessions_end_with_their_tokens_and_new_tokens_prolong_them(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    async with oauth_node(tmp_path, provider.jwks_url) as node, connected(sasl_port(node)) as client:
        await authenticate(client, provider.token(lifetime_s=1.5))
        response = await authenticate(client, provider.token(lifetime_s=3))
        assert response.error_code == 0
        await trio.sleep(1.6)
        assert (await client.call(MetadataRequest(), 12)).brokers
        await trio.sleep(1.5)
        await client.send(MetadataRequest(), 12)
        await client.expect_close()


def _refused_tokens(provider: IdentityProvider) -> dict[str, tuple[str, str]]:
    """Tokens that a node refuses, and parts of the reasons in its log."""
    forged = SigningKey(rsa_key("other").private, "RS256", "first")
    unsigned = f"{encoded({'alg': 'none', 'kid': 'first'})}.{encoded(claims_of())}."
    return {
        "expired": (provider.token(lifetime_s=-31), "the token expired"),
        "early": (provider.token(nbf=claims_of()["exp"]), "not valid for another"),
        "audience": (provider.token(aud="elsewhere"), "audience is 'elsewhere'"),
        "issuer": (provider.token(iss="https://evil.example"), "issuer is 'https://evil.example'"),
        "subject": (provider.token(sub=None), "no claim sub"),
        "signature": (forged.sign(claims_of()), "Signature verification failed"),
        "key": (rsa_key("other").sign(claims_of()), "no key with the id 'other'"),
        "algorithm": (unsigned, "the algorithm 'none'"),
        "opaque": ("opaque", "three parts"),
        "size": (provider.token(roles="x" * 70_000), "at most 65536"),
    }


async def test_other_tokens_are_refused_with_reasons_in_the_log_only(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    async with oauth_node(tmp_path, provider.jwks_url) as node:
        for name, (token, reason) in _refused_tokens(provider).items():
            node.traced.events.clear()
            async with connected(sasl_port(node)) as client:
                response = await authenticate(client, token)
                assert (response.error_code, response.error_message) == (FAILED, INVALID), name
                await client.expect_close()
            [event] = node.traced.of("authentication_failed")
            assert reason in event["reason"], name
            assert token not in str(node.traced.events)


async def test_new_keys_of_the_identity_provider_are_read_for_a_token_with_an_unknown_key(
    tmp_path: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.security.oauth.key_source.UNKNOWN_KEY_REFRESH_S", 0)
    async with oauth_node(tmp_path, provider.jwks_url) as node:
        provider.keys = [rsa_key("second")]
        async with connected(sasl_port(node)) as client:
            assert (await authenticate(client, provider.token())).error_code == FAILED
        with trio.fail_after(10):
            while len(node.traced.of("token_keys_read")) < 2:
                await trio.sleep(0.01)
        async with connected(sasl_port(node)) as client:
            assert (await authenticate(client, provider.token())).error_code == 0


async def test_a_node_starts_without_its_identity_provider_and_reads_the_keys_when_they_are_there(
    tmp_path: Path,
) -> None:
    keys = tmp_path / "keys.json"
    overrides = {"sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": 10}
    async with oauth_node(tmp_path, keys.as_uri(), **overrides) as node:
        token = rsa_key().sign(claims_of())
        async with connected(sasl_port(node)) as client:
            assert (await authenticate(client, token)).error_code == FAILED
        assert "cannot be read" in node.traced.of("token_keys_not_read")[0]["reason"]
        keys.write_bytes(jwks(rsa_key()))
        with trio.fail_after(15):
            while not node.traced.of("token_keys_read"):
                await trio.sleep(0.01)
        async with connected(sasl_port(node)) as client:
            assert (await authenticate(client, token)).error_code == 0


async def test_unsecured_tokens_are_accepted_where_kafkas_class_for_them_is_named(tmp_path: Path) -> None:
    module = f'{OAUTHBEARER_MODULE} required unsecuredValidatorRequiredScope="write";'
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{PREFIX}sasl.server.callback.handler.class": VALIDATOR_CLASS,
        f"{PREFIX}sasl.jaas.config": module,
    }
    options = {"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginStringClaim_scope": "write"}
    now_ms = int(real_env(lambda kind, /, **fields: None).wall() * 1000)
    async with sasl_node(tmp_path, **settings) as node:
        async with connected(sasl_port(node)) as client:
            assert (await authenticate(client, make_unsecured_token(options, now_ms))).error_code == 0
        del options["unsecuredLoginStringClaim_scope"]
        async with connected(sasl_port(node)) as client:
            response = await authenticate(client, make_unsecured_token(options, now_ms))
        assert response.error_message == '{"status": "insufficient_scope", "scope": "[write]"}'


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"jwks\.endpoint\.url is not set: .* unsigned tokens"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://x"}, r"jwks\.endpoint\.url cannot be used: the URL begins with"),
        ({f"{PREFIX}sasl.server.callback.handler.class": "com.example.Handler"}, "names a Java class"),
        ({"sasl.oauthbearer.jwt.validator.class": "com.example.Validator"}, "names a Java class"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///x", "sasl.oauthbearer.sub.claim.name": " "}, "not be empty"),
        (
            {"sasl.oauthbearer.jwks.endpoint.url": "file:///x", "sasl.oauthbearer.expected.issuer": "i"},
            r"expected\.audience is not set.* set sasl\.oauthbearer\.allow\.unverified\.audience to true",
        ),
        (
            {
                "sasl.oauthbearer.jwks.endpoint.url": "file:///x",
                "sasl.oauthbearer.allow.unverified.audience": "true",
            },
            r"expected\.issuer is not set",
        ),
        (
            {
                f"{PREFIX}sasl.server.callback.handler.class": VALIDATOR_CLASS,
                f"{PREFIX}sasl.jaas.config": f"{OAUTHBEARER_MODULE} required "
                'unsecuredValidatorAllowableClockSkewMs="x";',
            },
            "not a number of milliseconds",
        ),
    ],
)
def test_configurations_that_cannot_validate_tokens_are_refused(
    tmp_path: Path, settings: dict[str, str], message: str
) -> None:
    config = node_config(tmp_path, **{**LISTENERS, "sasl.enabled.mechanisms": "OAUTHBEARER", **settings})
    with pytest.raises(InvalidConfig, match=message):
        Node(real_env(lambda kind, /, **fields: None), config)
