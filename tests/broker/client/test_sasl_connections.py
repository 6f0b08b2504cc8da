"""The client library against listeners with SASL: right and wrong credentials, and authentication again (KIP-368)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.client import (
    Admin,
    AuthenticationFailed,
    ConfigError,
    Consumer,
    Producer,
    ScramDeletion,
    ScramMechanism,
    TimedOut,
    TopicPartition,
)
from broker.client.sasl_login import SaslLogin
from broker.security.sasl.exchange import ClientExchange
from broker.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from broker.security.sasl.plain import PlainClient
from broker.wire.api.sasl_authenticate import SaslAuthenticateResponse
from broker.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.certificates import TestAuthority
from tests.support.running_node import RunningNode
from tests.support.sasl import MECHANISMS, PASSWORD, USER, sasl_node, sasl_port
from tests.support.scripted_node import scripted_node

# Far below all timeouts of clients: authentication that has failed is not tried again.
AT_ONCE_S = 2.0
JAAS_PASSWORD = PASSWORD.replace('"', '\\"')


def settings(mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, object]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def servers(node: RunningNode) -> str:
    return f"127.0.0.1:{sasl_port(node)}"


@pytest.mark.parametrize(
    "config",
    [
        {
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'{SCRAM_MODULE} required username="{USER}" password="{JAAS_PASSWORD}";',
        },
        {
            "sasl.mechanisms": "PLAIN",
            "sasl.jaas.config": f'{PLAIN_MODULE} required username="{USER}" password="{JAAS_PASSWORD}";',
        },
    ],
)
async def test_keys_of_java_and_of_librdkafka(tmp_path: Path, config: Mapping[str, object]) -> None:
    config = {"security.protocol": "SASL_PLAINTEXT", **config}
    async with sasl_node(tmp_path) as node, Admin(servers(node), config=config) as admin:
        assert (await admin.describe_cluster()).nodes


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_wrong_password_fails_at_once_with_the_brokers_reason(tmp_path: Path, mechanism: str) -> None:
    async with sasl_node(tmp_path) as node:
        with trio.fail_after(AT_ONCE_S), pytest.raises(AuthenticationFailed) as failed:
            async with Admin(servers(node), config=settings(mechanism, password="wrong")) as admin:
                await admin.describe_cluster()
        assert f"the broker refuses the credentials for {mechanism}: Authentication failed" in str(failed.value)
        assert "wrong" not in str(failed.value)
        assert len(node.traced.of("authentication_failed")) == 1


async def test_producers_and_consumers_fail_at_once(tmp_path: Path) -> None:
    async with sasl_node(tmp_path) as node:
        config = settings("PLAIN", password="wrong")
        with trio.fail_after(AT_ONCE_S), pytest.raises(AuthenticationFailed):
            async with Producer(servers(node), config=config) as producer:
                await producer.send("t", b"value")
        with trio.fail_after(AT_ONCE_S), pytest.raises(AuthenticationFailed):
            await fetch_one(servers(node), config)


async def test_mechanism_that_the_broker_does_not_offer(tmp_path: Path) -> None:
    async with sasl_node(tmp_path, **{"sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN"}) as node:
        with trio.fail_after(AT_ONCE_S), pytest.raises(AuthenticationFailed, match="it offers: SCRAM-SHA-512, PLAIN"):
            async with Admin(servers(node), config=settings("SCRAM-SHA-256")) as admin:
                await admin.describe_cluster()


async def test_listener_without_sasl(tmp_path: Path) -> None:
    async with sasl_node(tmp_path) as node:
        with trio.fail_after(AT_ONCE_S), pytest.raises(AuthenticationFailed, match="listener has no SASL"):
            async with Admin(f"127.0.0.1:{node.port}", config=settings("PLAIN")) as admin:
                await admin.describe_cluster()


async def test_client_that_does_not_authenticate_is_told_of_sasl(tmp_path: Path) -> None:
    async with sasl_node(tmp_path) as node:
        with pytest.raises(TimedOut, match="as SASL ports do; this client does not authenticate"):
            async with Admin(servers(node), default_api_timeout_ms=1_000) as admin:
                await admin.describe_cluster()


async def test_client_without_the_certificate_that_a_sasl_listener_asks_for_kip_684(
    tmp_path: Path,
) -> None:
    authority = TestAuthority(tmp_path / "authority")
    configs = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_SSL",
        "listener.name.clients.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node", "127.0.0.1").file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
    }
    async with sasl_node(tmp_path, **configs) as node:
        config = {**settings("PLAIN"), "security.protocol": "SASL_SSL", "ssl.ca.location": str(authority.file)}
        with trio.fail_after(AT_ONCE_S), pytest.raises(AuthenticationFailed, match="asks for a client certificate"):
            async with Admin(servers(node), config=config) as admin:
                await admin.describe_cluster()


async def test_client_authenticates_again_without_losing_requests_kip_368(tmp_path: Path) -> None:
    """Each session lasts 1.2 s; the load goes on for several of them, with requests in flight all the time."""
    async with sasl_node(tmp_path, **{"connections.max.reauth.ms": 1_200}) as node:
        async with Producer(servers(node), config=settings("SCRAM-SHA-256"), linger_ms=0, retries=0) as producer:
            until, sent = trio.current_time() + 4, 0
            async with trio.open_nursery() as nursery:
                while trio.current_time() < until:
                    nursery.start_soon(producer.send, "t", b"value")
                    sent += 1
                    await trio.sleep(0.002)
        async with Consumer(f"127.0.0.1:{node.port}", auto_offset_reset="earliest") as consumer:
            [end] = (await consumer.end_offsets([TopicPartition("t", 0)])).values()
        assert end == sent
        assert not node.traced.of("connection_closed")
        assert not node.traced.of("authentication_failed")


async def test_user_that_is_removed_is_refused_at_the_next_authentication_kip_368(tmp_path: Path) -> None:
    async with (
        sasl_node(tmp_path, **{"connections.max.reauth.ms": 1_200}) as node,
        Admin(servers(node), config=settings("SCRAM-SHA-512")) as client,
        Admin(f"127.0.0.1:{node.port}") as admin,
    ):
        assert (await client.describe_cluster()).nodes
        deletion = ScramDeletion(USER, ScramMechanism.SCRAM_SHA_512)
        (await admin.alter_user_scram_credentials([deletion])).raise_first()
        # The client may ask over its connection, which it authenticates again, or over a new one.
        with trio.fail_after(5), pytest.raises(AuthenticationFailed, match="authentication due to invalid"):
            await describe_again_and_again(client)


async def describe_again_and_again(client: Admin) -> None:
    while True:
        await trio.sleep(0.1)
        await client.describe_cluster()


async def fetch_one(address: str, config: Mapping[str, object]) -> None:
    async with Consumer(address, config=config) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        await consumer.fetch()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "needs sasl.mechanism: one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI is not supported"),
        ({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "SCRAM-SHA-256"}, "two names of one key"),
        ({"sasl.mechanism": "PLAIN"}, "needs sasl.username and sasl.password, or sasl.jaas.config"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "needs sasl.username and sasl.password"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.jaas.config": f"{PLAIN_MODULE} required;"},
            "two ways to give credentials",
        ),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "hunter2"}, "sasl.jaas.config is invalid: "),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{PLAIN_MODULE} required;"},
            "no option username or password",
        ),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "\ud800"}, "UTF-8 does not have"),
        ({"sasl.mechanism": "PLAIN", "sasl.password": b"hunter2"}, "sasl.password must be a string, not a bytes"),
        ({"sasl.kerberos.service.name": "kafka"}, "this client has no GSSAPI"),
    ],
)
async def test_configs_that_cannot_be_used(config: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        async with Admin("127.0.0.1:1", config={"security.protocol": "SASL_PLAINTEXT", **config}):
            pass
    assert "hunter2" not in str(refused.value)


async def test_session_counts_from_the_message_whose_response_is_late(jumping_clock: MockClock) -> None:
    """A broker's session begins before its response arrives: the client has to authenticate again before it ends."""
    late_s, lifetime_s = 3.0, 10.0

    async def script(request: Any) -> object:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        await trio.sleep(late_s)
        return SaslAuthenticateResponse(error_message=None, session_lifetime_ms=int(lifetime_s * 1000))

    async def start() -> ClientExchange:
        return PlainClient(USER, PASSWORD)

    async with scripted_node(script) as node, await trio.open_tcp_stream("127.0.0.1", node.port) as stream:
        began = trio.current_time()
        again_at = await SaslLogin(start, lambda: 1.0).authenticate(stream, "client")
    assert late_s < again_at - began < lifetime_s
