"""Clients of a node that speaks TLS: Java's keys and librdkafka's, and errors that do not wait for a timeout."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.client import (
    Admin,
    AuthenticationFailed,
    ConfigError,
    Consumer,
    NewTopic,
    Producer,
    SyncAdmin,
    SyncProducer,
    TopicPartition,
)
from broker.client.config import ClientConfig, read_config
from tests.support.certificates import Identity, TestAuthority
from tests.support.running_node import RunningNode, running_node

# Every refusal is known long before any timeout of a client (30 s for a request, 60 s for a call).
WITHIN_S = 5
SSL = {"security.protocol": "SSL"}


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path / "certificates")


@pytest.fixture
def alice(authority: TestAuthority) -> Identity:
    return authority.issue("alice")


@pytest.fixture
async def node(tmp_path: Path, authority: TestAuthority) -> AsyncIterator[RunningNode]:
    """A node with a listener for anonymous clients and one that asks for certificates."""
    identity = authority.issue("node", "127.0.0.1")
    configs = {
        "listeners": "SECURE://127.0.0.1:0,MUTUAL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "SECURE:SSL,MUTUAL:SSL,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(identity.file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "listener.name.mutual.ssl.client.auth": "required",
    }
    async with running_node(tmp_path, **configs) as running:
        yield running
        assert not running.traced.of("handler_failed")


async def round_trip(address: str, config: dict[str, object]) -> list[bytes | None]:
    """Writes a record and reads the topic."""
    with trio.fail_after(20):
        async with Admin(address, config=config) as admin:
            await admin.create_topics([NewTopic("orders", 1)])
        async with Producer(address, config=config) as producer:
            await producer.send("orders", b"value")
        async with Consumer(address, config={"auto.offset.reset": "earliest", **config}) as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            return [record.value for record in await consumer.fetch(timeout_s=10)]


async def test_javas_keys(node: RunningNode, authority: TestAuthority, alice: Identity) -> None:
    config = {
        **SSL,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(alice.file),
        "ssl.enabled.protocols": "TLSv1.3",
    }
    assert await round_trip(f"127.0.0.1:{node.port_of('MUTUAL')}", config) == [b"value"]


async def test_javas_keys_with_certificates_inline(
    node: RunningNode, authority: TestAuthority, alice: Identity
) -> None:
    config = {
        **SSL,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.pem,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": alice.key,
        "ssl.keystore.certificate.chain": alice.chain,
        "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    }
    assert await round_trip(f"127.0.0.1:{node.port_of('MUTUAL')}", config) == [b"value"]


async def test_librdkafkas_keys(node: RunningNode, authority: TestAuthority, alice: Identity) -> None:
    config = {
        **SSL,
        "ssl.ca.location": str(authority.file),
        "ssl.certificate.location": str(alice.file),
        "ssl.key.location": str(alice.file),
    }
    assert await round_trip(f"127.0.0.1:{node.port_of('MUTUAL')}", config) == [b"value"]


async def test_librdkafkas_keys_with_certificates_inline(
    node: RunningNode, authority: TestAuthority, alice: Identity
) -> None:
    config = {
        **SSL,
        "ssl.ca.pem": authority.pem,
        "ssl.certificate.pem": alice.chain,
        "ssl.key.pem": alice.key,
    }
    assert await round_trip(f"127.0.0.1:{node.port_of('MUTUAL')}", config) == [b"value"]


async def test_certificate_of_the_broker_is_not_verified_on_request(node: RunningNode) -> None:
    config = {**SSL, "enable.ssl.certificate.verification": "false"}
    assert await round_trip(f"127.0.0.1:{node.port_of('SECURE')}", config) == [b"value"]


async def test_name_of_the_host_is_not_compared_on_request(tmp_path: Path, authority: TestAuthority) -> None:
    other = authority.issue("other", "other.example")
    configs = {
        "listeners": "SECURE://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "SECURE:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SECURE",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(other.file),
        "ssl.endpoint.identification.algorithm": " ",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
    }
    async with running_node(tmp_path, **configs) as node:
        address = f"127.0.0.1:{node.port_of('SECURE')}"
        trust = {**SSL, "ssl.ca.location": str(authority.file)}
        with pytest.raises(AuthenticationFailed, match="mismatch"):
            await round_trip(address, trust)
        assert await round_trip(address, {**trust, "ssl.endpoint.identification.algorithm": "none"}) == [b"value"]


@pytest.mark.parametrize(
    ("listener", "config", "reason"),
    [
        ("SECURE", SSL, r"certificate verify failed: .*ssl\.ca\.location"),
        ("PLAINTEXT", {**SSL, "enable.ssl.certificate.verification": "false"}, "a PLAINTEXT port answers"),
        ("MUTUAL", {**SSL, "enable.ssl.certificate.verification": "false"}, "asks for a client certificate"),
    ],
    ids=["untrusted", "plaintext", "no-certificate"],
)
async def test_refusals_are_known_at_once_by_every_client(
    node: RunningNode, listener: str, config: dict[str, object], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"127.0.0.1:{node.port_of(listener)}"

    async def send() -> None:
        async with Producer(address, config=config) as producer:
            await producer.send("orders", b"value")

    async def fetch() -> None:
        async with Consumer(address, config=config) as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            await consumer.fetch()

    async def poll() -> None:
        async with Consumer(address, config={**config, "group.id": "readers"}) as consumer:
            consumer.subscribe(["orders"])
            await consumer.fetch()

    async def administer() -> None:
        async with Admin(address, config=config) as admin:
            await admin.list_topics()

    def block() -> None:
        with SyncAdmin(address, config=config) as admin:
            admin.list_topics()

    async def administer_blocking() -> None:
        await trio.to_thread.run_sync(block)

    for use in (send, fetch, poll, administer, administer_blocking):
        with trio.fail_after(WITHIN_S), pytest.raises(AuthenticationFailed, match=reason):
            await use()
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 5


async def test_blocking_client_writes_over_tls(node: RunningNode, authority: TestAuthority) -> None:
    def write() -> int:
        address = f"127.0.0.1:{node.port_of('SECURE')}"
        with SyncProducer(address, security_protocol="SSL", ssl_ca_location=str(authority.file)) as producer:
            return producer.send("orders", b"value").offset

    assert await trio.to_thread.run_sync(write) == 0


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"ssl.ca.location": "/no/such"}, r"ssl\.ca\.location=/no/such cannot be read: No such file"),
        ({"ssl.certificate.location": "x"}, r"ssl\.certificate\.location and ssl\.key\.location"),
        ({"ssl.ca.pem": "x"}, r"ssl\.ca: At least one certificate expected, but none found"),
        ({"ssl.ca.pem": "x", "ssl.truststore.location": "y"}, "two ways to give trusted authorities"),
        ({"ssl.truststore.certificates": "x"}, "SSL trust store certs can be specified only for PEM"),
        ({"ssl.keystore.location": "x"}, "SSL key store is specified, but key store password is not specified"),
        ({"ssl.enabled.protocols": "SSLv3"}, "SSLv3 is no version of TLS"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "must be https, none or empty, not ldaps"),
    ],
)
async def test_unusable_configs_are_refused_before_a_client_connects(config: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        async with Producer("127.0.0.1:1", config={**SSL, **config}):
            pass


def test_representation_of_a_config_shows_no_secret() -> None:
    keys = ["ssl.key.password", "ssl.keystore.password", "ssl.truststore.password", "ssl.key.pem", "ssl.keystore.key"]
    assert "s3cret" not in repr(read_config(ClientConfig, "a:1", dict.fromkeys(keys, "s3cret")))
