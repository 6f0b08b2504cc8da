"""`kraft start` with several brokers of one host, as a process with a real client."""

import contextlib
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from broker.cli.host_brokers import FIRST_DELAY_S, LAST_DELAY_S, restart_delay_s, say
from broker.cli.host_formatting import format_host
from broker.cli.kafka_tools import server_stop
from broker.cli.kafka_tools.tools import main, run_tool
from broker.cli.node_config import read_host
from broker.cli.printing import print_error
from broker.storage.meta_properties import read_meta_properties
from jepsen.processes.launcher import NODE
from jepsen.processes.ports import free_ports
from jepsen.processes.server_process import ServerProcess
from kraft.env import RealDisk
from tests.support.cluster_process import random_uuid, run_command
from tests.support.committed_records import committed_values
from tests.support.confluent_driver import create_replicated_topic
from tests.support.internal_topics import FEW_PARTITIONS
from tests.support.linux import child_processes, command_of, process_exists, reads_proc
from tests.support.node_process import KRAFT
from tests.support.scraped_metrics import Scrape, get

# Far longer than necessary, for busy machines.
TIMEOUT_S = 60.0


class HostProcess(ServerProcess):
    """`kraft start` with two brokers, and its data in `directory`. Clients find the brokers at ports 10 apart."""

    def __init__(self, directory: Path, *overrides: str) -> None:
        super().__init__(directory.with_name(f"{directory.name}.out"))
        self.properties_path = directory.with_name(f"{directory.name}.properties")
        self.port, self.controller_port = _free_port_pair(), free_ports(1)[0]
        self.settings = {
            "kraft.brokers": "2",
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "log.dirs": str(directory),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            **FEW_PARTITIONS,
        }
        self.settings |= dict(each.split("=", 1) for each in overrides)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port},127.0.0.1:{self.port + 10}"

    def write_properties(self) -> Path:
        self.properties_path.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        return self.properties_path

    def command(self) -> list[str]:
        return [KRAFT, "start", str(self.write_properties())]

    def launch(self) -> None:
        self.fork(NODE, self.command()[1:])

    def launch_by_command(self) -> None:
        """Start it with the command line of the command, by which kafka-server-stop finds it."""
        super().launch()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until a line of the output matches."""
        deadline = time.monotonic() + TIMEOUT_S
        while (found := re.search(pattern, self.output(), re.MULTILINE)) is None:
            assert time.monotonic() < deadline, f"no {pattern} in:\n{self.output()}"
            assert self.is_running, f"it has ended:\n{self.output()}"
            time.sleep(0.02)
        return found

    def start(self) -> None:
        self.launch()
        self.wait_serving()

    def wait_serving(self) -> None:
        self.wait_for("^kraft: all 2 brokers of this host serve: ")

    def end(self, signal_number: int = signal.SIGTERM) -> int:
        """Send a signal to the supervisor. Returns its exit code."""
        self.send(signal_number)
        return self.process.wait(TIMEOUT_S)

    def brokers(self) -> list[int]:
        """The process ids of the brokers, in no order."""
        return child_processes(self.pid)

    def broker(self, node_id: int) -> int:
        """The process id of a broker that runs."""
        (found,) = [pid for pid in self.brokers() if f"--override node.id={node_id} " in command_of(pid)]
        return found

    def discard(self) -> None:
        if self.is_running:
            for pid in self.brokers():
                os.kill(pid, signal.SIGKILL)
        super().discard()


def _free_port_pair() -> int:
    """A free port, of which the port 10 above is free, too."""
    while True:
        (port,) = free_ports(1)
        with socket.socket() as second:
            try:
                second.bind(("", port + 10))
            except OSError:
                continue
            return port


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[..., HostProcess]]:
    """Make a host with a data directory: `host("a", "key=value")`. All processes end with the test."""
    made: list[HostProcess] = []

    def make(name: str, *overrides: str) -> HostProcess:
        made.append(HostProcess(tmp_path / name, *overrides))
        return made[-1]

    yield make
    for each in made:
        each.discard()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def leaders_of(bootstrap: str, topic: str) -> dict[int, int]:
    """The leader of each partition; -1 for one without."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    return {number: partition.leader for number, partition in found.partitions.items()}


