"""Incidents of docs/debugging.md: a full disk, a wrong clock, damage, a small quota, a dead voter.

Each test makes the trouble, reads what is printed, does what it says, and finds the cluster healthy again.
"""

import re
import resource
import shlex
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli.commands.clock_health import clock_problems
from broker.cli.grammar import Exit
from broker.client import SyncProducer
from broker.client.admin import LogDir
from broker.metrics.catalogue import clients, process
from jepsen.processes.ports import free_ports
from tests.support.assigned_topics import create_assigned
from tests.support.cluster_process import ClusterProcess, new_cluster, run_command
from tests.support.command_output import ask, succeed
from tests.support.incidents import HEALTH, commands, delete_topics, problem, type_command, until_healthy
from tests.support.linux import limits_processes
from tests.support.node_process import NodeProcess

HOUR_S = 3600
SPARE = 3
QUOTA = "producer_byte_rate"


class WrongClock(NodeProcess):
    """A node whose clock is an hour ahead."""

    def command(self) -> list[str]:
        _, *arguments = super().command()
        return [sys.executable, "-m", "tests.support.shifted_clock", str(HOUR_S), *arguments]


@pytest.fixture(scope="module")
def _brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    others = {2: "broker", SPARE: "broker"}
    with new_cluster(tmp_path_factory.mktemp("incidents"), voters=(1,), others=others) as cluster:
        for node, port in zip(cluster.nodes.values(), free_ports(3), strict=True):
            node.overrides["http.listener"] = f"127.0.0.1:{port}"
        cluster.start()
        yield cluster


@pytest.fixture
def brokers(_brokers: ClusterProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterProcess]:
    """A combined node and two brokers. Each test leaves them healthy; its topics are deleted."""
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", _brokers.nodes[1].bootstrap)
    yield _brokers
    delete_topics()


def write(cluster: ClusterProcess, topic: str, count: int, size: int = 1_000, client_id: str = "writer") -> None:
    """Write so many values, each in a batch of its own."""
    with SyncProducer(cluster.nodes[1].bootstrap, client_id=client_id) as producer:
        for number in range(count):
            producer.send(topic, b"%d %s" % (number, b"x" * size), partition=0)


def scraped(node: NodeProcess, metric: str) -> dict[str, float]:
    """The values of a metric by their labels."""
    with urllib.request.urlopen(f"http://{node.overrides['http.listener']}/metrics") as response:
        lines = response.read().decode().splitlines()
    found = (re.fullmatch(rf"{metric}(\{{.*\}})? (\S+)", line) for line in lines)
    return {match[1] or "": float(match[2]) for match in found if match}


@limits_processes
def test_broker_whose_disk_is_full_ends_and_is_started_again_after_room_was_made(brokers: ClusterProcess) -> None:
    """The limit is one on the size of files of the process, which has the effects of a full volume on a log."""
    create_assigned(brokers, "orders", [SPARE, 1])
    write(brokers, "orders", 300)
    node = brokers.nodes[SPARE]
    (segment,) = (node.data_dir / "orders-0").glob("*.log")
    size = len(segment.read_bytes().rstrip(b"\0"))
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (size + 2_000, resource.RLIM_INFINITY))
    with SyncProducer(brokers.nodes[1].bootstrap) as producer:
        for _ in range(20):
            producer.send_soon("orders", b"x" * 1_000, partition=0)
        node.wait_ended(30)
        line = problem(f"! broker {SPARE} is down: start it again with `kraft start <its server.properties>`")
        assert "whose last lines say why if it ends (a full disk, a lost disk)" in line
        assert str(node.data_dir) in node.output_tail()
        node.start()
    until_healthy()


def test_damage_of_the_only_replica_is_trimmed_as_health_says(brokers: ClusterProcess, tmp_path: Path) -> None:
    create_assigned(brokers, "orders", [2], internal_segment_bytes="1000", index_interval_bytes="100")
    write(brokers, "orders", 40, 100)
    segments = sorted((brokers.nodes[2].data_dir / "orders-0").glob("*.log"))
    data = bytearray(segments[1].read_bytes())
    data[70] ^= 0x10  # in the first record
    with segments[1].open("r+b") as file:
        file.write(data[:100])
    # A consumer makes the leader check the old records.
    read = run_command("consume", "orders", "-e")
    assert "corrupt" in read.errors
    line = problem("! orders-0 is damaged on broker 2, at offsets ")
    assert str(segments[1]) in line
    (trim,) = commands(line)
    assert trim.startswith("kraft topics trim orders:0 --before-offset ")
    type_command(trim, tmp_path)
    until_healthy()
    assert run_command("consume", "orders", "-e").code == Exit.OK


