"""The processes, ports and directories of a test server are gone after any of its processes was killed."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jepsen.testing import Cluster
from jepsen.testing.control_client import ControlClient
from jepsen.testing.server_lease import ServerLease
from tests.support.linux import HAS_PROC, process_exists
from tests.support.node_process import KRAFT

WITHIN_S = 60


def wait_until(holds: Callable[[], bool], problem: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, problem
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """True if the process exists and is no zombie, whose parent need not be waiting for it."""
    if not HAS_PROC:
        ps = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return bool(ps.stdout.strip()) and not ps.stdout.startswith("Z")
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return False
    return status.split()[0] != "Z"


def is_free(address: str) -> bool:
    """True if the port can be bound. The main thread of a killed process is a zombie before its last thread has ended,
    which closes the sockets.
    """
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", int(address.rpartition(":")[2])))
        except OSError:
            return False
    return True


def assert_gone(pids: list[int], directory: str, addresses: str) -> None:
    for pid in pids:
        wait_until(lambda pid=pid: not is_running(pid), f"process {pid} runs")
    wait_until(lambda: not os.path.exists(directory), f"{directory} is there")
    for address in addresses.split(","):
        wait_until(lambda address=address: is_free(address), f"{address} is in use")


@pytest.mark.parametrize("victim", ["supervisor", "zygote"])
def test_nodes_end_with_a_killed_process_also_when_they_are_paused(victim: str) -> None:
    server = ServerLease.start()
    try:
        processes = server.client.request("GET", "/")
        cluster = Cluster(3, server=server)
        cluster.pause(node=2)
        pids = [node["pid"] for node in cluster.nodes]
        os.kill(processes[victim], signal.SIGKILL)
        assert_gone(
            [*pids, processes["supervisor"], processes["zygote"]], processes["directory"], cluster.bootstrap_servers
        )
    finally:
        server.release()


def test_server_ends_with_its_last_lease_and_clusters_with_theirs() -> None:
    first = ServerLease.start()
    processes = first.client.request("GET", "/")
    second = ServerLease(first.client, first.client.take_lease())
    cluster, other = Cluster(1, server=first), Cluster(1, server=second)
    pids = [node["pid"] for each in (cluster, other) for node in each.nodes]
    first.release()
    wait_until(lambda: second.client.request("GET", "/")["clusters"] == [other.name], "the cluster did not end")
    other.produce(other.topic("orders"), ["one"])
    second.release()
    assert_gone([*pids, processes["zygote"]], processes["directory"], other.bootstrap_servers)


def test_command_ends_with_its_parent_without_a_pipe(tmp_path: Path) -> None:
    output = tmp_path / "output"
    command = f"exec 0</dev/null; {KRAFT} test-server --nodes 1 >{output} & wait"
    with subprocess.Popen(["bash", "-c", command]) as parent:
        wait_until(lambda: output.exists() and output.read_text().endswith("\n"), "it does not serve")
        parent.kill()
    cluster = json.loads(output.read_text())["cluster"]
    [node] = cluster["nodes"]
    assert_gone([node["pid"]], str(Path(node["log"]).parent), cluster["bootstrap_servers"])


def test_zygote_ends_quietly_with_a_supervisor_that_has_not_read_its_last_report(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A socket that is closed with reports in it resets the zygote's end."""
    server = ServerLease.start()
    processes = server.client.request("GET", "/")
    cluster = Cluster(3, server=server)
    pids = [node["pid"] for node in cluster.nodes]
    os.kill(processes["supervisor"], signal.SIGSTOP)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        wait_until(lambda pid=pid: not process_exists(pid), f"node {pid} is not reaped")
    os.kill(processes["supervisor"], signal.SIGKILL)
    assert_gone([processes["zygote"]], processes["directory"], cluster.bootstrap_servers)
    server.release()
    assert "Traceback" not in capfd.readouterr().err


def test_command_ends_well_when_a_lease_with_clusters_ends_at_the_same_time() -> None:
    command = [KRAFT, "test-server", "--nodes", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        client = ControlClient(json.loads(process.stdout.readline())["control"])
        lease = client.take_lease()
        clusters = [client.request("POST", "/clusters", {"lease": lease.name}) for _ in range(3)]
        directory = client.request("GET", "/")["directory"]
        lease.release()
        process.stdin.close()
        assert (process.wait(WITHIN_S), process.stderr.read()) == (0, b"")
    addresses = ",".join(cluster["bootstrap_servers"] for cluster in clusters)
    assert_gone([node["pid"] for cluster in clusters for node in cluster["nodes"]], directory, addresses)
