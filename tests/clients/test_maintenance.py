"""Maintenance under load: each command is killed, and a broker with it, and typed again; no write fails or is lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from broker.cli.grammar import Exit
from broker.client import SyncProducer
from tests.support.cluster_process import ClusterProcess, new_cluster, run_command

pytestmark = pytest.mark.clients

TOPIC = "written"
PARTITIONS = 12
WRITES = 30_000
RATE = 1_500
TICK_S = 0.02
SPARE = 4
WITHIN_S = 240.0
CLUSTER = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "3000",
    "offsets.topic.num.partitions": "3",
}


class Writer:
    """A thread that writes numbered values at a steady rate: at least WRITES, and until the `with` block ends."""

    def __init__(self, name: str, servers: str) -> None:
        self.name, self._servers = name, servers
        self.acked: list[bytes] = []
        self.errors: list[str] = []
        self.pause_s = 0.0
        self._last = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive(), "the writer ends within its delivery timeout"

    def _run(self) -> None:
        try:
            (self._write_by_librdkafka if self.name == "confluent-kafka" else self._write_by_own_client)()
        except Exception as error:  # noqa: BLE001 - every error counts
            self.errors.append(repr(error))

    def _values(self) -> Iterator[bytes]:
        began, number = time.monotonic(), 0
        while number < WRITES or not self._ended.is_set():
            if number > (time.monotonic() - began) * RATE:
                time.sleep(TICK_S)
                continue
            yield b"%s %d" % (self.name.encode(), number)
            number += 1

    def _answered(self, value: bytes | None, error: object) -> None:
        now = time.monotonic()
        self.pause_s, self._last = max(self.pause_s, now - self._last), now
        if error is None and value is not None:
            self.acked.append(value)
        else:
            self.errors.append(f"{value!r}: {error}")

    def _delivered(self, value: bytes, metadata: object, error: object) -> None:
        self._answered(value, error)

    def _write_by_librdkafka(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 5})
        for value in self._values():
            producer.produce(TOPIC, value, on_delivery=lambda error, message: self._answered(message.value(), error))
            producer.poll(0)
        assert producer.flush(WITHIN_S) == 0

    def _write_by_own_client(self) -> None:
        with SyncProducer(self._servers, config={"enable.idempotence": True, "acks": "all"}) as producer:
            for value in self._values():
                producer.send_soon(TOPIC, value, on_delivery=partial(self._delivered, value))
            producer.flush()


class Command:
    """A `kraft cluster` command as a process."""

    def __init__(self, cluster: ClusterProcess, *arguments: str) -> None:
        environment = os.environ | {"KRAFT_BOOTSTRAP_SERVERS": cluster.bootstrap}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "broker.cli", "cluster", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def succeed(self) -> None:
        output, _ = self.process.communicate(timeout=WITHIN_S)
        assert self.process.returncode == Exit.OK, output.decode()


class Restarts:
    """Restarts nodes when the restart command asks for it, by two named pipes."""

    def __init__(self, cluster: ClusterProcess, directory: Path) -> None:
        self._cluster = cluster
        self._asked, self._done = directory / "asked", directory / "done"
        for path in (self._asked, self._done):
            os.mkfifo(path)
        self.command = f"sh -c 'echo {{id}} > {self._asked} && read done < {self._done}'"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            node = self._cluster.nodes[int(self._asked.read_text())]
            node.stop()
            node.start()
            self._done.write_text("done\n")


def ask(cluster: ClusterProcess, *arguments: str) -> Any:
    answer = run_command(*arguments, "--bootstrap-server", cluster.bootstrap, "--json")
    return json.loads(answer.output) if answer.output else None


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def wait_healthy(cluster: ClusterProcess) -> None:
    wait_until(lambda: (ask(cluster, "cluster", "health") or {}).get("is_healthy") is True)


def kill_and_start(cluster: ClusterProcess, node_id: int) -> None:
    cluster.nodes[node_id].kill()
    cluster.nodes[node_id].start()


def has_begun(cluster: ClusterProcess) -> bool:
    """True once the replicas of the topic move, or have moved."""
    described = ask(cluster, "topics", "describe", TOPIC)
    return bool(ask(cluster, "reassign", "status")) or any(
        SPARE not in each["replicas"] for each in described[0]["partitions"]
    )


def drain(cluster: ClusterProcess, directory: Path) -> None:
    command = Command(cluster, "drain", str(SPARE))
    wait_until(lambda: ask(cluster, "log-dirs", "describe", str(SPARE))[0]["is_cordoned"])
    command.kill()
    command = Command(cluster, "drain", str(SPARE))
    kill_and_start(cluster, 2)
    command.succeed()


def restart(cluster: ClusterProcess, directory: Path) -> None:
    restarts = Restarts(cluster, directory)
    command = Command(cluster, "restart", "--rolling", "--restart-command", restarts.command)
    pid = cluster.nodes[SPARE].process.pid
    wait_until(lambda: cluster.nodes[SPARE].is_running and cluster.nodes[SPARE].process.pid != pid)
    command.kill()
    kill_and_start(cluster, 3)
    wait_healthy(cluster)
    Command(cluster, "restart", "--rolling", "--restart-command", restarts.command).succeed()


def unregister(cluster: ClusterProcess, directory: Path) -> None:
    cluster.nodes[SPARE].stop()
    Command(cluster, "unregister", str(SPARE)).kill()
    kill_and_start(cluster, 2)
    command = Command(cluster, "unregister", str(SPARE))
    command.process.communicate(timeout=WITHIN_S)
    assert command.process.returncode in (Exit.OK, Exit.NOT_FOUND)  # not found, if the killed one had come so far
    assert SPARE not in [broker["id"] for broker in ask(cluster, "cluster", "health")["brokers"]]


def rebalance(cluster: ClusterProcess, directory: Path) -> None:
    cluster.nodes[SPARE].start()
    wait_healthy(cluster)
    Command(cluster, "undrain", str(SPARE)).succeed()
    command = Command(cluster, "rebalance")
    wait_until(lambda: bool(ask(cluster, "reassign", "status")) or command.process.poll() is not None)
    command.kill()
    kill_and_start(cluster, 2)
    wait_healthy(cluster)
    Command(cluster, "rebalance").succeed()
    counts = [broker["replicas"] for broker in ask(cluster, "cluster", "health")["brokers"]]
    assert max(counts) - min(counts) <= 1


def rejoin(cluster: ClusterProcess, directory: Path) -> None:
    node_id = next(each for each in (1, 2, 3) if each != cluster.controller_id())
    node, config = cluster.nodes[node_id], str(cluster.properties_path(node_id))
    node.kill()
    shutil.rmtree(node.data_dir)
    wait_until(lambda: f"controller {node_id} is down" in str(ask(cluster, "cluster", "health")["problems"]))
    command = Command(cluster, "rejoin", "--config", config)
    wait_until(lambda: (node.data_dir / "meta.properties").exists())
    command.kill()
    kill_and_start(cluster, SPARE)
    command = Command(cluster, "rejoin", "--config", config)
    node.start()
    command.succeed()
    assert cluster.part(node_id) == "Follower"
    wait_healthy(cluster)


def read_all(servers: str) -> Counter[bytes]:
    """The values of the topic, and how often each is there."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    values: Counter[bytes] = Counter()
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(10_000, 1.0):
            error = message.error()
            if error is None:
                values[message.value() or b""] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
    consumer.close()
    return values


