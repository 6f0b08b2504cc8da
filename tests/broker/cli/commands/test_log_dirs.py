"""`kraft log-dirs move`: replicas move between the log directories of a node."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli.grammar import Exit
from tests.support.cluster_process import run_command
from tests.support.command_output import ask, succeed, wait_for_answer
from tests.support.node_process import NodeProcess


@pytest.fixture
def directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """The log directories of a node, which is the default server of commands."""
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    node = NodeProcess(tmp_path / "node", {"log.dirs": f"{one},{two}"})
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", node.bootstrap)
    try:
        node.start()
        yield one, two
    finally:
        node.discard()


def test_replicas_are_moved_to_another_log_directory(directories: tuple[str, str]) -> None:
    one, two = directories
    succeed("topics", "create", "orders", "-p", "4")
    moved = ask("log-dirs", "move", "1", two, "-t", "orders")
    assert moved == [
        {"broker": 1, "topic": "orders", "partition": index, "path": two, "begun": True} for index in range(4)
    ]
    wait_for_answer(
        lambda answer: [len(row["replicas"]) for row in json.loads(answer.output) if row["path"] == two] == [4],
        *("log-dirs", "describe", "1", "--json"),
    )
    assert "begun" in succeed("log-dirs", "move", "1", one, "-t", "orders:0,2")
    refused = run_command("log-dirs", "move", "1", f"{two}/", "-t", "orders:0")
    assert refused.code == Exit.FAILED
    assert "LOG_DIR_NOT_FOUND" in refused.errors
    succeed("configs", "set", "broker", "1", f"cordoned.log.dirs={two}")
    cordoned = run_command("log-dirs", "move", "1", two, "-t", "orders:0")
    assert "INVALID_REPLICA_ASSIGNMENT" in cordoned.errors
    assert "it may be cordoned" in cordoned.errors
    assert run_command("log-dirs", "move", "1", two, "-t", "orders:7").code == Exit.NOT_FOUND
    assert run_command("log-dirs", "move", "1", two).code == Exit.USAGE
