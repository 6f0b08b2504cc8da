"""docs/errors.md: each message in it is the beginning or a part of one that is produced, in the document's order."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from trio.testing import MockClock

from broker.client import (
    Admin,
    FeatureUpdate,
    KafkaError,
    MismatchedEndpointType,
    NewTopic,
    Producer,
    RecordTooLarge,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    SyncShareConsumer,
    TimedOut,
    TopicPartition,
    UnsupportedByBroker,
    UpgradeType,
)
from broker.client.consumer.group.coordinator_trouble import CoordinatorTrouble
from broker.client.errors import check
from broker.client.metadata_cache import PartitionMetadata, TopicMetadata
from broker.client.producer.routing import hold_timeout
from broker.config import read_config
from broker.net.authentication_counts import AuthenticationCounts
from broker.node import listeners
from broker.node.identity import NotFormatted, cluster_id_of
from broker.node.transport_security import TransportSecurity
from broker.spark import java
from broker.spark.data_loss import DataLoss
from broker.storage.log_dir import LogDir, LogDirInUse
from broker.wire.errors import ErrorCode
from kraft.env import real_env
from metadata.configuration import InvalidConfig
from tests.support.source_code import ROOT

DOCUMENT = ROOT / "docs" / "errors.md"
# The words of a broker (SharePartition.java).
NOT_ACQUIRED = "The batch cannot be acknowledged. The batch is not in the acquired state."


def documented() -> list[str]:
    return re.findall(r"^```text\n(.+)\n```$", DOCUMENT.read_text(), re.MULTILINE)


def pattern(message: str) -> str:
    """A regular expression, in which `...` stands for any text."""
    return ".+".join(map(re.escape, message.split("...")))


def raised_as() -> list[str]:
    """The classes that the document names for each message, as text."""
    return re.findall(r"\*\*Raised as\*\* (.+?) \*\*Cause\.\*\*", DOCUMENT.read_text(), re.DOTALL)


def message_of(error: type[Exception], call: Callable[[], object]) -> tuple[str, str]:
    """The name of the class of the error that the call raises, and its message."""
    with pytest.raises(error) as raised:
        call()
    return error.__name__, str(raised.value)


@pytest.fixture
def produced(
    bootstrap: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, str]]:
    """The classes and the messages of errors, in the document's order."""

    async def reach_nobody() -> None:
        async with Admin("127.0.0.1:1", config={"default.api.timeout.ms": 1_000}) as admin:
            await admin.list_topics()

    def reach_a_controller() -> None:
        with SyncAdmin(bootstrap) as admin:
            (endpoints,) = admin.describe_metadata_quorum().endpoints.values()
        with SyncAdmin(f"{endpoints[0].host}:{endpoints[0].port}") as admin:
            admin.list_topics()

    async def open_under_asyncio() -> None:
        async with Producer(bootstrap):
            pass

    def read_a_topic_that_is_missing() -> None:
        with SyncConsumer(bootstrap, config={"allow.auto.create.topics": False}) as consumer:
            consumer.assign([TopicPartition("missing", 0)])
            consumer.fetch(timeout_s=2)

    def miss_the_coordinator() -> None:
        trouble = CoordinatorTrouble("readers")
        trouble.note_failure(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available."), 0.0)
        error = trouble.error(0.0, 5.0)
        assert error is not None
        raise error

    def send_an_old_record() -> None:
        with SyncAdmin(bootstrap) as admin:
            admin.create_topics([NewTopic("fresh", configs={"message.timestamp.before.max.ms": "1000"})])
        with SyncProducer(bootstrap) as producer:
            producer.send("fresh", b"v", timestamp_ms=1)

    def create_with_too_many_replicas() -> None:
        with SyncAdmin(bootstrap) as admin:
            admin.create_topics([NewTopic("many-replicas", replication_factor=9)]).raise_first()

    def send_with_a_wrong_type() -> None:
        with SyncProducer(bootstrap) as producer:
            producer.send("errors", b"v", partition="1")  # type: ignore[arg-type]

    def join_a_share_group() -> None:
        with SyncAdmin(bootstrap) as admin:
            admin.update_features({"share.version": FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)}).raise_first()
            try:
                with SyncShareConsumer(bootstrap, topics=["errors"], group_id="workers") as consumer:
                    consumer.fetch(timeout_s=10)
            finally:
                admin.update_features({"share.version": FeatureUpdate(1)}).raise_first()

    def listen_twice() -> None:
        port = int(bootstrap.rpartition(":")[2])
        addresses = f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"
        trio.run(listeners.bind, read_config(overrides=[addresses]))

    def send_to_a_partition_that_is_missing() -> None:
        one = PartitionMetadata(0, 1, 0, (1,), (1,), ())
        raise hold_timeout("errors", TopicMetadata("errors", bytes(16), False, ErrorCode.NONE, [one]), None, 60_000)

    def send_a_large_record() -> None:
        with SyncProducer(bootstrap) as producer:
            producer.send("errors", bytes(2_000_000))

    def claim_twice() -> None:
        env = real_env(lambda kind, /, **fields: None)
        first, second = (LogDir(env, str(tmp_path), producer_expiration_ms=1) for _ in range(2))
        first.claim()
        second.claim()

    def start_on_an_empty_disk() -> None:
        voters = "controller.quorum.voters=1@127.0.0.1:1,2@127.0.0.1:2"
        config = read_config(overrides=["node.id=1", voters, f"log.dirs={tmp_path / 'empty'}"])
        cluster_id_of(real_env(lambda kind, /, **fields: None), config)

    def authenticate_to_controllers() -> None:
        controllers = [
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "sasl.mechanism.controller.protocol=SCRAM-SHA-256",
        ]
        env = real_env(lambda kind, /, **fields: None)
        TransportSecurity(read_config(overrides=controllers), env, AuthenticationCounts())

    def lose_records() -> None:
        raise DataLoss("the log starts at 4")

    monkeypatch.setattr(java, "_package_home", lambda: None)
    return [
        message_of(TimedOut, lambda: trio.run(reach_nobody, clock=MockClock(autojump_threshold=0.005))),
        message_of(MismatchedEndpointType, reach_a_controller),
        message_of(RuntimeError, lambda: asyncio.run(open_under_asyncio())),
        message_of(KafkaError, read_a_topic_that_is_missing),
        message_of(KafkaError, lambda: check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
        message_of(TimedOut, send_to_a_partition_that_is_missing),
        message_of(RecordTooLarge, send_a_large_record),
        message_of(KafkaError, lambda: check(ErrorCode.NOT_ENOUGH_REPLICAS)),
        message_of(KafkaError, lambda: check(ErrorCode.CORRUPT_MESSAGE)),
        message_of(KafkaError, lambda: check(ErrorCode.LEADER_NOT_AVAILABLE)),
        message_of(KafkaError, miss_the_coordinator),
        message_of(KafkaError, send_an_old_record),
        message_of(KafkaError, create_with_too_many_replicas),
        message_of(TypeError, send_with_a_wrong_type),
        message_of(UnsupportedByBroker, join_a_share_group),
        message_of(KafkaError, lambda: check(ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED)),
        message_of(NotFormatted, start_on_an_empty_disk),
        message_of(LogDirInUse, claim_twice),
        message_of(OSError, listen_twice),
        message_of(InvalidConfig, authenticate_to_controllers),
        message_of(Py4JJavaError, lambda: spark.read.format("no-such-source").load()),
        message_of(java.NoJava, lambda: java.find_java({"PATH": ""})),
        message_of(DataLoss, lose_records),
    ]


def test_messages_of_the_document_are_those_that_are_produced(produced: list[tuple[str, str]]) -> None:
    for message, classes, (name, found) in zip(documented(), raised_as(), produced, strict=True):
        assert re.search(pattern(message), found, re.DOTALL), found
        assert f"`{name}`" in classes, message


def test_the_document_has_a_cause_and_a_cure_for_each_message() -> None:
    text = DOCUMENT.read_text()
    assert text.count("**Cause.**") == text.count("**Cure.**") == len(documented()) == 23
