"""The client library with OAUTHBEARER: where its tokens come from, refusals, and authentication again (KIP-368)."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.client import (
    Admin,
    AuthenticationFailed,
    ConfigError,
    SyncAdmin,
)
from broker.security.oauth.unsecured_tokens import VALIDATOR_CLASS
from broker.security.sasl.jaas import OAUTHBEARER_MODULE
from tests.support.identity_provider import IdentityProvider, identity_provider
from tests.support.oauth_node import PREFIX, oauth_node
from tests.support.running_node import RunningNode
from tests.support.sasl import sasl_node, sasl_port

SECURED = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
# Far below all timeouts of clients: authentication that has failed is not tried again.
AT_ONCE_S = 3.0


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


def servers(node: RunningNode) -> str:
    return f"127.0.0.1:{sasl_port(node)}"


def _configs(provider: IdentityProvider, directory: Path) -> dict[str, dict[str, Any]]:
    """A config for each way to get a token."""
    expires_at_s = time.time() + 3600
    token = provider.token()
    (directory / "token").write_text(f"{token}\n")

    async def asynchronous() -> str:
        await trio.lowlevel.checkpoint()
        return token

    endpoint = {"sasl.oauthbearer.token.endpoint.url": provider.token_url}
    return {
        "function": {"oauth_token": lambda: token},
        "function with expiration": {"oauth_token": lambda: (token, expires_at_s)},
        "async function": {"oauth_token": asynchronous},
        "file": {"sasl.oauthbearer.token.endpoint.url": (directory / "token").as_uri()},
        "Java's keys": {
            **endpoint,
            "sasl.oauthbearer.client.credentials.client.id": "alice",
            "sasl.oauthbearer.client.credentials.client.secret": "alice-secret",
            "sasl.oauthbearer.scope": "read",
        },
        "JAAS": {
            **endpoint,
            "sasl.jaas.config": f'{OAUTHBEARER_MODULE} required clientId="alice" clientSecret="alice-secret" '
            'scope="write" extension_trace="1";',
        },
        "librdkafka's keys": {
            **endpoint,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "alice",
            "sasl.oauthbearer.client.secret": "alice-secret",
            "sasl.oauthbearer.extensions": "trace=1,other=2",
        },
    }


async def test_each_way_to_get_a_token_authenticates(tmp_path: Path, provider: IdentityProvider) -> None:
    async with oauth_node(tmp_path, provider.jwks_url) as node:
        for way, config in _configs(provider, tmp_path).items():
            async with Admin(servers(node), config=SECURED | config) as admin:
                assert (await admin.describe_cluster()).nodes, way
    assert provider.grants == [("alice", "read"), ("alice", "write"), ("alice", "")]


async def test_a_blocking_client_authenticates(tmp_path: Path, provider: IdentityProvider) -> None:
    async with oauth_node(tmp_path, provider.jwks_url) as node:

        def describe() -> bool:
            with SyncAdmin(servers(node), config=SECURED | {"oauth_token": provider.token}) as admin:
                return bool(admin.describe_cluster().nodes)

        assert await trio.to_thread.run_sync(describe)


async def test_a_refused_token_fails_at_once(tmp_path: Path, provider: IdentityProvider) -> None:
    config = SECURED | {"oauth_token": lambda: provider.token(aud="elsewhere")}
    async with oauth_node(tmp_path, provider.jwks_url) as node:
        with trio.fail_after(AT_ONCE_S), pytest.raises(AuthenticationFailed, match="invalid_token"):
            async with Admin(servers(node), config=config) as admin:
                await admin.describe_cluster()


@pytest.mark.parametrize("failure", ["secret", "function", "type", "characters"])
async def test_tokens_that_cannot_be_had_fail_at_once(tmp_path: Path, provider: IdentityProvider, failure: str) -> None:
    def fail() -> str:
        raise RuntimeError("no token today")

    config, message = {
        "secret": (
            {
                "sasl.oauthbearer.token.endpoint.url": provider.token_url,
                "sasl.oauthbearer.client.id": "alice",
                "sasl.oauthbearer.client.secret": "wrong-secret",
            },
            "status 401: invalid_client",
        ),
        "function": ({"oauth_token": fail}, "no token today"),
        "type": ({"oauth_token": lambda: 5}, "it returned int"),
        "characters": ({"oauth_token": lambda: "a b"}, "printable ASCII"),
    }[failure]
    async with oauth_node(tmp_path, provider.jwks_url) as node:
        with trio.fail_after(AT_ONCE_S), pytest.raises(AuthenticationFailed, match=message) as failed:
            async with Admin(servers(node), config=SECURED | config) as admin:
                await admin.describe_cluster()
    assert "wrong-secret" not in str(failed.value)


async def test_an_identity_provider_that_is_down_for_a_moment_is_asked_again(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    config = SECURED | {
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": "alice-secret",
        "sasl.login.retry.backoff.ms": 10,
    }
    provider.failing = 0
    async with oauth_node(tmp_path, provider.jwks_url) as node:
        provider.failing = 3
        async with Admin(servers(node), config=config) as admin:
            assert (await admin.describe_cluster()).nodes
    assert len(provider.grants) == 4


async def test_a_client_authenticates_again_before_its_token_expires(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    provider.lifetime_s = 3
    config = SECURED | {
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": "alice-secret",
        "sasl.login.refresh.window.jitter": 0,
    }
    async with oauth_node(tmp_path, provider.jwks_url) as node:
        async with Admin(servers(node), config=config) as admin:
            ends_at = trio.current_time() + 7
            while trio.current_time() < ends_at:
                assert (await admin.describe_cluster()).nodes
                await trio.sleep(0.1)
        assert not node.traced.of("connection_closed")
        assert not node.traced.of("authentication_failed")
    assert len(provider.grants) >= 3


async def test_unsecured_tokens_are_made_from_the_options_of_the_login_module(tmp_path: Path) -> None:
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{PREFIX}sasl.server.callback.handler.class": VALIDATOR_CLASS,
    }
    module = f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="alice";'
    config = SECURED | {"sasl.jaas.config": module}
    async with sasl_node(tmp_path, **settings) as node, Admin(servers(node), config=config) as admin:
        assert (await admin.describe_cluster()).nodes


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "needs one source of tokens"),
        ({"oauth_token": str, "sasl.oauthbearer.token.endpoint.url": "http://x/"}, "needs one source of tokens"),
        ({"oauth_token": "token"}, "must be a function"),
        ({"sasl.oauthbearer.token.endpoint.url": "http://x/"}, r"needs sasl\.oauthbearer\.client\.credentials"),
        ({"sasl.oauthbearer.token.endpoint.url": "x"}, "cannot be used"),
        ({"oauth_token": str, "sasl.oauthbearer.extensions": "auth=1"}, "Extension name auth"),
        ({"sasl.jaas.config": f'{OAUTHBEARER_MODULE} required unsecuredLoginX="1";'}, "makes no token"),
        ({"sasl.jaas.config": "nonsense"}, r"sasl\.jaas\.config is invalid"),
    ],
)
async def test_configs_that_give_no_tokens_are_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        async with Admin("127.0.0.1:1", config=SECURED | config):
            pass
