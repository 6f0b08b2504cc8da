"""`kraft cluster start` as a process: the files that it creates, its output, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, KafkaError, Producer

from broker.cli.grammar import Exit
from broker.cli.local_cluster import LocalNode, NotOneCluster, open_cluster
from broker.cli.local_security import LocalSecurity, MissingCryptography
from broker.config import read_config
from broker.coordinator.runtime.runtime import CoordinatorKeyType
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.errors import ErrorCode
from kraft.env import real_env
from tests.support.cluster_process import run_command
from tests.support.linux import child_processes, command_of, process_exists
from tests.support.node_process import NodeProcess
from tests.support.wire_client import connected

GROUP, TRANSACTION = CoordinatorKeyType.GROUP, CoordinatorKeyType.TRANSACTION
# Far longer than necessary, for busy machines.
TIMEOUT_SECONDS = 60.0
SERVES = re.compile(r"^kraft: all nodes serve clients, at (\S+); data in \S+$", re.MULTILINE)


class Supervised:
    """A supervisor as a process, with its output in a file."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        self._path = directory.with_name(f"{directory.name}.out")
        with self._path.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "broker.cli", "cluster", "start", "--dir", str(directory), *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def output(self) -> str:
        return self._path.read_text()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until a line of the output matches."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (found := re.search(pattern, self.output(), re.MULTILINE)) is None:
            assert time.monotonic() < deadline, f"no {pattern} in:\n{self.output()}"
            assert self.process.poll() is None, f"it has ended:\n{self.output()}"
            time.sleep(0.02)
        return found

    def wait_serving(self) -> str:
        """Wait until all nodes serve. Returns their addresses."""
        return self.wait_for(SERVES.pattern)[1]

    def end(self, signal_number: int = signal.SIGINT) -> int:
        """Send a signal to the supervisor. Returns its exit code."""
        self.process.send_signal(signal_number)
        return self.process.wait(TIMEOUT_SECONDS)

    def node_pids(self) -> list[int]:
        """The process ids of its nodes."""
        return child_processes(self.process.pid)


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    """Start a supervisor on the test's directory: `supervise("--nodes", "1")`. It is killed at the end of the test."""
    started: list[Supervised] = []

    def start(*arguments: str) -> Supervised:
        started.append(Supervised(tmp_path / "cluster", *arguments))
        return started[-1]

    yield start
    for supervised in started:
        if supervised.process.poll() is None:
            for pid in supervised.node_pids():
                os.kill(pid, signal.SIGKILL)
            supervised.process.kill()
            supervised.process.wait()


def test_three_nodes_start_print_their_output_and_stop_with_ctrl_c(supervise: Callable[..., Supervised]) -> None:
    cluster = supervise("--first-port", "0")
    addresses = cluster.wait_serving()
    assert len(addresses.split(",")) == 3
    status = run_command("quorum", "--bootstrap-server", addresses, "describe", "--status")
    assert status.code == 0, status.errors
    assert status.output.count('"endpoints"') == 3
    pids = cluster.node_pids()
    assert len(pids) == 3
    assert cluster.end() == 0
    for node_id in (1, 2, 3):
        assert re.search(rf"^node {node_id} \| kraft: \S+ info node {node_id}: node_stopped$", cluster.output(), re.M)
    assert [pid for pid in pids if process_exists(pid)] == []


@pytest.mark.parametrize("nodes", [1, 2])
def test_consumer_groups_work_in_clusters_of_one_and_two_nodes(
    supervise: Callable[..., Supervised], nodes: int
) -> None:
    cluster = supervise("--first-port", "0", "--nodes", str(nodes), "--first-id", "0")
    bootstrap = cluster.wait_serving()
    assert "node 0 | kraft: node 0 of cluster " in cluster.output()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("topic", b"value")
    assert producer.flush(TIMEOUT_SECONDS) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "group", "auto.offset.reset": "earliest"})
    consumer.subscribe(["topic"])
    message = consumer.poll(TIMEOUT_SECONDS)
    while message is not None and (error := message.error()) is not None:
        # The other node may not know the topic yet; librdkafka reports that and continues.
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        message = consumer.poll(TIMEOUT_SECONDS)
    assert message is not None
    assert message.value() == b"value"
    consumer.close()
    assert warnings_in(cluster.output()) == []


