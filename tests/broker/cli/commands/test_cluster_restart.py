"""`kraft cluster restart --rolling` and `kraft cluster rejoin` on running nodes."""

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.cli.grammar import Exit
from tests.support.cluster_process import WITHIN_S, ClusterProcess, new_cluster, run_command


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    with new_cluster(tmp_path_factory.mktemp("restart")) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture(autouse=True)
def _servers(cluster: ClusterProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", cluster.bootstrap)


class Restarts:
    """Restarts nodes when the restart command asks for it, by two named pipes."""

    def __init__(self, cluster: ClusterProcess, directory: Path) -> None:
        self.ids: list[int] = []
        self._cluster = cluster
        self._asked, self._done = directory / "asked", directory / "done"
        for path in (self._asked, self._done):
            os.mkfifo(path)
        self.command = f"sh -c 'echo {{id}} > {self._asked} && read done < {self._done}'"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while line := self._asked.read_text():
            node_id = int(line)
            self.ids.append(node_id)
            self._cluster.nodes[node_id].stop()
            self._cluster.nodes[node_id].start()
            self._done.write_text("done\n")

    def end(self) -> None:
        self._asked.write_text("")
        self._thread.join(WITHIN_S)


def healthy(cluster: ClusterProcess) -> None:
    cluster.ask_every_broker(lambda health: health["is_healthy"], "cluster", "health")


def test_rolling_restart_restarts_the_active_controller_last(cluster: ClusterProcess, tmp_path: Path) -> None:
    healthy(cluster)
    assert run_command("topics", "create", "kept", "-p", "3", "-r", "3").code == Exit.OK
    active = cluster.controller_id()
    restarts = Restarts(cluster, tmp_path)
    planned = run_command("cluster", "restart", "--rolling", "--restart-command", restarts.command, "--dry-run")
    assert (planned.code, restarts.ids) == (Exit.OK, [])
    answer = run_command("cluster", "restart", "--rolling", "--restart-command", restarts.command, "--json")
    restarts.end()
    assert answer.code == Exit.OK, answer.errors
    assert json.loads(answer.output) == {"dry_run": False, "nodes": restarts.ids}
    assert sorted(restarts.ids) == [1, 2, 3]
    assert restarts.ids[-1] == active
    assert f"node {active} is restarted and in sync, 3 of 3." in answer.errors
    assert json.loads(run_command("cluster", "health", "--json").output)["not_led_by_preferred"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--restart-command", "true"], Exit.USAGE, "Say --rolling"),
        (["--rolling", "--restart-command", "ssh {name}"], Exit.USAGE, "with {id}, {host} and {port}"),
        (["--rolling", "--restart-command", "{id[0]}"], Exit.USAGE, "with {id}, {host} and {port}"),
        (["--rolling", "--restart-command", "ssh {host:99999999999}"], Exit.USAGE, "with {id}, {host} and {port}"),
        (["--rolling", "--restart-command", "ssh {host.upper}"], Exit.USAGE, "with {id}, {host} and {port}"),
        (["--rolling", "--restart-command", "ssh {host!r}"], Exit.USAGE, "with {id}, {host} and {port}"),
        (["--rolling", "--restart-command", "ssh {"], Exit.USAGE, "with {id}, {host} and {port}"),
        (["--rolling", "--restart-command", "systemctl restart kraft"], Exit.USAGE, "is the same for all nodes"),
        (["--rolling", "--restart-command", "true", "--nodes", "9"], Exit.NOT_FOUND, "No node 9 is known"),
        (["--rolling", "--restart-command", "false", "--nodes", "2"], Exit.FAILED, "of node 2 ended with exit code 1"),
        (["--rolling", "--restart-command", "/proc/nowhere", "--nodes", "2"], Exit.FAILED, "cannot be run"),
        (
            ["--rolling", "--restart-command", "true", "--nodes", "2", "--timeout", "1s"],
            Exit.FAILED,
            "Node 2 has not stopped: its connections stay open 1 s after the command.",
        ),
    ],
)
def test_a_rolling_restart_stops_at_the_first_doubt(
    cluster: ClusterProcess, arguments: list[str], code: Exit, message: str
) -> None:
    healthy(cluster)
    answer = run_command("cluster", "restart", *arguments)
    assert answer.code == code, answer.errors
    assert message in answer.errors
    if code == Exit.FAILED:
        assert "Restarted: none." in answer.errors
        assert f"`kraft cluster restart --rolling --nodes 2 --restart-command {arguments[2]}` goes on." in answer.errors