def produce(bootstrap: str, topic: str, partitions: int, value: bytes) -> list[object]:
    """Write a record to each partition. Returns the errors."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for partition in range(partitions):
        producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    return [error for error in errors if error is not None]


def scraped(port: int) -> dict[str, dict[str, float]]:
    """The metrics of a page: the value of each broker."""
    text = trio.run(get, port, "/metrics").body
    values: dict[str, dict[str, float]] = {}
    for name, labels, value in Scrape(text).samples:
        values.setdefault(name, {})[labels["broker"]] = value
    return values


@reads_proc
def test_broker_that_is_killed_comes_back_with_its_records(
    host: Callable[..., HostProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = free_ports(1)[0]
    running = host("data", f"http.listener=127.0.0.1:{http}")
    running.launch_by_command()
    running.wait_serving()
    create_replicated_topic(running.bootstrap, "t", 4, 1)
    assert set(leaders_of(running.bootstrap, "t").values()) == {1, 2}
    assert produce(running.bootstrap, "t", 4, b"before") == []
    assert scraped(http)["kraft_broker_up"] == {"1": 1, "2": 1}
    assert scraped(http)["kafka_server_replicamanager_leadercount"] == {"1": 2, "2": 2}
    os.kill(running.broker(2), signal.SIGKILL)
    running.wait_for(
        r"^kraft: \S+ warning node 1: broker_process_ended: broker 2 has ended with SIGKILL, and is started again in "
        r"0\.25 s$"
    )
    assert produce(running.bootstrap, "t", 4, b"during") == []
    assert committed_values(running.bootstrap, "t") == [b"before"] * 4 + [b"during"] * 4
    assert scraped(http)["kraft_broker_up"] == {"1": 1, "2": 1}, "the port of the new process is known"

    # kafka-server-stop leaves the brokers to their supervisor. It must not find the nodes of other tests.
    for pid in (running.pid, *(pids := running.brokers())):
        (tmp_path / "processes").mkdir(exist_ok=True)
        (tmp_path / "processes" / str(pid)).symlink_to(f"/proc/{pid}")
    monkeypatch.setattr(server_stop, "_PROCESSES", tmp_path / "processes")
    assert trio.run(run_tool, "kafka-server-stop", []) == 0
    assert running.process.wait(TIMEOUT_S) == 0
    assert len(pids) == 2
    assert not any(map(process_exists, pids))
    stopped = re.findall(r" node (\d): node_stopped$", running.output(), re.MULTILINE)
    assert stopped == ["2", "1"], "the controller has to be there for the shutdown of the other broker"
    for node_id in (1, 2):
        assert (tmp_path / "data" / f"broker-{node_id}" / ".kafka_cleanshutdown").exists()


def test_broker_that_is_stopped_starts_again_at_once_and_none_outlives_the_supervisor(
    host: Callable[..., HostProcess],
) -> None:
    """So `kraft cluster restart --rolling` restarts the brokers of a host with kafka-server-stop."""
    running = host("data", "node.id=1711")
    running.start()
    pid = running.broker(1712)
    assert main(["kafka-server-stop", "--node-id", "1712"]) == 0
    running.wait_for("broker_process_ended: broker 1712 has ended with exit code 0, and is started again in 0.0 s$")
    running.wait_for(r"(?s)node 1712: node_stopped.*^broker 1712 \| kraft: node 1712 of cluster")
    assert running.broker(1712) != pid
    # The directories are in use.
    second = host("data", "node.id=1711")
    second.launch()
    assert second.process.wait(TIMEOUT_S) == 1
    assert re.search(r"^broker 171[12] \| kraft: Failed to acquire lock on file", second.output(), re.MULTILINE), (
        second.output()
    )
    assert re.search(r"^kraft: broker 171[12] has ended with exit code 1 before all", second.output(), re.MULTILINE)

    pids = running.brokers()
    assert running.end(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not any(map(process_exists, pids)), "a broker outlives the supervisor")


def test_start_fails_if_a_broker_cannot_listen(host: Callable[..., HostProcess]) -> None:
    refused = host("data")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", refused.port + 10))
        taken.listen()
        refused.launch()
        assert refused.process.wait(TIMEOUT_S) == 1
    output = refused.output()
    assert f"broker 2 | kraft: Socket server failed to bind to 127.0.0.1:{refused.port + 10}:" in output
    assert "kraft: broker 2 has ended with exit code 1 before all brokers of this host served: all stop" in output


def test_start_fails_if_the_page_of_metrics_cannot_listen(host: Callable[..., HostProcess]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = host("data", f"http.listener=127.0.0.1:{taken.getsockname()[1]}")
        refused.launch()
        assert refused.process.wait(TIMEOUT_S) == 1
    assert "kraft: Socket server failed to bind to 127.0.0.1:" in refused.output()


def test_replicas_of_two_hosts_never_share_a_host(host: Callable[..., HostProcess], tmp_path: Path) -> None:
    first, second = hosts = [host("a", "node.id=1"), host("b", "node.id=11")]
    voters = {1: first, 11: second}
    servers = ",".join(f"127.0.0.1:{each.controller_port}" for each in hosts)
    controllers = ",".join(
        f"{node_id}@127.0.0.1:{each.controller_port}:{random_uuid()}" for node_id, each in voters.items()
    )
    cluster_id = random_uuid()
    for each in hosts:
        each.settings["controller.quorum.bootstrap.servers"] = servers
        file = str(each.write_properties())
        made = run_command("format", "-c", file, "-t", cluster_id, "--initial-controllers", controllers)
        assert made.code == 0, made.errors
        each.launch()
    for each in hosts:
        each.wait_serving()
    create_replicated_topic(first.bootstrap, "t", 8, 2)
    found = AdminClient({"bootstrap.servers": second.bootstrap}).list_topics("t", timeout=TIMEOUT_S)
    assert set(found.brokers) == {1, 2, 11, 12}
    placed = [sorted(partition.replicas) for partition in found.topics["t"].partitions.values()]
    assert all(low in (1, 2) and high in (11, 12) for low, high in placed), placed
    assert {node_id for replicas in placed for node_id in replicas} == {1, 2, 11, 12}
    for each in hosts:
        each.send(signal.SIGTERM)
    assert [each.process.wait(TIMEOUT_S) for each in hosts] == [0, 0]


def test_data_of_a_single_node_is_not_taken_for_that_of_several(host: Callable[..., HostProcess]) -> None:
    single = host("data", "kraft.brokers=1")
    assert run_command("format", "-c", str(single.write_properties()), "-t", random_uuid(), "--standalone").code == 0
    several = host("data")
    several.launch()
    assert several.process.wait(TIMEOUT_S) == 1
    assert "holds the data of a node without kraft.brokers" in several.output()
    # Formatting is refused as well.
    answer = run_command("format", "-c", str(several.properties_path), "-t", random_uuid(), "--standalone")
    assert answer.code == 1
    assert "holds the data of a node without kraft.brokers" in answer.errors


def test_data_of_several_brokers_is_not_taken_for_that_of_a_single_node(host: Callable[..., HostProcess]) -> None:
    """For example, if --brokers was forgotten."""
    several = host("data")
    assert run_command("format", "-c", str(several.write_properties()), "-t", random_uuid(), "--standalone").code == 0
    single = host("data", "kraft.brokers=1")
    single.launch()
    assert single.process.wait(TIMEOUT_S) == 1
    assert "data holds the data of several brokers of one host. Start them with" in single.output()


def test_delays_of_restarts_double_up_to_a_bound() -> None:
    assert [restart_delay_s(failures) for failures in (1, 2, 3)] == [
        FIRST_DELAY_S,
        2 * FIRST_DELAY_S,
        4 * FIRST_DELAY_S,
    ]
    assert restart_delay_s(1_000_000) == LAST_DELAY_S


def test_line_without_a_reader_does_not_end_the_brokers() -> None:
    """For example, of a pipe that was closed, or on a disk that is full."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    with contextlib.redirect_stderr(stream):
        say("kraft: a line", print_error)
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_broker_with_a_directory_that_cannot_be_read_is_not_formatted_again(tmp_path: Path) -> None:
    """The start leaves it to the broker, which serves without that directory."""
    overrides = ["kraft.brokers=2", f"log.dirs={tmp_path}/a,{tmp_path}/b"]
    configs = [broker.config for broker in read_host(None, overrides).brokers]
    assert format_host(configs) == 0
    shutil.rmtree(tmp_path / "a" / "broker-2")
    (tmp_path / "a" / "broker-2").write_text("no directory")
    before = (tmp_path / "b" / "broker-2" / "meta.properties").read_bytes()
    assert format_host(configs) == 0
    assert (tmp_path / "b" / "broker-2" / "meta.properties").read_bytes() == before


def test_new_metadata_is_not_founded_beside_brokers_that_have_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configs = [broker.config for broker in read_host(None, ["kraft.brokers=2", f"log.dirs={tmp_path}"]).brokers]
    assert format_host(configs) == 0
    shutil.rmtree(tmp_path / "broker-1")
    assert format_host(configs) == 1
    assert "its metadata is lost" in capsys.readouterr().err
    assert not (tmp_path / "broker-1").exists()


def test_broker_that_is_added_joins_the_cluster_of_the_first(tmp_path: Path) -> None:
    for brokers in (2, 3):
        overrides = [f"kraft.brokers={brokers}", f"log.dirs={tmp_path}"]
        assert format_host([broker.config for broker in read_host(None, overrides).brokers]) == 0
    stored = [read_meta_properties(RealDisk(), f"{tmp_path}/broker-{node_id}") for node_id in (1, 2, 3)]
    assert len({each.cluster_id for each in stored if each is not None}) == 1
    assert [None if each is None else each.node_id for each in stored] == [1, 2, 3]