@pytest.mark.parametrize("security", [each for each in LocalSecurity if each is not LocalSecurity.PLAINTEXT])
def test_secured_cluster_serves_only_clients_with_its_printed_configurations(
    supervise: Callable[..., Supervised], security: LocalSecurity
) -> None:
    nodes = "3" if security is LocalSecurity.SASL_PLAINTEXT else "1"
    cluster = supervise("--first-port", "0", "--nodes", nodes, "--security", security)
    address = cluster.wait_serving()
    directory = cluster.directory / "security"
    cluster.wait_for(f"^kraft: configurations of clients, with keys and passwords: {directory}$")
    for name in ("java", "kraft", "librdkafka", "spark"):
        assert (directory / f"{name}.properties").read_text() in cluster.output()
    with_config = ("--command-config", str(directory / "kraft.properties"))
    created = run_command(*with_config, "topics", "create", "topic")
    assert created.code == 0, created.errors
    lines = (directory / "librdkafka.properties").read_text().splitlines()[1:]
    producer = Producer(dict(line.split("=", 1) for line in lines))
    producer.produce("topic", b"value")
    assert producer.flush(TIMEOUT_SECONDS) == 0
    without = run_command("--timeout", "5s", "-b", address, "topics", "list")
    assert without.code != 0
    controllers = re.search(r"CONTROLLER://(localhost:\d+)", (cluster.directory / "node-1.properties").read_text())
    assert controllers is not None
    describe = ("quorum", "--bootstrap-controller", controllers[1], "describe", "--status")
    assert run_command("--timeout", "5s", *describe).code != 0
    if security is LocalSecurity.SASL_PLAINTEXT:
        described = run_command(*with_config, *describe)
        assert described.code == 0, described.errors
    secret = [cluster.directory, *directory.iterdir(), cluster.directory / "node-1.properties"]
    assert [path for path in secret if path.stat().st_mode & 0o077] == []
    assert cluster.end() == 0


def test_security_of_an_existing_cluster_cannot_be_changed(tmp_path: Path) -> None:
    directory = str(tmp_path / "cluster")
    env = real_env(lambda kind, /, **fields: None)

    async def make() -> None:
        await open_cluster(env, directory, 1, 0, security=LocalSecurity.MTLS)
        assert (await open_cluster(env, directory, None, 0))[0].security is LocalSecurity.MTLS
        await open_cluster(env, directory, None, 0, security=LocalSecurity.SASL_SSL)

    with pytest.raises(NotOneCluster, match="holds a cluster with --security mtls, and not sasl_ssl"):
        trio.run(make)


def test_missing_package_for_certificates_leaves_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "cluster"
    env = real_env(lambda kind, /, **fields: None)
    monkeypatch.delitem(sys.modules, "broker.security.tls.private_authority", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)

    async def make() -> None:
        await open_cluster(env, str(directory), 1, 0, security=LocalSecurity.SSL)

    with pytest.raises(MissingCryptography, match=r'package cryptography: pip install "kraft\[security\]"'):
        trio.run(make)
    assert not directory.exists()


@pytest.mark.parametrize(
    ("key", "key_type", "what"),
    [
        ("offsets.topic.replication.factor", GROUP, "no consumer group works before 3 brokers are there"),
        ("transaction.state.log.replication.factor", TRANSACTION, "no transaction works before 3 brokers are there"),
    ],
)
def test_the_operator_is_told_once_of_a_coordinators_topic_that_cannot_be_created(
    key: str, key_type: int, what: str, tmp_path: Path
) -> None:
    """For example, with a properties file for three nodes. Clients keep asking for their coordinator."""
    node = NodeProcess(tmp_path / "data", {key: "3"})
    try:
        node.start()
        found = trio.run(ask_for_coordinator, node.port, key_type, 30)
        assert found == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    finally:
        node.discard()
    warnings = warnings_in(node.output())
    assert len(warnings) == 2, warnings
    assert what in warnings[0]
    assert f"{key} is 3, and 1 broker is there" in warnings[1]


