"""Other clients over TLS with certificates of their own: right and wrong ones, and how soon they are refused."""

import asyncio
import gc
import ssl
import time
from collections.abc import Callable, Iterator, Mapping

import attrs
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from tests.support.certificates import Identity, TestAuthority
from tests.support.job_process import wait_until
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

# A refusal is known within this time, far below the clients' own timeouts of 30 to 60 s.
REFUSED_WITHIN_S = 10.0
VALUES = [b"first", b"second"]


@attrs.frozen
class Site:
    """A node that takes clients with certificates of `authority` only."""

    bootstrap: str
    authority: TestAuthority
    stranger: TestAuthority
    alice: Identity
    mallory: Identity
    output: Callable[[], str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("tls")
    authority = TestAuthority(directory / "certificates")
    stranger = TestAuthority(directory / "certificates", "stranger")
    configs = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node", "127.0.0.1", "localhost").file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
    }
    node = NodeProcess(directory / "data", configs)
    try:
        node.start()
        yield Site(
            node.bootstrap,
            authority,
            stranger,
            authority.issue("alice"),
            stranger.issue("mallory"),
            lambda: node.output_path.read_text(),
        )
        node.stop()
    finally:
        node.discard()


def confluent_config(site: Site, trusted: TestAuthority, identity: Identity | None) -> dict[str, str]:
    config = {
        "bootstrap.servers": site.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(trusted.file),
        "log_level": "0",
    }
    if identity is not None:
        config |= {"ssl.certificate.location": str(identity.file), "ssl.key.location": str(identity.file)}
    return config


def test_confluent_kafka_writes_and_reads(site: Site, topic: str) -> None:
    config = confluent_config(site, site.authority, site.alice)
    producer = Producer(config)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(20) == 0
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    deadline = time.monotonic() + 30
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    assert found == VALUES


def wrong_credentials(site: Site) -> Mapping[str, tuple[TestAuthority, Identity | None]]:
    return {
        "an authority that the client does not know": (site.stranger, site.alice),
        "no certificate": (site.authority, None),
        "a certificate of another authority": (site.authority, site.mallory),
    }


WRONG = ("an authority that the client does not know", "no certificate", "a certificate of another authority")


@pytest.mark.parametrize("wrong", WRONG)
def test_confluent_kafka_is_refused_soon(site: Site, wrong: str) -> None:
    errors: list[KafkaError] = []
    began = time.monotonic()
    config = confluent_config(site, *wrong_credentials(site)[wrong])
    admin = AdminClient({**config, "error_cb": errors.append})
    # In TLS 1.3 a certificate is refused after the handshake of the client has ended.
    while not any(error.code() == KafkaError._SSL or "SSL alert" in error.str() for error in errors):
        assert time.monotonic() - began < REFUSED_WITHIN_S, errors
        admin.poll(0.05)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)


def kafka_python_config(site: Site, trusted: TestAuthority, identity: Identity | None) -> dict[str, object]:
    config: dict[str, object] = {
        "bootstrap_servers": site.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(trusted.file),
    }
    if identity is not None:
        config |= {"ssl_certfile": str(identity.file), "ssl_keyfile": str(identity.file)}
    return config


def test_kafka_python_writes_and_reads(site: Site, topic: str) -> None:
    config = kafka_python_config(site, site.authority, site.alice)
    producer = KafkaProducer(**config)
    for value in VALUES:
        producer.send(topic, value).get(20)
    producer.close()
    consumer = KafkaConsumer(topic, **config, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    found = []
    for record in consumer:
        found.append(record.value)
        if len(found) == len(VALUES):
            break
    consumer.close()
    assert found == VALUES


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("wrong", WRONG)
def test_kafka_python_is_refused_soon(site: Site, wrong: str) -> None:
    began = time.monotonic()
    config = kafka_python_config(site, *wrong_credentials(site)[wrong])
    with pytest.raises(KafkaPythonError):
        KafkaProducer(**config, bootstrap_timeout_ms=2_000)
    assert time.monotonic() - began < REFUSED_WITHIN_S
    gc.collect()  # kafka-python leaves the sockets of failed connections to the garbage collector


def aiokafka_context(trusted: TestAuthority, identity: Identity | None) -> ssl.SSLContext:
    return trusted.client_context(identity)


def test_aiokafka_writes_and_reads(site: Site, topic: str) -> None:
    async def write_and_read() -> list[bytes | None]:
        config = {
            "bootstrap_servers": site.bootstrap,
            "security_protocol": "SSL",
            "ssl_context": aiokafka_context(site.authority, site.alice),
        }
        async with AIOKafkaProducer(**config) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        found = []
        async with AIOKafkaConsumer(topic, **config, auto_offset_reset="earliest") as consumer:
            async for record in consumer:
                found.append(record.value)
                if len(found) == len(VALUES):
                    return found
        return found

    assert asyncio.run(asyncio.wait_for(write_and_read(), 30)) == VALUES


@pytest.mark.parametrize("wrong", WRONG)
def test_aiokafka_is_refused_soon(site: Site, wrong: str) -> None:
    async def connect() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=site.bootstrap,
            security_protocol="SSL",
            ssl_context=aiokafka_context(*wrong_credentials(site)[wrong]),
        )
        try:
            await producer.start()
        finally:
            await producer.stop()

    began = time.monotonic()
    with pytest.raises(KafkaConnectionError):
        asyncio.run(connect())
    assert time.monotonic() - began < REFUSED_WITHIN_S


def test_log_of_the_node_says_why_a_client_is_refused(site: Site) -> None:
    test_confluent_kafka_is_refused_soon(site, WRONG[0])
    reason = "closed a connection of 127.0.0.1: the client does not trust the certificate of this listener"
    # The client knows of its refusal before the node reads the alert.
    wait_until(lambda: reason in site.output(), REFUSED_WITHIN_S, "the node to log the refusal")
    assert "PRIVATE KEY" not in site.output()
