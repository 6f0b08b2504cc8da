"""Other clients authenticate with OAUTHBEARER: with tokens of their own, and with those of an identity provider."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from confluent_kafka.admin import AdminClient
from kafka.net.sasl.oauth import AbstractTokenProvider

from jepsen.processes.ports import free_ports
from tests.support.identity_provider import AUDIENCE, IdentityProvider, identity_provider
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

SECURED = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER"}
WITHIN_S = 20.0
# librdkafka looks once a second whether 80 % of a token's time are over, and authenticates again after 90 % of it:
# with shorter tokens it would do so with the old one.
TOKEN_S = 8


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def servers(provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node's listener with OAUTHBEARER."""
    peers, controllers, clients = free_ports(3)
    overrides = {
        "listeners": f"PEERS://127.0.0.1:{peers},CONTROLLER://127.0.0.1:{controllers},CLIENTS://127.0.0.1:{clients}",
        "listener.security.protocol.map": "PEERS:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PEERS",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "offsets.topic.num.partitions": "1",
    }
    node = NodeProcess(tmp_path_factory.mktemp("oauth") / "data", overrides, ports=(peers, controllers))
    try:
        node.start()
        yield f"127.0.0.1:{clients}"
        node.stop()
    finally:
        node.discard()


def _confluent_configs(kind: str, provider: IdentityProvider, secret: str = "alice-secret") -> dict[str, Any]:
    if kind == "oauth_cb":
        lifetime_s = provider.lifetime_s
        text = provider.token() if secret == "alice-secret" else provider.token(aud="elsewhere")
        return {"oauth_cb": lambda config: (text, time.time() + lifetime_s)}
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
    }


@pytest.mark.parametrize("kind", ["oauth_cb", "oidc"])
def test_confluent_kafka_produces_and_consumes(servers: str, provider: IdentityProvider, topic: str, kind: str) -> None:
    config = {"bootstrap.servers": servers, **SECURED, **_confluent_configs(kind, provider)}
    producer = confluent_kafka.Producer(config)
    producer.produce(topic, b"value")
    assert producer.flush(WITHIN_S) == 0
    consumer = confluent_kafka.Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + WITHIN_S
        message = None
        while message is None and time.monotonic() < deadline:
            message = consumer.poll(1)
        assert message is not None
        assert message.value() == b"value"
    finally:
        consumer.close()


def test_confluent_kafka_authenticates_again_before_its_token_expires(
    servers: str, provider: IdentityProvider, topic: str
) -> None:
    """KIP-368: without a new token, the node would close the connection when the token expires."""
    issued = []

    def token(config: str) -> tuple[str, float]:
        issued.append(time.time())
        return provider.token(lifetime_s=TOKEN_S), time.time() + TOKEN_S

    errors: list[Any] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, **SECURED, "oauth_cb": token, "error_cb": errors.append}
    )
    expired = time.monotonic() + TOKEN_S + 0.5
    while time.monotonic() < expired:
        producer.produce(topic, b"value")
        assert producer.flush(WITHIN_S) == 0
        producer.poll(0.1)
    assert len(issued) == 2, "at the start, and before the first token expires"
    assert not errors


def test_confluent_kafka_reports_a_refused_token(servers: str, provider: IdentityProvider) -> None:
    errors: list[confluent_kafka.KafkaError] = []
    admin = AdminClient(
        {
            "bootstrap.servers": servers,
            **SECURED,
            **_confluent_configs("oauth_cb", provider, secret="wrong"),
            "error_cb": errors.append,
        }
    )
    deadline = time.monotonic() + WITHIN_S
    while not errors and time.monotonic() < deadline:
        admin.poll(0.2)
    assert errors[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
    assert "invalid_token" in errors[0].str()


class Tokens(AbstractTokenProvider):
    """A token provider of kafka-python."""

    def __init__(self, text: str) -> None:
        self._text = text

    def token(self) -> str:
        return self._text


class AsyncTokens(AsyncTokenProvider):
    """A token provider of aiokafka."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


PYTHON = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}


def test_kafka_python_produces_and_consumes(servers: str, provider: IdentityProvider, topic: str) -> None:
    config = {"bootstrap_servers": servers, **PYTHON, "sasl_oauth_token_provider": Tokens(provider.token())}
    producer = kafka.KafkaProducer(**config)
    producer.send(topic, b"value").get(WITHIN_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic, **config, auto_offset_reset="earliest", consumer_timeout_ms=WITHIN_S * 1000, group_id=topic
    )
    assert next(iter(consumer)).value == b"value"
    consumer.close()


def test_kafka_python_reports_a_refused_token(servers: str, provider: IdentityProvider) -> None:
    began = time.monotonic()
    with pytest.raises(kafka.errors.KafkaError):
        kafka.KafkaAdminClient(
            bootstrap_servers=servers,
            **PYTHON,
            sasl_oauth_token_provider=Tokens(provider.token(aud="elsewhere")),
            bootstrap_timeout_ms=5_000,
        )
    assert time.monotonic() - began < WITHIN_S


async def _aiokafka_round_trip(servers: str, text: str, topic: str) -> bytes | None:
    config = {"bootstrap_servers": servers, **PYTHON, "sasl_oauth_token_provider": AsyncTokens(text)}
    producer = aiokafka.AIOKafkaProducer(**config)
    try:
        await producer.start()
        await producer.send_and_wait(topic, b"value")
    finally:
        await producer.stop()
    async with aiokafka.AIOKafkaConsumer(topic, **config, auto_offset_reset="earliest") as consumer:
        value: bytes | None = (await consumer.getone()).value
        return value


def test_aiokafka_produces_and_consumes(servers: str, provider: IdentityProvider, topic: str) -> None:
    text = provider.token()

    async def run() -> bytes | None:
        return await asyncio.wait_for(_aiokafka_round_trip(servers, text, topic), WITHIN_S)

    assert asyncio.run(run()) == b"value"


def test_aiokafka_reports_a_refused_token(servers: str, provider: IdentityProvider, topic: str) -> None:
    text = provider.token(iss=None, aud="elsewhere")
    with pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(_aiokafka_round_trip(servers, text, topic))