def warnings_in(output: str) -> list[str]:
    """The warnings, without those of a held event loop, which depend on the load of the machine."""
    return [line for line in output.splitlines() if "warning" in line and "loop_held" not in line]


async def ask_for_coordinator(port: int, key_type: int, times: int) -> set[int]:
    """The errors that FindCoordinator returns."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["key"])
    async with connected(port) as client:
        return {(await client.call(request, 6)).coordinators[0].error_code for _ in range(times)}


def test_a_node_that_dies_is_reported_and_the_others_go_on(supervise: Callable[..., Supervised]) -> None:
    cluster = supervise("--first-port", "0", "--nodes", "2")
    addresses = cluster.wait_serving()
    # One of two nodes is a controller; the other one is killed.
    (pid,) = [pid for pid in cluster.node_pids() if "node-2.properties" in command_of(pid)]
    os.kill(pid, signal.SIGKILL)
    report = cluster.wait_for(r"^kraft: node 2 has ended with SIGKILL; to start it again: kraft (.*)$")
    assert report[1].endswith("/cluster/node-2.properties")
    assert run_command("quorum", "--bootstrap-server", addresses, "describe", "--status").code == 0
    assert cluster.end(signal.SIGTERM) == 1  # one of its nodes was killed


def test_nodes_log_at_the_level_and_in_the_format_of_the_command(supervise: Callable[..., Supervised]) -> None:
    cluster = supervise("--first-port", "0", "--nodes", "1", "--log-level", "debug", "--log-format", "json")
    cluster.wait_serving()
    assert cluster.end() == 0
    events = [json.loads(line) for line in re.findall(r"^node 1 \| (\{.*\})$", cluster.output(), re.MULTILINE)]
    assert {"debug", "info"} <= {event["level"] for event in events}
    assert events[-1]["event"] == "node_stopped"


def test_the_supervisor_ends_when_no_node_is_left(supervise: Callable[..., Supervised]) -> None:
    cluster = supervise("--first-port", "0", "--nodes", "1", "--override", "log.dirs=/proc/nowhere")
    assert cluster.process.wait(TIMEOUT_SECONDS) == 1
    assert "node 1 | kraft: " in cluster.output()
    assert "kraft: node 1 has ended with exit code 1;" in cluster.output()


def test_a_second_signal_ends_nodes_that_do_not_stop(supervise: Callable[..., Supervised]) -> None:
    cluster = supervise("--first-port", "0", "--nodes", "1")
    cluster.wait_serving()
    (pid,) = cluster.node_pids()
    os.kill(pid, signal.SIGSTOP)  # a suspended process cannot handle the signal to stop
    cluster.process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        cluster.process.wait(0.5)
    assert cluster.end(signal.SIGTERM) == 1
    assert "kraft: node 1 has ended with SIGKILL;" in cluster.output()


@pytest.mark.parametrize("nodes", [1, 3])
def test_nodes_do_not_outlive_a_supervisor_that_is_killed(supervise: Callable[..., Supervised], nodes: int) -> None:
    """Nor does a node keep another one running, whose pipes it may have inherited."""
    cluster = supervise("--first-port", "0", "--nodes", str(nodes))
    cluster.wait_serving()
    pids = cluster.node_pids()
    assert len(pids) == nodes
    assert cluster.end(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not any(process_exists(pid) for pid in pids), "a node does not stop")
    assert (cluster.directory / f"node-{nodes}" / ".kafka_cleanshutdown").exists()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_nodes_have_the_command_lines_and_groups_of_processes_started_by_hand(
    supervise: Callable[..., Supervised],
) -> None:
    cluster = supervise("--first-port", "0", "--nodes", "2", "--override", "num.io.threads=3")
    cluster.wait_serving()
    properties = [f"{cluster.directory}/node-{node_id}.properties" for node_id in (1, 2)]
    arguments = ["--override num.io.threads=3 --stop-at-eof"]
    pids = cluster.node_pids()
    expected = [f"{sys.executable} -m broker.cli start {path} {arguments[0]}\n" for path in properties]
    assert sorted(command_of(pid) for pid in pids) == expected
    assert [os.getpgid(pid) for pid in pids] == pids


def test_kafka_server_stop_stops_one_node_of_a_local_cluster(supervise: Callable[..., Supervised]) -> None:
    cluster = supervise("--first-port", "0", "--nodes", "2", "--first-id", "1711")
    cluster.wait_serving()
    stop = [sys.executable, "-m", "broker.cli.kafka_tools", "kafka-server-stop", "--node-id", "1712"]
    subprocess.run(stop, check=True, timeout=TIMEOUT_SECONDS)
    cluster.wait_for(
        "^kraft: node 1712 has ended with exit code 0; to start it again: kraft start .*/node-1712.properties$"
    )
    assert len(cluster.node_pids()) == 1
    assert cluster.end() == 1


def test_nodes_of_a_directory_in_use_are_refused_and_the_running_ones_go_on(
    supervise: Callable[..., Supervised],
) -> None:
    cluster = supervise("--first-port", "0", "--nodes", "1")
    addresses = cluster.wait_serving()
    second = subprocess.run(
        [sys.executable, "-m", "broker.cli", "cluster", "start", "--dir", str(cluster.directory)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert second.returncode == 1
    assert "kraft: node 1 has ended with exit code 1;" in second.stdout
    assert run_command("quorum", "--bootstrap-server", addresses, "describe", "--status").code == 0
    assert cluster.end() == 0


def test_end_of_a_node_is_reported_if_the_parent_of_the_command_ignores_ends_of_processes(tmp_path: Path) -> None:
    """The kernel discards the exit codes of processes whose parent ignores SIGCHLD, and that is inherited."""
    command = [
        sys.executable,
        "-m",
        "broker.cli",
        "cluster",
        "start",
        "--dir",
        str(tmp_path / "c"),
        "--first-port",
        "0",
    ]
    command += ["--nodes", "1", "--override", "log.dirs=/proc/nowhere"]
    ignored = f"import os, signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv({command[0]!r}, {command!r})"
    ended = subprocess.run([sys.executable, "-c", ignored], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert "kraft: node 1 has ended with exit code 1;" in ended.stdout
    assert ended.returncode == 1


def test_nodes_start_on_a_system_that_cannot_change_command_lines(tmp_path: Path) -> None:
    """They execute the command then, under its own name."""
    arguments = ["cluster", "start", "--dir", str(tmp_path / "c"), "--first-port", "0", "--nodes", "1"]
    code = (
        "import sys, broker.cli.forked_process as forks; from broker.cli import main\n"
        "forks.replace_command_line = lambda words: False\n"
        f"sys.exit(main({arguments!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        serves = next((line for line in process.stdout if SERVES.match(line)), None)
        process.terminate()
        process.stdout.read()
    assert serves is not None
    assert process.returncode == 0


def make(directory: Path, nodes: int | None, first_port: int = 9092, first_id: int | None = None) -> list[LocalNode]:
    env = real_env(lambda kind, /, **fields: None)
    return trio.run(open_cluster, env, str(directory), nodes, first_port, first_id)


def test_a_new_cluster_is_formatted_once(tmp_path: Path) -> None:
    made = make(tmp_path, 3)
    assert [node.address for node in made] == ["localhost:9092", "localhost:9094", "localhost:9096"]
    content = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    assert make(tmp_path, None) == made
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()} == content


@pytest.mark.parametrize(("nodes", "controllers"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (7, 5)])
def test_an_odd_number_of_the_nodes_are_controllers(tmp_path: Path, nodes: int, controllers: int) -> None:
    made = make(tmp_path, nodes)
    configs = [read_config(Path(node.properties_path).read_bytes()) for node in made]
    assert [config.is_controller for config in configs] == [index < controllers for index in range(nodes)]
    assert all(config.is_broker for config in configs)
    assert {len(config.quorum_bootstrap_servers) for config in configs} == {controllers}


@pytest.mark.parametrize(("nodes", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (4, 3, 2)])
def test_the_topics_of_coordinators_have_as_many_replicas_as_there_are_nodes_for(
    tmp_path: Path, nodes: int, replicas: int, in_sync: int
) -> None:
    for node in make(tmp_path, nodes):
        config = read_config(Path(node.properties_path).read_bytes())
        assert config.offsets_topic_replication_factor == replicas
        for topic in ("transaction.state.log", "share.coordinator.state.topic"):
            assert config.values[f"{topic}.replication.factor"] == replicas
            assert config.values[f"{topic}.min.isr"] == in_sync
        assert config.ignored() == []


@pytest.mark.parametrize("nodes", [1, 3, 4])
def test_the_first_id_may_be_chosen(tmp_path: Path, nodes: int) -> None:
    made = make(tmp_path, nodes, first_id=0)
    assert [node.node_id for node in made] == list(range(nodes))
    assert [node.address for node in made] == [f"localhost:{9092 + 2 * index}" for index in range(nodes)]
    assert [read_config(Path(node.properties_path).read_bytes()).node_id for node in made] == list(range(nodes))
    assert make(tmp_path, None) == make(tmp_path, nodes, first_id=0) == made


def test_a_cluster_that_was_made_in_part_only_is_none(tmp_path: Path) -> None:
    """A crash while the cluster was created: the files of the last nodes exist, and that of the first does not."""
    Path(make(tmp_path, 3)[0].properties_path).unlink()
    with pytest.raises(NotOneCluster, match="holds no cluster"):
        make(tmp_path, None)


def test_a_directory_may_have_any_name(tmp_path: Path) -> None:
    directory = tmp_path / "Zürich \\ 東京 😀 #1"
    make(directory, 1)
    config = read_config((directory / "node-1.properties").read_bytes())
    assert config.log_directories == (str(directory / "node-1"),)
    assert (directory / "node-1" / "meta.properties").exists()


@pytest.mark.parametrize(
    ("existing", "arguments", "message"),
    [
        (["meta.properties"], [], "is not empty, and holds no cluster that this command has made"),
        (["node-1.properties"], ["--nodes", "3"], "holds a cluster of 1 nodes, and not of 3"),
        (["node-1.properties"], ["--first-id", "0"], "holds a cluster whose first node is 1, and not 0"),
    ],
)
def test_a_directory_with_another_content_is_refused_and_left_alone(
    tmp_path: Path, existing: list[str], arguments: list[str], message: str
) -> None:
    for name in existing:
        (tmp_path / name).write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
            "controller.quorum.bootstrap.servers=localhost:9093"
        )
    answer = run_command("cluster", "start", "--dir", str(tmp_path), *arguments)
    assert (answer.code, answer.errors) == (1, f"kraft: {tmp_path} {message}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == existing


def test_a_cluster_has_at_least_one_node() -> None:
    answer = run_command("cluster", "start", "--nodes", "0")
    assert (answer.code, answer.output) == (2, "")
    assert "'--nodes': 0 is not in the range 1<=x<=100" in answer.errors


@pytest.mark.parametrize("nodes", ["0", "101", "100000"])
def test_number_of_nodes_is_bounded(tmp_path: Path, nodes: str) -> None:
    """The directories of 100,000 nodes filled the disk; with free ports, the command ended in a traceback."""
    directory = tmp_path / "data"
    for ports in ("9092", "0"):
        answer = run_command("cluster", "start", "--nodes", nodes, "--first-port", ports, "--dir", str(directory))
        assert (answer.code, answer.output) == (Exit.USAGE, "")
        assert "is not in the range 1<=x<=100" in answer.errors
    assert not directory.exists()
