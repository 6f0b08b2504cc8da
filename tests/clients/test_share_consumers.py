"""Share consumers (KIP-932) fail at once, with an error that says why: there are no share groups."""

import subprocess
import time

import pytest
from confluent_kafka import KafkaError, KafkaException, ShareConsumer

from benchmarks import apache_kafka
from tests.support.confluent_driver import create_topic

pytestmark = pytest.mark.clients

FAILS_WITHIN_S = 20


def test_share_consumer_of_librdkafka_fails_at_once_kip_932(bootstrap: str, topic: str) -> None:
    """Without ShareGroupHeartbeat among the advertised APIs, it looked its coordinator up again, for ever."""
    create_topic(bootstrap, topic, 1)
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": topic})
    try:
        consumer.subscribe([topic])
        error = first_error(consumer)
    finally:
        consumer.close()
    assert error.code() == KafkaError.UNSUPPORTED_VERSION
    assert error.fatal()


def first_error(consumer: ShareConsumer) -> KafkaError:
    deadline = time.monotonic() + FAILS_WITHIN_S
    while time.monotonic() < deadline:
        try:
            assert not consumer.poll(timeout=0.5), "there are no share groups"
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            return error
    raise AssertionError(f"no error within {FAILS_WITHIN_S} s")


def test_share_consumer_of_java_fails_at_once_kip_932(bootstrap: str, topic: str, kafka_jars: None) -> None:
    create_topic(bootstrap, topic, 1)
    timeout_ms = 1_000
    line = apache_kafka.java(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", topic, "--timeout-ms", str(timeout_ms)),
    )
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    said = done.stdout + done.stderr
    assert "UnsupportedVersionException: The cluster does not support the share group protocol" in said
