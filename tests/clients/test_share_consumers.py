"""Share consumers of other libraries (KIP-932): they get records, or fail at once at level 0 of share.version."""

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import trio
from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Producer, ShareConsumer

from benchmarks import apache_kafka
from tests.support.confluent_driver import create_topic
from tests.support.node_process import NodeProcess
from tests.support.share_member import enable_share_groups, set_group_config
from tests.support.wire_client import connected

pytestmark = pytest.mark.clients

FAILS_WITHIN_S = 20
DONE_WITHIN_S = 60
RECORDS = 600
GROUP = "group"


def test_share_consumer_of_librdkafka_fails_at_once_kip_932(node_without_share_groups: NodeProcess) -> None:
    """Without ShareGroupHeartbeat among the advertised APIs, it looked its coordinator up again, for ever."""
    consumer = ShareConsumer({"bootstrap.servers": node_without_share_groups.bootstrap, "group.id": GROUP})
    try:
        consumer.subscribe(["topic"])
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


def test_share_consumer_of_java_fails_at_once_kip_932(node_without_share_groups: NodeProcess, kafka_jars: None) -> None:
    timeout_ms = 1_000
    line = apache_kafka.java(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--bootstrap-server", node_without_share_groups.bootstrap, "--topic", "topic"),
        *("--group", GROUP, "--timeout-ms", str(timeout_ms)),
    )
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    said = done.stdout + done.stderr
    assert "UnsupportedVersionException: The cluster does not support the share group protocol" in said


@pytest.fixture
def node_without_share_groups(new_node: Callable[..., NodeProcess]) -> Iterator[NodeProcess]:
    node = new_node()
    node.start()

    async def lower_the_level() -> None:
        async with connected(int(node.bootstrap.rpartition(":")[2])) as client:
            await enable_share_groups(client, level=0)

    trio.run(lower_the_level)
    create_topic(node.bootstrap, "topic", 1)
    yield node
    node.stop()


@pytest.fixture
def share_node(new_node: Callable[..., NodeProcess]) -> Iterator[NodeProcess]:
    """A node with share groups, and the topic "topic", whose records the group has not got yet."""
    node = new_node(share_coordinator_state_topic_num_partitions=3, offsets_topic_num_partitions=3)
    node.start()

    async def prepare() -> None:
        async with connected(int(node.bootstrap.rpartition(":")[2])) as client:
            await set_group_config(client, "share.auto.offset.reset", "earliest")

    trio.run(prepare)
    create_topic(node.bootstrap, "topic", 3)
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 1})
    for number in range(RECORDS):
        producer.produce("topic", value=b"%d" % number)
    assert not producer.flush(30)
    yield node
    node.stop()


def test_share_consumers_of_librdkafka_get_released_records_again_kip_932(share_node: NodeProcess) -> None:
    """Two members release each third record at its first delivery, and accept all others."""
    config = {
        "bootstrap.servers": share_node.bootstrap,
        "group.id": GROUP,
        "share.acknowledgement.mode": "explicit",
    }
    consumers = [ShareConsumer(config) for _ in range(2)]
    deliveries: Counter[int] = Counter()
    accepted: Counter[int] = Counter()
    deadline = time.monotonic() + DONE_WITHIN_S
    try:
        for consumer in consumers:
            consumer.subscribe(["topic"])
        while len(accepted) < RECORDS:
            assert time.monotonic() < deadline, f"{len(accepted)} records are accepted"
            for consumer in consumers:
                for message in consumer.poll(timeout=0.1):
                    assert message.error() is None
                    number = int(message.value() or b"")
                    deliveries[number] += 1
                    is_released = number % 3 == 0 and deliveries[number] == 1
                    if not is_released:
                        accepted[number] += 1
                    consumer.acknowledge(message, AcknowledgeType.RELEASE if is_released else AcknowledgeType.ACCEPT)
                assert not any(consumer.commit_sync().values())
    finally:
        for consumer in consumers:
            consumer.close()
    assert set(accepted.values()) == {1}
    assert all(count == (1 if number % 3 else 2) for number, count in deliveries.items())


def test_share_consumer_of_java_gets_each_record_once_kip_932(share_node: NodeProcess, kafka_jars: None) -> None:
    servers = ("--bootstrap-server", share_node.bootstrap)
    limits = ("--max-messages", str(RECORDS), "--timeout-ms", str(1000 * DONE_WITHIN_S))
    lines = run_tool("ConsoleShareConsumer", *servers, "--topic", "topic", "--group", GROUP, *limits).splitlines()
    assert sorted(int(line) for line in lines if line.isdigit()) == list(range(RECORDS))
    described = run_tool("group.ShareGroupCommand", *servers, "--describe", "--group", GROUP)
    lags = [line.split()[-1] for line in described.splitlines() if line.startswith(GROUP)]
    assert lags == ["0"] * 3


def run_tool(name: str, *arguments: str) -> str:
    """The standard output of one of Kafka's tools for consumers."""
    package = "org.apache.kafka.tools.consumer"
    line = apache_kafka.java(f"{package}.{name}", *arguments)
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False).stdout


def test_tool_of_java_administers_a_share_group_kip_932(
    share_node: NodeProcess, full: bool, request: pytest.FixtureRequest
) -> None:
    if not full:
        pytest.skip("eight JVMs take a while: --full starts them")
    request.getfixturevalue("kafka_jars")
    servers = ("--bootstrap-server", share_node.bootstrap)
    limits = ("--max-messages", str(RECORDS), "--timeout-ms", str(1000 * DONE_WITHIN_S))
    run_tool("ConsoleShareConsumer", *servers, "--topic", "topic", "--group", GROUP, *limits)

    def run(*words: str) -> list[list[str]]:
        lines = run_tool("group.ShareGroupCommand", *servers, *words).splitlines()
        return [line.split() for line in lines if line.strip()]

    assert run("--list", "--state") == [["GROUP", "STATE"], [GROUP, "Empty"]]
    run("--reset-offsets", "--group", GROUP, "--topic", "topic", "--to-earliest", "--execute")
    offsets = [row for row in run("--describe", "--group", GROUP, "--offsets") if row[0] == GROUP]
    assert [(row[1], row[2], row[3]) for row in offsets] == [("topic", str(index), "0") for index in range(3)]
    assert sum(int(row[-1]) for row in offsets) == RECORDS
    assert run("--describe", "--group", GROUP, "--state")[-1][-2:] == ["Empty", "0"]
    run("--delete-offsets", "--group", GROUP, "--topic", "topic")
    run("--delete", "--group", GROUP)
    assert run("--list") == []
