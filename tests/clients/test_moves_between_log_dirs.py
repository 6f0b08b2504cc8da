"""Replicas move between log directories while clients write, and the node is killed meanwhile; no record is lost."""

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from broker.client.admin import ConfigChange, ConfigResource, ConfigResourceType, NewTopic, TopicPartitionReplica
from broker.client.blocking import SyncAdmin
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

TOPIC = "written"
PARTITIONS = 4
WITHIN_S = 60.0
QUOTA = "replica.alter.log.dirs.io.max.bytes.per.second"


class Writer:
    """A thread with an idempotent producer, which writes numbered values with acks=all until the block ends."""

    def __init__(self, bootstrap: str) -> None:
        self.acked: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.errors: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive(), "not all records were answered"

    def _run(self, bootstrap: str) -> None:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
        )
        number = 0
        while not self._ended.is_set():
            for _ in range(20):
                value = f"{number:08d}".encode() * 20
                producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=self._answered)
                number += 1
            producer.poll(0)
            time.sleep(0.01)
        producer.flush(WITHIN_S)

    def _answered(self, error: KafkaError | None, message: Message) -> None:
        partition, value = message.partition(), message.value()
        if error is not None:
            self.errors.append(str(error))
        elif partition is not None and value is not None:
            self.acked[partition].append(value)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    # Small segments roll, and their index files are relocated, while a partition moves.
    overrides = {"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}", "log.segment.bytes": "1048576"}
    node = NodeProcess(tmp_path / "data", overrides)
    try:
        node.start()
        yield node
    finally:
        node.discard()


def test_no_acknowledged_record_is_lost_when_replicas_move_and_the_node_is_killed(
    tmp_path: Path, node: NodeProcess, full: bool
) -> None:
    rng = random.Random(7)
    with SyncAdmin(node.bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).raise_first()
    with Writer(node.bootstrap) as writer:
        time.sleep(1)
        for round_number in range(12 if full else 5):
            destination = tmp_path / ("two", "one")[round_number % 2]
            with SyncAdmin(node.bootstrap) as admin:
                set_quota(admin, 0)
                move_all(admin, destination)
                assert future_replicas(admin), "the quota holds them"
            if round_number % 2 == 1:
                kill_and_start(node)
            with SyncAdmin(node.bootstrap) as admin:
                set_quota(admin, 3_000_000)
            if round_number % 2 == 0:
                time.sleep(rng.uniform(0, 0.4))  # some are copied, or in place already
                kill_and_start(node)
            with SyncAdmin(node.bootstrap) as admin:
                wait_until_in(admin, destination)
    assert writer.errors == []
    assert min(map(len, writer.acked)) > 100
    assert read_all(node.bootstrap) == writer.acked


def kill_and_start(node: NodeProcess) -> None:
    node.kill()
    node.start()


def move_all(admin: SyncAdmin, destination: Path) -> None:
    replicas = [TopicPartitionReplica(TOPIC, index, 1) for index in range(PARTITIONS)]
    admin.alter_replica_log_dirs(dict.fromkeys(replicas, str(destination))).raise_first()


def set_quota(admin: SyncAdmin, rate: int) -> None:
    broker = ConfigResource(ConfigResourceType.BROKER, "1")
    admin.incremental_alter_configs({broker: [ConfigChange(QUOTA, str(rate))]}).raise_first()
    deadline = time.monotonic() + WITHIN_S
    while admin.describe_configs([broker], names=[QUOTA]).value(broker)[QUOTA].value != str(rate):
        assert time.monotonic() < deadline, "the node does not apply the quota"
        time.sleep(0.01)


def future_replicas(admin: SyncAdmin) -> list[object]:
    described = admin.describe_log_dirs().value(1).values()
    return [partition for each in described for partition, replica in each.replicas.items() if replica.is_future]


def wait_until_in(admin: SyncAdmin, destination: Path) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        described = admin.describe_log_dirs().value(1)[str(destination)].replicas
        there = [each for each, replica in described.items() if each.topic == TOPIC and not replica.is_future]
        if len(there) == PARTITIONS:
            return
        assert time.monotonic() < deadline, described
        time.sleep(0.05)


def read_all(bootstrap: str) -> list[list[bytes]]:
    """The values of each partition in the order of their offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "enable.partition.eof": True})
    values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    left = set(range(PARTITIONS))
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in left])
    deadline = time.monotonic() + WITHIN_S
    try:
        while left:
            assert time.monotonic() < deadline, "the partitions have no end"
            for message in consumer.consume(1_000, timeout=1):
                error, partition, value = message.error(), message.partition(), message.value()
                assert partition is not None
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(partition)
                elif value is not None:
                    values[partition].append(value)
    finally:
        consumer.close()
    return values
