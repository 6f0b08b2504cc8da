"""Other clients authenticate with PLAIN and SCRAM: right and wrong passwords, and how soon wrong ones are refused."""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.errors import KafkaConnectionError
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kafka.errors import KafkaError as KafkaPythonError

from broker.security.sasl.jaas import PLAIN_MODULE
from jepsen.processes.ports import free_ports
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER, PASSWORD = "alice", "right pass, =word"
# A refusal is known within this time, far below the clients' own timeouts of 30 to 60 s.
REFUSED_WITHIN_S = 10.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node's listener with all mechanisms. Sessions last for 3 s."""
    peers, controllers, clients = free_ports(3)
    overrides = {
        "listeners": f"PEERS://127.0.0.1:{peers},CONTROLLER://127.0.0.1:{controllers},CLIENTS://127.0.0.1:{clients}",
        "listener.security.protocol.map": "PEERS:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PEERS",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
        "connections.max.reauth.ms": "3000",
        "offsets.topic.num.partitions": "1",
    }
    node = NodeProcess(tmp_path_factory.mktemp("sasl") / "data", overrides, ports=(peers, controllers))
    try:
        node.start()
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{peers}"})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            upsertion = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
            for outcome in admin.alter_user_scram_credentials([upsertion]).values():
                outcome.result(10)
        yield f"127.0.0.1:{clients}"
        node.stop()
    finally:
        node.discard()


def confluent_round_trip(servers: str, mechanism: str, password: str, topic: str) -> list[bytes]:
    failures: list[confluent_kafka.KafkaError] = []

    def note(error: confluent_kafka.KafkaError) -> None:
        if error.code() == confluent_kafka.KafkaError._AUTHENTICATION:
            failures.append(error)

    config: dict[str, Any] = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
        "error_cb": note,
    }
    producer = confluent_kafka.Producer(config)
    producer.produce(topic, b"value")
    until = time.monotonic() + 30
    while producer.flush(0.1) and not failures and time.monotonic() < until:
        pass
    if failures:
        producer.purge()
        producer.flush(5)
        raise confluent_kafka.KafkaException(failures[0])
    consumer = confluent_kafka.Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        message = consumer.poll(20)
        assert message is not None
        return [message.value()]
    finally:
        consumer.close()


def kafka_python_round_trip(servers: str, mechanism: str, password: str, topic: str) -> list[bytes]:
    config: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
        "bootstrap_timeout_ms": 5_000,
    }
    with kafka.KafkaProducer(**config) as producer:
        producer.send(topic, b"value").get(timeout=20)
    consumer = kafka.KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **config)
    try:
        return [next(consumer).value]
    finally:
        consumer.close()


def aiokafka_round_trip(servers: str, mechanism: str, password: str, topic: str) -> list[bytes]:
    async def run() -> list[bytes]:
        config: dict[str, Any] = {
            "bootstrap_servers": servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": USER,
            "sasl_plain_password": password,
        }
        producer = aiokafka.AIOKafkaProducer(**config)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"value")
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(topic, auto_offset_reset="earliest", **config)
        await consumer.start()
        try:
            return [(await asyncio.wait_for(consumer.getone(), 20)).value]
        finally:
            await consumer.stop()

    return asyncio.run(run())


CLIENTS: dict[str, Callable[[str, str, str, str], list[bytes]]] = {
    "confluent": confluent_round_trip,
    "kafka-python": kafka_python_round_trip,
    "aiokafka": aiokafka_round_trip,
}
REFUSALS = (confluent_kafka.KafkaException, KafkaPythonError, KafkaConnectionError)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_right_password_works(servers: str, client: str, mechanism: str) -> None:
    assert CLIENTS[client](servers, mechanism, PASSWORD, f"{client}-{mechanism}") == [b"value"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_wrong_password_is_refused_soon(servers: str, client: str, mechanism: str) -> None:
    began = time.monotonic()
    with pytest.raises(REFUSALS):
        CLIENTS[client](servers, mechanism, "wrong", f"{client}-{mechanism}-refused")
    assert time.monotonic() - began < REFUSED_WITHIN_S
    gc.collect()  # kafka-python leaves the sockets of failed connections to the garbage collector


def test_librdkafka_authenticates_again_before_its_session_ends_kip_368(servers: str) -> None:
    """Sessions last for 3 s. A connection that has ended would be an error of the producer."""
    errors: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "SCRAM-SHA-256",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "error_cb": errors.append,
            "retries": 0,
        }
    )
    delivered: list[confluent_kafka.KafkaError | None] = []
    until = time.monotonic() + 8
    while time.monotonic() < until:
        producer.produce("again", b"value", on_delivery=lambda error, message: delivered.append(error))
        producer.poll(0.02)
    assert producer.flush(10) == 0
    assert delivered
    assert not any(delivered)
    assert not errors
