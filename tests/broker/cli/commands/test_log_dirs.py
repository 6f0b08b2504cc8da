"""`kraft log-dirs`: replicas move between the log directories of a broker, which are cordoned and uncordoned."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli.grammar import Exit
from tests.support.cluster_process import ClusterProcess, new_cluster, run_command
from tests.support.command_output import ask, pipe, succeed, wait_for_answer
from tests.support.node_process import NodeProcess

OTHER = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """Broker 1, which has two log directories and is the controller, and another broker."""
    directory = tmp_path_factory.mktemp("log-dirs")
    with new_cluster(directory, voters=(1,), others={OTHER: "broker"}) as cluster:
        node = cluster.nodes[1]
        node.overrides["log.dirs"] = f"{directory / 'one'},{directory / 'two'}"
        cluster.properties_path(1).write_text("".join(f"{name}={value}\n" for name, value in node.settings.items()))
        cluster.start()
        yield cluster


@pytest.fixture
def directories(cluster: ClusterProcess, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The log directories of broker 1, which is the default server of commands."""
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", cluster.nodes[1].bootstrap)
    return str(cluster.directory / "one"), str(cluster.directory / "two")


def replicas_in(directory: str, topic: str) -> int:
    (described,) = [row for row in ask("log-dirs", "describe", "1", "-t", topic) if row["path"] == directory]
    return len(described["replicas"])


def cordoned_directories() -> list[bool]:
    return [row["is_cordoned"] for row in ask("log-dirs", "describe", "1")]


def return_to_file() -> None:
    """Delete the dynamic value of the config, and wait until the broker has learned of it."""
    succeed("configs", "delete", "broker", "1", "cordoned.log.dirs")
    wait_for_answer(
        lambda answer: "dynamic" not in answer.output,
        *("configs", "describe", "broker", "1", "--config", "cordoned.log.dirs"),
    )


