"""A transactional producer fails at once, with a message, for as long as there are no transactions."""

import asyncio
import time

import aiokafka
import confluent_kafka
import pytest
from aiokafka.errors import KafkaError as AiokafkaError
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

pytestmark = pytest.mark.clients

# Clients take 0.5 s. After a retriable error they would wait for a minute, or for ever.
WITHIN_S = 10.0


def test_librdkafka_raises_a_fatal_error_with_the_nodes_message(bootstrap: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "id", "logger": None, "log_level": 0}
    )
    began = time.monotonic()
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        producer.init_transactions(WITHIN_S)
    error = raised.value.args[0]
    assert error.fatal()
    assert not error.retriable()
    assert "does not support transactions" in error.str()
    assert time.monotonic() - began < WITHIN_S


def test_kafka_python_raises(bootstrap: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="id", max_block_ms=WITHIN_S * 1000)
    try:
        with pytest.raises(KafkaPythonError, match="ClusterAuthorizationFailed"):
            producer.init_transactions()
    finally:
        producer.close(timeout=0)


def test_aiokafka_raises(bootstrap: str) -> None:
    async def start() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="id")
        try:
            with pytest.raises(AiokafkaError, match="ClusterAuthorizationFailed"):
                await asyncio.wait_for(producer.start(), WITHIN_S)
        finally:
            await producer.stop()

    asyncio.run(start())