def test_maintenance_with_kills_fails_no_write(full: bool, tmp_path: Path, figure: Callable[[str], None]) -> None:
    if not full:
        pytest.skip("run with --full, or by `make maintenance`")
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    with new_cluster(tmp_path, others={SPARE: "broker"}, overrides=CLUSTER) as cluster:
        cluster.start()
        created = run_command("topics", "create", TOPIC, "-p", str(PARTITIONS), "-b", cluster.bootstrap)
        assert created.code == Exit.OK, created.errors
        acked: Counter[bytes] = Counter()
        for phase in (drain, restart, unregister, rebalance, rejoin):
            began = time.monotonic()
            writers = [Writer("confluent-kafka", cluster.bootstrap), Writer("kraft", cluster.bootstrap)]
            with writers[0], writers[1]:
                phase(cluster, tmp_path)
                seconds = time.monotonic() - began
            for writer in writers:
                figure(
                    f"{phase.__name__}, {seconds:.0f} s, {writer.name}: {len(writer.acked)} writes, "
                    f"{len(writer.errors)} errors, longest pause {writer.pause_s * 1000:.0f} ms"
                )
                assert writer.errors == []
                acked.update(writer.acked)
        read = read_all(cluster.bootstrap)
        assert read == acked, f"{len(read - acked)} values are there too often, {len(acked - read)} are missing"
