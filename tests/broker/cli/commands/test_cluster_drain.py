"""`kraft cluster drain`, `undrain`, `rebalance` and `unregister` on running nodes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.cli.commands.maintenance import resumable
from broker.cli.grammar import Exit
from tests.support.cluster_process import ClusterProcess, new_cluster, run_command

SPARE = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """A controller, and three further brokers."""
    others = dict.fromkeys((2, 3, SPARE), "broker")
    with new_cluster(tmp_path_factory.mktemp("drain"), voters=(1,), others=others) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture(autouse=True)
def _servers(cluster: ClusterProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", cluster.nodes[1].bootstrap)


def succeed(*arguments: str) -> Any:
    answer = run_command(*arguments, "--json")
    assert answer.code == Exit.OK, answer.errors
    return json.loads(answer.output)


def replicas_on(broker: int, *topics: str) -> int:
    described = succeed("topics", "describe", *topics)
    return sum(broker in each["replicas"] for topic in described for each in topic["partitions"])


def test_drained_broker_has_no_replicas_and_gets_no_new_ones_until_it_is_undrained(cluster: ClusterProcess) -> None:
    succeed("topics", "create", "alone", "-p", "4", "-r", "1")
    succeed("topics", "create", "moved", "-p", "8", "-r", "3")
    assert replicas_on(SPARE, "alone", "moved") > 2
    shown = succeed("cluster", "drain", str(SPARE), "--dry-run")
    assert (shown["dry_run"], shown["is_cordoned"], shown["replicas"]) == (
        True,
        False,
        replicas_on(SPARE, "alone", "moved"),
    )
    assert [directory["is_cordoned"] for directory in succeed("log-dirs", "describe", str(SPARE))] == [False]

    drained = succeed("cluster", "drain", str(SPARE))
    assert drained == {**shown, "dry_run": False, "is_cordoned": True}
    cluster.ask_every_broker(
        lambda topics: all(SPARE not in each["replicas"] for topic in topics for each in topic["partitions"]),
        *("topics", "describe", "alone", "moved"),
    )
    succeed("topics", "create", "late", "-p", "12", "-r", "3")
    assert replicas_on(SPARE, "late") == 0
    assert [broker["is_cordoned"] for broker in succeed("cluster", "health")["brokers"]] == [False] * 3 + [True]
    answer = run_command("topics", "create", "wide", "-r", "4")
    assert (answer.code, "only 3 broker(s) are registered or some brokers" in answer.errors) == (Exit.FAILED, True)
    again = run_command("cluster", "drain", str(SPARE))
    assert again == (
        Exit.OK,
        f"Broker {SPARE} is drained: it has no replicas.\n"
        f"`kraft cluster undrain {SPARE}` lets it have some again; `kraft cluster unregister {SPARE}` removes it after "
        "it was shut down for good.\n",
        f"kraft: broker {SPARE} has no replicas.\n",
    )

    assert succeed("cluster", "undrain", str(SPARE)) == {"broker_id": SPARE, "dry_run": False}
    planned = run_command("cluster", "undrain", str(SPARE), "--dry-run")
    assert planned.errors == f"kraft: broker {SPARE} may have replicas already.\n"
    succeed("topics", "create", "wide", "-r", "4")
    refused = run_command("cluster", "drain", str(SPARE))
    assert (
        "`kraft reassign plan wide --replicas 3 > plan.json`, then `kraft reassign execute plan.json`" in refused.errors
    )
    succeed("topics", "delete", "alone", "moved", "late", "wide")


def test_drain_takes_up_the_moves_that_a_killed_command_has_begun(cluster: ClusterProcess, tmp_path: Path) -> None:
    succeed("topics", "create", "taken-up", "-p", "2", "-r", "1")
    before = run_command("topics", "describe", "taken-up", "--json")
    (topic,) = json.loads(before.output)
    partitions = [
        {"topic": "taken-up", "partition": each["partition"], "replicas": [SPARE]} for each in topic["partitions"]
    ]
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": partitions}))
    succeed("reassign", "execute", str(tmp_path / "plan.json"), "--wait")
    # The cordon, and one of two moves, are what a command leaves that is killed.
    succeed("configs", "set", "broker", str(SPARE), "cordoned.log.dirs=*")
    partitions = [{**partitions[0], "replicas": [2]}]
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": partitions}))
    succeed("reassign", "execute", str(tmp_path / "plan.json"))
    succeed("cluster", "drain", str(SPARE))
    assert replicas_on(SPARE, "taken-up") == 0
    assert replicas_on(2, "taken-up") >= 1
    succeed("cluster", "undrain", str(SPARE))
    succeed("topics", "delete", "taken-up")


def test_rebalance_gives_an_empty_broker_replicas(cluster: ClusterProcess) -> None:
    succeed("topics", "create", "spread", "-p", "4", "-r", "2")
    succeed("cluster", "drain", str(SPARE))
    drained = run_command("cluster", "rebalance", "--dry-run")
    assert drained.output == "The cluster is balanced: no replica has to move.\n"
    succeed("cluster", "undrain", str(SPARE))
    planned = succeed("cluster", "rebalance", "--dry-run")
    assert (planned["dry_run"], replicas_on(SPARE, "spread")) == (True, 0)
    rebalanced = succeed("cluster", "rebalance")
    assert rebalanced == {**planned, "dry_run": False}
    assert rebalanced["replicas"] >= 2
    health = succeed("cluster", "health")
    counts = [broker["replicas"] for broker in health["brokers"]]
    assert max(counts) - min(counts) <= 1
    assert health["not_led_by_preferred"] == 0
    assert succeed("cluster", "rebalance") == {"dry_run": False, "partitions": 0, "replicas": 0}
    succeed("topics", "delete", "spread")


def test_a_broker_that_is_down_is_drained_and_unregistered(cluster: ClusterProcess) -> None:
    succeed("topics", "create", "outlives", "-p", "4", "-r", "2")
    succeed("topics", "create", "stuck", "-p", "4", "-r", "1")
    alive = run_command("cluster", "unregister", str(SPARE))
    assert (alive.code, alive.errors) == (Exit.FAILED, f"kraft: Broker {SPARE} is alive: stop it first.\n")
    cluster.nodes[SPARE].stop()
    held = run_command("cluster", "unregister", str(SPARE))
    assert held.code == Exit.FAILED
    assert f"`kraft cluster drain {SPARE}` first." in held.errors
    refused = run_command("cluster", "rebalance")
    assert refused.code == Exit.FAILED
    assert f"Broker {SPARE} is down: start it again, or move its replicas" in refused.errors
    stuck = run_command("cluster", "drain", str(SPARE))
    assert stuck.code == Exit.FAILED
    assert f" cannot move without a leader: start broker {SPARE} again; `kraft cluster health`" in stuck.errors
    succeed("topics", "delete", "stuck")
    succeed("cluster", "drain", str(SPARE))
    assert succeed("cluster", "unregister", str(SPARE)) == {"broker_id": SPARE, "dry_run": False}
    assert [broker["id"] for broker in succeed("cluster", "health")["brokers"]] == [1, 2, 3]
    assert run_command("cluster", "unregister", str(SPARE)).code == Exit.NOT_FOUND

    cluster.nodes[SPARE].start()
    cluster.ask_every_broker(lambda described: len(described["brokers"]) == 4, "cluster", "describe")
    succeed("topics", "create", "back", "-r", "4")
    succeed("topics", "delete", "back", "outlives")


def test_impossible_drains_are_refused_and_change_nothing(cluster: ClusterProcess) -> None:
    succeed("topics", "create", "everywhere", "-r", "4")
    answer = run_command("cluster", "drain", str(SPARE))
    assert answer.code == Exit.FAILED
    assert "has 4 replicas, and no other broker may have one: 3 may. Add a broker" in answer.errors
    assert [directory["is_cordoned"] for directory in succeed("log-dirs", "describe", str(SPARE))] == [False]
    for command in ("drain", "undrain", "unregister"):
        unknown = run_command("cluster", command, "9")
        assert unknown.code == Exit.NOT_FOUND
        assert unknown.errors == "kraft: No broker 9 is registered; the brokers are 1,2,3,4.\n"
        assert run_command("cluster", command, "x").code == Exit.USAGE
    succeed("topics", "delete", "everywhere")


def test_the_only_broker_cannot_be_drained(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", node.bootstrap)
    succeed("topics", "create", "only-here", "-r", "1")
    answer = run_command("cluster", "drain", "1")
    assert answer.code == Exit.FAILED
    assert "No other broker is alive and may have replicas: broker 1 cannot be drained." in answer.errors


class Notes:
    """The part of an invocation that `resumable` uses."""

    def __init__(self) -> None:
        self.printer = self
        self.notes: list[str] = []

    def note(self, line: str) -> None:
        self.notes.append(line)


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (KeyboardInterrupt(), "kraft: interrupted. Type it again."),
        (BaseExceptionGroup("", [KeyboardInterrupt()]), "kraft: interrupted. Type it again."),
        (OSError(), "kraft: stopped. Type it again."),
    ],
)
def test_a_command_that_is_ended_says_how_to_go_on(error: BaseException, note: str) -> None:
    notes = Notes()
    with pytest.raises(type(error)), resumable(notes, "Type it again."):  # type: ignore[arg-type]
        raise error
    assert notes.notes == [note]
