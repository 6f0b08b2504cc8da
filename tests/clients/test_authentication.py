"""The Python clients against each way of authentication: right credentials work, wrong ones are refused soon.

One node has a listener for each way. Spark's connector uses the client library (`tests/broker/spark/test_security.py`).
"""

import asyncio
import gc
import logging
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
import trio
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider

from broker.client import AuthenticationFailed, Consumer, Producer, TopicPartition
from tests.support.job_process import wait_until
from tests.support.secured_node import (
    REAUTHENTICATING,
    SESSION_S,
    WAYS,
    Credentials,
    SecuredNode,
    Way,
    create_user_and_topic,
    secured_node,
)

pytestmark = pytest.mark.clients

TOPIC = "written-from-python"
WITHIN_S = 20.0
# A refusal is known within this time, far below the clients' own timeouts of 30 to 60 s.
REFUSED_WITHIN_S = 10.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with secured_node(tmp_path_factory.mktemp("secured")) as secured:
        create_user_and_topic(secured, TOPIC)
        yield secured


def common_config(way: Way, credentials: Credentials) -> dict[str, Any]:
    """The keys that librdkafka and the client library have in common."""
    config: dict[str, Any] = {"security.protocol": way.protocol}
    if way.has_tls:
        config["ssl.ca.location"] = str(credentials.trusted)
    if credentials.key_pair is not None:
        file = str(credentials.key_pair.file)
        config |= {"ssl.certificate.location": file, "ssl.key.location": file}
    if way.mechanism:
        config["sasl.mechanism"] = way.mechanism
    if way.mechanism not in ("", "OAUTHBEARER"):
        config |= {"sasl.username": credentials.user, "sasl.password": credentials.password}
    return config


def confluent_config(servers: str, way: Way, credentials: Credentials) -> dict[str, Any]:
    config = {"bootstrap.servers": servers, "log_level": 0, **common_config(way, credentials)}
    if way.mechanism == "OAUTHBEARER":
        config["oauth_cb"] = lambda _: (credentials.token, time.time() + 3600)
    return config


def is_refusal(error: confluent_kafka.KafkaError) -> bool:
    """In TLS 1.3, a client's certificate is refused after its handshake has ended: the error is that of a transport."""
    codes = (confluent_kafka.KafkaError._SSL, confluent_kafka.KafkaError._AUTHENTICATION)
    return error.code() in codes or "SSL alert" in error.str()


def confluent_round_trip(servers: str, way: Way, credentials: Credentials, value: bytes) -> bytes | None:
    errors: list[confluent_kafka.KafkaError] = []
    offsets: list[int] = []
    config = {**confluent_config(servers, way, credentials), "error_cb": errors.append}
    producer = confluent_kafka.Producer({**config, "linger.ms": 0})
    producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, message: offsets.append(message.offset()))
    until = time.monotonic() + WITHIN_S
    while producer.flush(0.05) and time.monotonic() < until:
        for error in filter(is_refusal, errors):
            producer.purge()
            producer.flush(1)
            raise confluent_kafka.KafkaException(error)
    consumer = confluent_kafka.Consumer({**config, "group.id": "none"})
    try:
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, offsets[0])])
        message = consumer.poll(WITHIN_S)
        assert message is not None
        return message.value()
    finally:
        consumer.close()


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


def python_config(servers: str, way: Way, credentials: Credentials, tokens: Callable[[str], object]) -> dict[str, Any]:
    """The config that kafka-python and aiokafka have in common."""
    config: dict[str, Any] = {"bootstrap_servers": servers, "security_protocol": way.protocol}
    if way.has_tls:
        context = ssl.create_default_context(cafile=str(credentials.trusted))
        if credentials.key_pair is not None:
            context.load_cert_chain(credentials.key_pair.file)
        config["ssl_context"] = context
    if way.mechanism:
        config["sasl_mechanism"] = way.mechanism
    if way.mechanism == "OAUTHBEARER":
        config["sasl_oauth_token_provider"] = tokens(credentials.token)
    elif way.mechanism:
        config |= {"sasl_plain_username": credentials.user, "sasl_plain_password": credentials.password}
    return config


def kafka_python_round_trip(servers: str, way: Way, credentials: Credentials, value: bytes) -> bytes | None:
    config = {**python_config(servers, way, credentials, Tokens), "bootstrap_timeout_ms": 1_000}
    with kafka.KafkaProducer(**config) as producer:
        offset = producer.send(TOPIC, value, partition=0).get(timeout=WITHIN_S).offset
    consumer = kafka.KafkaConsumer(**config, consumer_timeout_ms=WITHIN_S * 1000)
    try:
        partition = kafka.TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        found: bytes | None = next(consumer).value
        return found
    finally:
        consumer.close()


def aiokafka_round_trip(servers: str, way: Way, credentials: Credentials, value: bytes) -> bytes | None:
    async def write_and_read() -> bytes | None:
        config = python_config(servers, way, credentials, AsyncTokens)
        producer = aiokafka.AIOKafkaProducer(**config)
        try:
            await producer.start()
            offset = (await producer.send_and_wait(TOPIC, value, partition=0)).offset
        finally:
            await producer.stop()
        async with aiokafka.AIOKafkaConsumer(**config) as consumer:
            partition = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([partition])
            consumer.seek(partition, offset)
            found: bytes | None = (await consumer.getone()).value
            return found

    return asyncio.run(asyncio.wait_for(write_and_read(), WITHIN_S))


def library_config(way: Way, credentials: Credentials) -> dict[str, Any]:
    config = common_config(way, credentials)
    if way.mechanism == "OAUTHBEARER":
        config["oauth_token"] = lambda: credentials.token
    return config