def reassign(topic: str, replicas: list[int], plan: Path) -> None:
    partitions = [{"topic": topic, "partition": 0, "replicas": replicas}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    succeed("reassign", "execute", "--wait", str(plan))


def states(topic: str, directory: str) -> list[str]:
    """Move a topic of broker 1 to a directory. Returns the state of each partition."""
    moved = ask("log-dirs", "move", "1", directory, "-t", topic)
    assert [row["begun"] for row in moved] == [row["state"] == "begun" for row in moved]
    return [row["state"] for row in moved]


def test_replicas_are_moved_to_another_log_directory(directories: tuple[str, str]) -> None:
    one, two = directories
    succeed("topics", "create", "orders", "-p", "2", "-r", "2")
    assert sorted(states("orders", one)) == ["already there", "begun"]
    wait_for_answer(lambda _: replicas_in(one, "orders") == 2, "topics", "list")

    succeed("configs", "set", "broker", "1", "replica.alter.log.dirs.io.max.bytes.per.second=0")
    assert pipe("produce", "orders", "-p", "0", stdin=b"held\n").returncode == 0
    moved = ask("log-dirs", "move", "1", two, "-t", "orders:0")
    assert moved == [
        {"broker": 1, "topic": "orders", "partition": 0, "path": two, "begun": True, "state": "begun"},
    ]
    assert states("orders:0", two) == ["begun"]  # it is under way
    assert states("orders", one) == ["its move elsewhere has ended", "already there"]
    succeed("configs", "delete", "broker", "1", "replica.alter.log.dirs.io.max.bytes.per.second")

    moved = ask("log-dirs", "move", "1", f"{one}/", "-t", "orders:0")
    assert [(row["path"], row["state"]) for row in moved] == [(one, "already there")]
    refused = run_command("log-dirs", "move", "1", f"{two}/orders-0", "-t", "orders:0")
    assert (refused.code, f"Broker 1 has no log directory {two}/orders-0; it has {one}, {two}." in refused.errors) == (
        Exit.NOT_FOUND,
        True,
    )
    assert run_command("log-dirs", "move", "1", two, "-t", "orders:7").code == Exit.NOT_FOUND
    assert run_command("log-dirs", "move", "1", two).code == Exit.USAGE


def test_cordoned_directory_gets_no_new_topic_reassigned_replica_or_move_kip_1066(
    directories: tuple[str, str], tmp_path: Path
) -> None:
    one, two = directories
    succeed("topics", "create", "far", "-p", "1", "-r", "2")
    reassign("far", [OTHER], tmp_path / "plan")
    assert ask("log-dirs", "cordon", "1", two, f"{two}/") == [{"broker": 1, "path": two, "is_cordoned": True}]
    assert cordoned_directories() == [False, True]

    succeed("topics", "create", "new", "-p", "4", "-r", "2")
    reassign("far", [OTHER, 1], tmp_path / "plan")
    assert (replicas_in(one, "new"), replicas_in(one, "far")) == (4, 1)
    refused = run_command("log-dirs", "move", "1", two, "-t", "new:0")
    assert "INVALID_REPLICA_ASSIGNMENT" in refused.errors
    assert "it may be cordoned" in refused.errors

    assert "ok" in succeed("log-dirs", "uncordon", "1", two)
    assert states("new:0", two) == ["begun"]


def test_commands_change_only_the_directories_that_they_name(directories: tuple[str, str]) -> None:
    one, two = directories
    for path in (one, two, two):
        succeed("log-dirs", "cordon", "1", path)
    assert cordoned_directories() == [True, True]
    for path in (one, one):
        succeed("log-dirs", "uncordon", "1", path)
    assert cordoned_directories() == [False, True]
    succeed("log-dirs", "uncordon", "1", one, two)
    assert cordoned_directories() == [False, False]


def test_cordons_that_are_refused_change_nothing(directories: tuple[str, str]) -> None:
    one, two = directories
    unknown = run_command("log-dirs", "cordon", "1", one, f"{two}/none")
    assert (unknown.code, f"Broker 1 has no log directory {two}/none; it has {one}, {two}." in unknown.errors) == (
        Exit.NOT_FOUND,
        True,
    )
    assert run_command("log-dirs", "uncordon", "1").code == Exit.USAGE
    assert "broker 1 has no log directory /:" in run_command("log-dirs", "uncordon", "1", "/").errors
    assert cordoned_directories() == [False, False]

    succeed("configs", "set", "broker", "1", "cordoned.log.dirs=*")
    succeed("log-dirs", "cordon", "1", one)
    refused = run_command("log-dirs", "uncordon", "1", one)
    assert (refused.code, "`kraft cluster undrain 1`" in refused.errors) == (Exit.FAILED, True)
    return_to_file()


@pytest.mark.parametrize("command", ["cordon", "uncordon"])
def test_argument_that_is_no_single_element_of_the_config_is_refused(
    directories: tuple[str, str], command: str
) -> None:
    one, two = directories
    succeed("log-dirs", "cordon", "1", one, two)
    for argument in (f"{one},{two}", f"{one},", f"{one} ", "*", ""):
        refused = run_command("log-dirs", command, "1", argument)
        assert (refused.code, f"{argument!r} is not the path of one log directory" in refused.errors) == (
            Exit.USAGE,
            True,
        )
    assert cordoned_directories() == [True, True]
    return_to_file()


def test_first_change_keeps_cordons_of_the_properties_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    node = NodeProcess(tmp_path, {"log.dirs": f"{one},{two}", "cordoned.log.dirs": one})
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", node.bootstrap)
    try:
        node.start()
        succeed("log-dirs", "cordon", "1", two)
        assert cordoned_directories() == [True, True]
        return_to_file()
        succeed("log-dirs", "uncordon", "1", one)
        assert cordoned_directories() == [False, False]
        node.stop()
        node.overrides["cordoned.log.dirs"] = "*"
        node.start()
        return_to_file()
        succeed("log-dirs", "uncordon", "1", one)
        assert cordoned_directories() == [False, True]

        node.stop()
        node.overrides = {"log.dirs": one}  # the cordon of the other directory stays
        node.start()
        assert f"broker 1 has no log directory {two}:" in run_command("log-dirs", "uncordon", "1", f"{two}/").errors
        succeed("log-dirs", "cordon", "1", one)
        assert cordoned_directories() == [True]
    finally:
        node.discard()
