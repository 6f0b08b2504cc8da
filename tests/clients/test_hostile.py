"""Hostile connections next to a healthy client: the node keeps running and serving, and leaks nothing."""

import random
import socket
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from broker.handlers import CONTROLLER_HANDLERS, HANDLERS
from tests.support import valid_requests
from tests.support.confluent_driver import create_topic, new_consumer, watermarks
from tests.support.hostile import LENGTH, AttackLoad, Attacks
from tests.support.linux import reads_proc
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

SETTLE_S = 20.0

# Allocators keep freed memory, but with ten thousand connections even a leak of a kilobyte each is detected.
RESIDENT_GROWTH_MAX_BYTES = 24 * 1024 * 1024

# Segments and sockets that are opened and closed in normal operation.
OPEN_FILES_GROWTH_MAX = 8


class HealthyClient:
    """Writes and reads back a numbered record every few milliseconds in its own thread, and keeps every error."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.errors: list[KafkaError] = []
        self.latencies_s: list[float] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live)

    def __enter__(self) -> "HealthyClient":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _live(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "error_cb": self.errors.append,
            }
        )
        consumer = new_consumer(self._bootstrap, self.errors)
        try:
            consumer.assign([TopicPartition(self._topic, 0, 0)])
            while not self._stopping.wait(0.01) and not self.errors:
                self._write_and_read(len(self.latencies_s), producer, consumer.poll)
        finally:
            consumer.close()

    def _write_and_read(self, number: int, producer: Producer, poll: Callable[[float], Message | None]) -> None:
        began = time.monotonic()
        producer.produce(self._topic, b"%d" % number, partition=0, on_delivery=self._on_delivery)
        producer.poll(0)
        message = poll(30)
        assert message is not None, f"record {number} does not come back"
        assert message.error() is None, message.error()
        assert (message.offset(), message.value()) == (number, b"%d" % number)
        producer.poll(0)
        self.latencies_s.append(time.monotonic() - began)

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.errors.append(error)


def fill(bootstrap: str, topic: str, size_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(size_bytes // 1_000):
        producer.produce(topic, bytes(1_000), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def settled(measure: Callable[[], int], bound: int) -> int:
    """The measured value once it is within its bound, or when the time limit is reached."""
    deadline = time.monotonic() + SETTLE_S
    while (value := measure()) > bound and time.monotonic() < deadline:
        time.sleep(0.1)
    return value


def lay_siege(port: int, attacks: Attacks, seed: int, connections: int, seconds: float) -> None:
    AttackLoad(
        address=("127.0.0.1", port),
        attacks=attacks.all(),
        rng=random.Random(seed),
        rate_per_s=connections / seconds,
        hold_s=min(20.0, seconds / 5),
    ).run(connections)


def test_every_api_is_attacked() -> None:
    assert valid_requests.api_keys(valid_requests.frames("t")) == {handler.api_key for handler in HANDLERS}
    of_controllers = {handler.api_key for handler in CONTROLLER_HANDLERS}
    assert valid_requests.api_keys(valid_requests.controller_frames("t")) == of_controllers


@reads_proc
@pytest.mark.seeds(1)
def test_hostile_connections_affect_only_themselves(
    new_node: Callable[..., NodeProcess], seed: int, full: bool, figure: Callable[[str], None]
) -> None:
    connections, seconds = (10_000, 300.0) if full else (300, 6.0)
    node = new_node(auto_create_topics_enable="false", offsets_topic_num_partitions=2)
    node.start()
    create_topic(node.bootstrap, "hostile-target", 1, retention_bytes=20_000_000)
    create_topic(node.bootstrap, "healthy", 1)
    fill(node.bootstrap, "hostile-target", 5_000_000)
    attacks = Attacks("hostile-target", valid_requests.frames("hostile-target"))
    with HealthyClient(node.bootstrap, "healthy") as healthy:
        # The first attacks load code and fill pools, which is not a leak.
        lay_siege(node.port, attacks, seed, connections // 5, seconds / 5)
        time.sleep(1)
        files_before, resident_before = node.open_files(), node.resident_bytes()
        lay_siege(node.port, attacks, seed + 1, connections, seconds)
        assert node.is_running, node.output_tail()
        files_bound, resident_bound = files_before + OPEN_FILES_GROWTH_MAX, resident_before + RESIDENT_GROWTH_MAX_BYTES
        files_after = settled(node.open_files, files_bound)
        resident_after = settled(node.resident_bytes, resident_bound)
    latencies_ms = sorted(1_000 * latency for latency in healthy.latencies_s)
    figure(
        f"{connections} hostile connections in {seconds:.0f} s; files {files_before} to {files_after}, resident "
        f"{resident_before / 1e6:.1f} to {resident_after / 1e6:.1f} MB; {len(latencies_ms)} healthy round trips, ms: "
        f"p50 {latencies_ms[len(latencies_ms) // 2]:.1f}, p99 {latencies_ms[len(latencies_ms) * 99 // 100]:.1f}, "
        f"max {latencies_ms[-1]:.1f}"
    )
    assert healthy.errors == []
    assert files_after <= files_bound
    assert resident_after <= resident_bound
    assert "Traceback" not in node.output()
    assert watermarks(node.bootstrap, "healthy", 1) == [(0, len(latencies_ms))]
    node.stop()


@reads_proc
def test_closed_connection_drops_its_pending_requests(new_node: Callable[..., NodeProcess]) -> None:
    """The memory of a closed connection is freed at once, without a garbage collection."""
    node = new_node()
    node.start()
    resident_before = node.resident_bytes()
    sent_bytes = 30_000_000
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", node.port), timeout=30) as sock:
            sock.sendall(LENGTH.pack(100_000_000) + bytes(sent_bytes))
    # Two of them may be in transit at the same time.
    resident_bound = resident_before + 3 * sent_bytes
    assert settled(node.resident_bytes, resident_bound) <= resident_bound
    node.stop()


@pytest.mark.seeds(1)
def test_hostile_connections_to_a_controller(new_node: Callable[..., NodeProcess], seed: int) -> None:
    """The controller keeps working, and accepts no request in the name of a broker."""
    node = new_node()
    node.start()
    create_topic(node.bootstrap, "hostile-target", 1)
    attacks = Attacks("hostile-target", valid_requests.controller_frames("hostile-target"))
    lay_siege(node.controller_port, attacks, seed, connections=150, seconds=3.0)
    assert node.is_running, node.output_tail()
    create_topic(node.bootstrap, "afterwards", 1)
    assert "Traceback" not in node.output()
    node.stop()