def library_round_trip(servers: str, way: Way, credentials: Credentials, value: bytes) -> bytes | None:
    async def write_and_read() -> bytes | None:
        config, partition = library_config(way, credentials), TopicPartition(TOPIC, 0)
        async with Producer(servers, config=config, linger_ms=0) as producer:
            offset = (await producer.send(TOPIC, value, partition=0)).offset
        async with Consumer(servers, config=config) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, offset)
            with trio.fail_after(WITHIN_S):
                return (await consumer.fetch())[0].value

    return trio.run(write_and_read)


CLIENTS: Mapping[str, Callable[[str, Way, Credentials, bytes], bytes | None]] = {
    "confluent-kafka": confluent_round_trip,
    "kafka-python": kafka_python_round_trip,
    "aiokafka": aiokafka_round_trip,
    "library": library_round_trip,
}
# Each client's error, and the text that its users see in the error or in the client's log, by the kind of credential.
# The log of kafka-python, which has its reasons, is off in these tests.
_PLAIN_REFUSED = "Authentication failed: Invalid username or password"
_SCRAM_REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-"
_UNABLE = "Unable to bootstrap"
REFUSALS: Mapping[str, tuple[type[Exception], Mapping[str, str]]] = {
    "confluent-kafka": (
        confluent_kafka.KafkaException,
        {
            "SSL": "certificate verify failed",
            "MTLS": "SSL alert",
            "PLAIN": _PLAIN_REFUSED,
            "SCRAM": _SCRAM_REFUSED,
            "OAUTHBEARER": "invalid_token",
        },
    ),
    "kafka-python": (
        kafka.errors.KafkaTimeoutError,
        dict.fromkeys(("SSL", "MTLS", "PLAIN", "SCRAM", "OAUTHBEARER"), _UNABLE),
    ),
    "aiokafka": (
        aiokafka.errors.KafkaConnectionError,
        {
            "SSL": "certificate verify failed",
            "MTLS": "Connection at .* closed",
            "PLAIN": _PLAIN_REFUSED,
            "SCRAM": _SCRAM_REFUSED,
            "OAUTHBEARER": _UNABLE,
        },
    ),
    "library": (
        AuthenticationFailed,
        {
            "SSL": r"certificate verify failed.*ssl\.ca\.location",
            "MTLS": "client('s)? certificate",
            "PLAIN": _PLAIN_REFUSED,
            "SCRAM": _SCRAM_REFUSED,
            "OAUTHBEARER": "invalid_token",
        },
    ),
}


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("client", CLIENTS)
def test_right_credentials_work(node: SecuredNode, client: str, way: Way) -> None:
    value = f"by {client}, {way}".encode()
    assert CLIENTS[client](node.address(way), way, node.right(way), value) == value


@pytest.fixture
def collected_garbage(few_objects: None) -> Iterator[None]:
    """Collect garbage after the test: kafka-python leaves the sockets of failed connections to the collector.

    Within the test they are still in use, and the warnings would be those of a later test.
    """
    yield
    gc.collect()


def check_refusal(
    node: SecuredNode, client: str, way: Way, credentials: Credentials, log: pytest.LogCaptureFixture
) -> None:
    log.set_level(logging.ERROR, logger="aiokafka")
    began = time.monotonic()
    refusal = refusal_of(node, client, way, credentials)
    assert time.monotonic() - began < REFUSED_WITHIN_S
    kind = (way.mechanism or way.listener).partition("-")[0]
    assert re.search(REFUSALS[client][1][kind], f"{refusal}\n{log.text}"), log.text


def refusal_of(node: SecuredNode, client: str, way: Way, credentials: Credentials) -> str:
    """The text of the error by which a client learns that its credentials are wrong."""
    with pytest.raises(REFUSALS[client][0]) as refused:
        CLIENTS[client](node.address(way), way, credentials, b"never written")
    return str(refused.value)


@pytest.mark.usefixtures("collected_garbage")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("client", CLIENTS)
def test_wrong_credentials_are_refused_soon(
    node: SecuredNode, client: str, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    check_refusal(node, client, way, node.wrong(way), caplog)


@pytest.mark.usefixtures("collected_garbage")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("client", CLIENTS)
def test_missing_certificates_are_refused_soon(
    node: SecuredNode, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_refusal(node, client, Way("MTLS"), node.right(Way("SSL")), caplog)


def test_log_of_the_node_says_why_a_client_is_refused(node: SecuredNode, caplog: pytest.LogCaptureFixture) -> None:
    check_refusal(node, "confluent-kafka", Way("SSL"), node.wrong(Way("SSL")), caplog)
    reason = "closed a connection of 127.0.0.1: the client does not trust the certificate of this listener"
    # The client knows of its refusal before the node reads the alert.
    wait_until(lambda: reason in node.node.output(), REFUSED_WITHIN_S, "the node to log the refusal")
    assert "PRIVATE KEY" not in node.node.output()


def test_librdkafka_authenticates_again_before_its_session_ends_kip_368(node: SecuredNode) -> None:
    """A connection that has ended would be an error of the producer."""
    errors: list[confluent_kafka.KafkaError] = []
    config = confluent_config(node.address(REAUTHENTICATING), REAUTHENTICATING, node.right(REAUTHENTICATING))
    producer = confluent_kafka.Producer({**config, "error_cb": errors.append, "retries": 0})
    delivered: list[confluent_kafka.KafkaError | None] = []
    until = time.monotonic() + 1.5 * SESSION_S
    while time.monotonic() < until:
        producer.produce(TOPIC, b"value", on_delivery=lambda error, message: delivered.append(error))
        producer.poll(0.02)
    assert producer.flush(10) == 0
    assert delivered
    assert not any(delivered)
    assert not errors