def start_once_formatted(cluster: ClusterProcess, node_id: int) -> threading.Thread:
    """Start the node in a thread, once its directory is formatted."""

    def run() -> None:
        deadline = time.monotonic() + WITHIN_S
        while not (cluster.nodes[node_id].data_dir / "meta.properties").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        cluster.nodes[node_id].start()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def rejoin(cluster: ClusterProcess, node_id: int, *arguments: str) -> Any:
    return run_command("cluster", "rejoin", "--config", str(cluster.properties_path(node_id)), *arguments)


def test_voter_whose_disk_was_replaced_votes_again_kip_853(cluster: ClusterProcess) -> None:
    healthy(cluster)
    node_id = next(node_id for node_id in cluster.nodes if node_id != cluster.controller_id())
    refused = rejoin(cluster, node_id)
    assert refused.code == Exit.FAILED
    assert f"Controller {node_id} has its vote, with the disk that it has now." in refused.errors

    old = cluster.directory_id(node_id)
    cluster.nodes[node_id].kill()
    shutil.rmtree(cluster.nodes[node_id].data_dir)
    wait_silent(cluster, node_id)
    planned = rejoin(cluster, node_id, "--dry-run")
    assert (planned.code, planned.output) == (Exit.OK, f"Would give controller {node_id} its vote.\n")
    assert not cluster.nodes[node_id].data_dir.exists()

    starting = start_once_formatted(cluster, node_id)
    answer = rejoin(cluster, node_id, "--json")
    starting.join(WITHIN_S)
    assert answer.code == Exit.OK, answer.errors
    new = cluster.directory_id(node_id)
    assert json.loads(answer.output) == {"node_id": node_id, "dry_run": False, "directory_id": new, "replaced": old}
    assert cluster.part(node_id) == "Follower"
    healthy(cluster)


def test_rejoin_goes_on_after_the_old_vote_was_removed(cluster: ClusterProcess) -> None:
    healthy(cluster)
    node_id = next(node_id for node_id in cluster.nodes if node_id != cluster.controller_id())
    old = cluster.directory_id(node_id)
    cluster.nodes[node_id].kill()
    shutil.rmtree(cluster.nodes[node_id].data_dir)
    cluster.format(node_id, joins=True)
    cluster.nodes[node_id].start()
    assert cluster.remove_controller(node_id, old).code == Exit.OK
    answer = rejoin(cluster, node_id, "--json")
    assert answer.code == Exit.OK, answer.errors
    assert json.loads(answer.output)["replaced"] is None
    assert cluster.part(node_id) == "Follower"


def test_rejoin_refuses_the_only_voter_and_a_broker(node: Any, cluster: ClusterProcess, tmp_path: Path) -> None:
    properties = tmp_path / "node.properties"
    common = "node.id=1\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:1\n"
    properties.write_text(
        f"{common}process.roles=controller\nlisteners=CONTROLLER://127.0.0.1:1\nlog.dirs={tmp_path / 'empty'}\n"
    )
    arguments = ("cluster", "rejoin", "--config", str(properties))
    alone = run_command(*arguments, "-b", node.bootstrap)
    assert (alone.code, "has the only vote: restore its metadata from a backup" in alone.errors) == (Exit.FAILED, True)
    running = run_command(*arguments, "-b", cluster.bootstrap)
    assert (running.code, "runs with the disk that has the vote" in running.errors) == (Exit.FAILED, True)
    properties.write_text(f"{common}process.roles=broker\nlog.dirs={tmp_path / 'empty'}\n")
    assert "is not the file of a controller" in run_command(*arguments).errors
    assert run_command("cluster", "rejoin", "--config", str(tmp_path / "none")).code == Exit.USAGE


def test_rejoin_refuses_the_disk_of_another_cluster(cluster: ClusterProcess, tmp_path: Path) -> None:
    with new_cluster(tmp_path) as other:
        other.format(1)
        answer = run_command("cluster", "rejoin", "--config", str(other.properties_path(1)), "--dry-run")
    assert answer.code == Exit.FAILED
    assert f"belongs to cluster {other.cluster_id}, and not to {cluster.cluster_id}" in answer.errors


def wait_silent(cluster: ClusterProcess, node_id: int) -> None:
    """Wait until the quorum calls the voter silent."""
    deadline = time.monotonic() + WITHIN_S
    while "is down" not in (answer := run_command("cluster", "health")).output.partition(f"! controller {node_id} ")[2]:
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
