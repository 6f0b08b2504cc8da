"""The pytest plugin in sessions of its own: `python -m pytest` on a file of tests, as its users run it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.linux import process_exists
from tests.support.source_code import ROOT

pytestmark = pytest.mark.clients

WITHIN_S = 120

INI = """
[pytest]
trio_mode = true
addopts = --strict-markers
filterwarnings =
    error
    ignore:.*_text is deprecated:DeprecationWarning
"""

APPLICATION = '''
import asyncio
import os
from pathlib import Path

import pytest
import trio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer


def note(cluster):
    """Tell the outer test which processes and directories have to be gone after this session."""
    with open("used", "a") as file:
        for node in cluster.nodes:
            file.write(f"/proc/{node['pid']}\\n{Path(node['log']).parent}\\n")


@pytest.mark.parametrize("number", range(3))
def test_topics_of_tests_are_their_own(kafka, number):
    topic = kafka.topic("orders", partitions=2)
    kafka.produce(topic, ["one", {"key": b"k", "value": f"two {number}", "headers": [("h", b"v")], "partition": 1}])
    records = kafka.records(topic)
    assert [(each.partition, each.value) for each in records if each.key] == [(1, f"two {number}".encode())]
    assert {each.value for each in records} == {b"one", f"two {number}".encode()}
    assert topic in {each.name for each in kafka.admin.list_topics()}
    Path(f"servers-{os.getpid()}").write_text(kafka.bootstrap_servers)


def test_confluent_kafka_and_kafka_python(kafka):
    topic = kafka.topic()
    producer = Producer(kafka.config("confluent-kafka"))
    producer.produce(topic, b"confluent")
    assert producer.flush(60) == 0
    other = KafkaProducer(**kafka.config("kafka-python"))
    other.send(topic, b"kafka-python").get(60)
    other.close()
    assert [each.value for each in kafka.records(topic)] == [b"confluent", b"kafka-python"]


def test_asyncio(kafka):
    async def run():
        topic = kafka.topic()
        async with AIOKafkaProducer(**kafka.config("aiokafka")) as producer:
            await producer.send_and_wait(topic, b"one")
        settings = {"group_id": kafka.group(), "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, **settings, **kafka.config("aiokafka")) as consumer:
            assert (await consumer.getone()).value == b"one"

    asyncio.run(run())


async def test_trio(kafka):
    await trio.sleep(0)
    topic = kafka.topic()
    kafka.produce(topic, ["one"])
    assert [each.value for each in kafka.records(topic)] == [b"one"]


@pytest.mark.kafka(nodes=1, per="module", config={"num.partitions": 3}, features={"share.version": 0})
class TestPerModule:
    def test_first(self, kafka_cluster):
        note(kafka_cluster)
        assert not kafka_cluster.admin.describe_features().finalized.get("share.version")
        kafka_cluster.produce("shared", ["one"])
        kafka_cluster.link(client_id="*", cut=True)
        kafka_cluster.kill(node=1)

    def test_second(self, kafka_cluster, kafka):
        Path(f"servers-{os.getpid()}").write_text(kafka.bootstrap_servers)
        assert len(kafka_cluster.records("shared")) == 1
        assert kafka_cluster.end_faults() == []


@pytest.mark.kafka(nodes=3, seed=7)
def test_fails_after_a_kill(kafka_cluster):
    note(kafka_cluster)
    topic = kafka_cluster.topic("payments", replicas=3)
    kafka_cluster.chaos(seed=9, seconds=2, faults=["slow"]).wait()
    kafka_cluster.kill(leader_of=(topic, 0))
    kafka_cluster.wait_for(leader=(topic, 0))
    assert kafka_cluster.records(topic), "there are no payments"


@pytest.mark.kafka(per="week")
def test_wrong_marker(kafka_cluster):
    pass


@pytest.mark.kafka(node=1)
def test_marker_with_a_wrong_word(kafka_cluster):
    pass


@pytest.mark.kafka(nodes=3)
def test_marker_without_its_fixture(kafka):
    pass
'''

KILLED = """
import os
import signal
from pathlib import Path


def test_of_a_process_that_is_killed(kafka, kafka_cluster):
    kafka.topic()
    kafka_cluster.pause(node=2)
    Path("used").write_text("".join(f"/proc/{node['pid']}\\n{node['log']}\\n" for node in kafka_cluster.nodes))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run_session(directory: Path, tests: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest on a file of tests, in an empty directory."""
    (directory / "test_application.py").write_text(tests)
    (directory / "pytest.ini").write_text(INI)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "jepsen.pytest_plugin", "--basetemp=temp", *arguments]
    return subprocess.run(
        command,
        cwd=directory,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )


def wait_until_gone(used: Path) -> None:
    """Wait until the processes and directories that a session has used are gone."""
    deadline = time.monotonic() + WITHIN_S
    paths = used.read_text().split()
    assert paths
    while left := [path for path in paths if _is_there(path)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def _is_there(path: str) -> bool:
    return process_exists(int(Path(path).name)) if path.startswith("/proc/") else Path(path).exists()


def test_fixtures_serve_tests_of_two_processes_and_leave_nothing(tmp_path: Path) -> None:
    done = run_session(tmp_path, APPLICATION, "-n", "2", "--dist", "loadscope", "--kafka-log", "debug")
    assert "1 failed, 8 passed, 3 errors" in done.stdout, done.stdout + done.stderr
    assert "per is one of test, module, session, not 'week'" in done.stdout
    assert "takes nodes, security, config, features, seed, per, not node" in done.stdout
    assert "@pytest.mark.kafka is for the fixture `kafka_cluster`" in done.stdout
    assert len({each.read_text() for each in tmp_path.glob("servers-*")}) == 1
    report = done.stdout.partition("timeline, seed 7")[2]
    kill = report.index("TEST    node_kill target=")
    assert 'cause="leader of payments-' in report[kill:].partition("\n")[0]
    assert "partition_changed" in report[kill:]
    replayed = "cluster.chaos(seed=9, seconds=2, faults=['slow'])"
    assert f"chaos: {replayed}\n" in done.stdout
    assert replayed in done.stdout.partition(": chaos ---")[2]
    wait_until_gone(tmp_path / "used")


def test_nodes_and_directories_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    done = run_session(tmp_path, KILLED)
    assert done.returncode == -9, done.stdout + done.stderr
    wait_until_gone(tmp_path / "used")