def test_quota_that_starves_a_client_is_named_by_the_broker(brokers: ClusterProcess) -> None:
    create_assigned(brokers, "orders", [1])
    succeed("quotas", "set", "client-id=starved", f"{QUOTA}=1000")
    write(brokers, "orders", 3, 5_000, client_id="starved")
    output = brokers.nodes[1].output()
    (line,) = (line for line in output.splitlines() if "client_throttled" in line)
    assert f"The quota {QUOTA} of 1,000 makes client-id=starved pause for " in line
    assert max(scraped(brokers.nodes[1], clients.PRODUCE_THROTTLE_TIME.name).values()) > 1000, "the alert fires"
    assert run_command(*HEALTH).code == Exit.OK, "the docs say that health does not see quotas"
    (command,) = re.findall(r"kraft (quotas set \S+ \S+=LARGER)", line)
    succeed(*shlex.split(command.replace("LARGER", "1e9")))
    began = time.monotonic()
    write(brokers, "orders", 3, 5_000, client_id="starved")
    assert time.monotonic() - began < 5
    succeed("quotas", "remove", "client-id=starved", QUOTA)


def test_clock_that_is_an_hour_ahead_is_named_until_it_is_set(brokers: ClusterProcess) -> None:
    right, listener = brokers.nodes[SPARE], brokers.nodes[SPARE].overrides["http.listener"]
    right.stop()
    wrong = brokers.nodes[SPARE] = WrongClock(right.data_dir, right.overrides, (right.port, right.controller_port))
    try:
        wrong.start()
        line = problem(f"! the clock of broker {SPARE} is ")
        assert re.match(rf" *! the clock of broker {SPARE} is (59m|1h).* ahead of that of most other nodes: ", line)
        assert line.endswith("set it, and run NTP on every node")
        (clock_s,) = scraped(wrong, process.WALL_CLOCK.name).values()
        assert abs(clock_s - time.time() - HOUR_S) < 10, f"{listener} has the alert's metric"
        wrong.stop()
    finally:
        wrong.discard()
        brokers.nodes[SPARE] = right
    right.start()
    until_healthy()


def test_dead_voter_loses_its_vote_as_health_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_cluster(tmp_path, voters=(1,), others={2: "controller", 3: "controller"}) as cluster:
        cluster.start()
        monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", cluster.nodes[1].bootstrap)
        for joining in (2, 3):
            answer = cluster.add_controller(joining)
            assert answer.code == Exit.OK, answer.errors
        cluster.nodes[3].kill()
        line = problem("! controller 3 is down: ")
        assert run_command(*HEALTH).output.count("no further one may be lost") == 1
        (remove,) = commands(line)
        type_command(remove, tmp_path)
        until_healthy()
        assert [each["id"] for each in ask(*HEALTH)["controllers"]] == [1, 2]


def log_dir(clock_ms: int | None) -> dict[str, LogDir]:
    return {"/data": LogDir(None, {}, None, None, False, clock_ms=clock_ms)}


NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("clocks", "problems"),
    [
        ({1: 0, 2: 5_000, 3: -9_000}, []),
        ({1: 0, 2: 0, 3: 3_601_000}, ["the clock of broker 3 is 1h ahead of that of most other nodes"]),
        ({1: 0, 2: 0, 3: -3_600_000}, ["the clock of broker 3 is 1h after that of most other nodes"]),
        ({1: 60_000}, ["the clock of broker 1 is 59s ahead of that of this machine"]),
        # The clock of this machine is wrong.
        ({1: 60_000, 2: 60_000, 3: 60_000}, []),
        ({1: None}, []),
    ],
)
def test_clocks_are_compared_with_most_others(clocks: dict[int, int | None], problems: list[str]) -> None:
    """A broker answers at some time between the question and the answer, here within a second."""
    log_dirs = {broker: log_dir(None if clock is None else NOW_MS + clock) for broker, clock in clocks.items()}
    found = list(clock_problems(log_dirs, NOW_MS, NOW_MS + 1_000))
    assert [each.partition(":")[0] for each in found] == problems
