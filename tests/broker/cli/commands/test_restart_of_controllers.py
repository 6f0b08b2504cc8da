"""`kraft cluster restart --rolling` where a node that has stopped cannot be seen in the health of the cluster."""

import gc
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli.grammar import Exit
from tests.support.cluster_process import ClusterProcess, new_cluster, run_command

CONTROLLERS = (1, 2, 3)
BROKER = 4


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterProcess]:
    """Three controllers, and one broker that closes idle connections."""
    roles = dict.fromkeys(CONTROLLERS, "controller") | {BROKER: "broker"}
    idle = {"connections.max.idle.ms": "5000"}
    with new_cluster(tmp_path, voters=CONTROLLERS, others=roles, overrides=idle) as cluster:
        cluster.start()
        monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", cluster.bootstrap)
        cluster.ask_every_broker(lambda health: health["is_healthy"], "cluster", "health")
        yield cluster


def restart(*arguments: str) -> tuple[int, str]:
    answer = run_command("cluster", "restart", "--rolling", "--timeout", "8s", *arguments)
    return answer.code, answer.errors


def test_rolling_restart_stops_at_a_controller_that_does_not_come_back(cluster: ClusterProcess, tmp_path: Path) -> None:
    for node_id in CONTROLLERS:
        (tmp_path / f"{node_id}.pid").write_text(str(cluster.nodes[node_id].process.pid))
    command = f"sh -c 'kill -TERM $(cat {tmp_path}/{{id}}.pid)'"
    code, errors = restart("--nodes", "1,2", "--restart-command", command)
    assert code == Exit.FAILED, errors
    assert not cluster.nodes[1].is_running
    assert cluster.nodes[2].is_running
    assert "Node 1 has stopped, and does not accept connections 8 s later: start it." in errors


def test_connection_that_a_node_closes_for_being_idle_is_no_restart(cluster: ClusterProcess) -> None:
    pid = cluster.nodes[BROKER].process.pid
    code, errors = restart("--nodes", str(BROKER), "--restart-command", "true")
    assert cluster.nodes[BROKER].process.pid == pid
    os.kill(pid, 0)
    assert code == Exit.FAILED, errors
    assert f"Node {BROKER} has not stopped" in errors


def test_restart_command_that_does_not_end_is_left_running(cluster: ClusterProcess, tmp_path: Path) -> None:
    pid_path = tmp_path / "pid"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of a process that is not waited for: it is left on purpose
        code, errors = restart(
            *("--timeout", "1s", "--nodes", "1", "--restart-command"), f"sh -c 'echo $$ > {pid_path}; exec sleep 600'"
        )
        gc.collect()
    pid = int(pid_path.read_text())
    os.kill(pid, signal.SIGKILL)
    assert code == Exit.FAILED
    assert f"The restart command of node 1 has not ended after 1 s. It runs on as process {pid}." in errors


def test_restart_command_may_leave_a_process_that_holds_its_output(cluster: ClusterProcess, tmp_path: Path) -> None:
    pid_path = tmp_path / "pid"
    code, errors = restart(
        *("--timeout", "1s", "--nodes", "1", "--restart-command"), f"sh -c 'sleep 600 & echo $! > {pid_path}'"
    )
    os.kill(int(pid_path.read_text()), signal.SIGKILL)
    assert code == Exit.FAILED
    assert "Node 1 has not stopped: its connections stay open 1 s after the command." in errors
