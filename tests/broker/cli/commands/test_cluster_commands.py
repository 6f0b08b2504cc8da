"""Commands for a cluster of three nodes: health, log directories, features, elections, reassignments."""

import json
from pathlib import Path
from typing import Any

import pytest

from broker.cli.grammar import Exit
from tests.support.cluster_process import ClusterProcess, run_command
from tests.support.command_output import ask, succeed, wait_for_answer


def create(cluster: ClusterProcess, topic: str, *arguments: str) -> None:
    """Create a topic, and wait until every broker knows it."""
    succeed("topics", "create", topic, *arguments)
    cluster.ask_every_broker(bool, "topics", "describe", topic)


def leaders(described: Any) -> list[int | None]:
    """The leaders of a topic's partitions, from the output of `kraft topics describe`."""
    return [each["leader"] for each in described[0]["partitions"]]


def test_the_brokers_of_a_cluster_are_shown(three_nodes: ClusterProcess) -> None:
    described = ask("cluster", "describe")
    assert described["cluster_id"] == three_nodes.cluster_id
    assert [broker["id"] for broker in described["brokers"]] == [1, 2, 3]
    assert f"127.0.0.1:{three_nodes.nodes[2].port}" in succeed("cluster", "describe")


def test_the_quorum_is_described_as_json(three_nodes: ClusterProcess) -> None:
    described = ask("quorum", "describe")
    assert {each["node_id"] for each in described["replicas"]} == {1, 2, 3}
    assert sorted(each["status"] for each in described["replicas"]) == ["Follower", "Follower", "Leader"]


def test_log_directories_are_shown_with_their_replicas(three_nodes: ClusterProcess) -> None:
    create(three_nodes, "logged", "-p", "2", "-r", "2")
    rows = ask("log-dirs", "describe", "-t", "logged")
    assert [row["broker"] for row in rows] == [1, 2, 3]
    assert sum(len(row["replicas"]) for row in rows) == 4
    assert all(row["total_bytes"] > row["usable_bytes"] > 0 for row in rows)
    assert str(three_nodes.nodes[1].data_dir) in succeed("log-dirs", "describe", "1")
    assert len(succeed("log-dirs", "describe", "--replicas", "-t", "logged:0").splitlines()) == 3


def test_features_are_described_and_changed(three_nodes: ClusterProcess) -> None:
    levels = {row["name"]: row for row in ask("features", "describe")}
    assert levels["group.version"]["level"] == 1
    assert succeed("features", "downgrade", "group.version=0", "--dry-run") == (
        "Feature group.version could have level 0.\n"
    )
    refused = run_command("features", "upgrade", "group.version=9")
    assert refused.code == Exit.FAILED
    assert "feature group.version" in refused.errors
    assert run_command("features", "upgrade", "group.version").code == Exit.USAGE


def test_replicas_move_as_a_plan_says(three_nodes: ClusterProcess, tmp_path: Path) -> None:
    create(three_nodes, "moved", "-p", "4", "-r", "2")
    path = tmp_path / "plan.json"
    path.write_text(succeed("reassign", "plan", "moved", "--brokers", "1,2", "-r", "2"))
    assert {tuple(sorted(each["replicas"])) for each in json.loads(path.read_text())["partitions"]} == {(1, 2)}
    succeed("reassign", "execute", str(path), "--wait")
    three_nodes.ask_every_broker(
        lambda topics: [sorted(each["replicas"]) for each in topics[0]["partitions"]] == [[1, 2]] * 4,
        "topics",
        "describe",
        "moved",
    )
    assert ask("reassign", "status", "--wait") == []
    assert succeed("reassign", "cancel") == "Nothing is being reassigned.\n"
    # After a plan has been executed, a new plan has no moves.
    again = run_command("reassign", "plan", "moved", "--brokers", "1,2")
    assert (again.code, again.output, again.errors) == (Exit.OK, "", "kraft: nothing has to move.\n")


def test_plan_for_a_partition_that_is_moving_keeps_its_number_of_replicas(
    three_nodes: ClusterProcess, tmp_path: Path
) -> None:
    """While it moves, it has the former replicas and the new ones."""
    path = tmp_path / "plan.json"
    create(three_nodes, "slow", "-r", "1")
    replica = ask("topics", "describe", "slow")[0]["partitions"][0]["replicas"][0]
    down = next(node_id for node_id in (3, 2) if node_id != replica)
    three_nodes.nodes[down].kill()
    path.write_text(json.dumps({"version": 1, "partitions": [{"topic": "slow", "partition": 0, "replicas": [down]}]}))
    wait_for_answer(lambda answer: answer.code == Exit.OK, "reassign", "execute", str(path))
    wait_for_answer(lambda answer: '"adding"' in answer.output, "reassign", "status", "--json")
    alive = ",".join(str(node_id) for node_id in three_nodes.nodes if node_id != down)
    answer = wait_for_answer(lambda answer: answer.code == Exit.OK, "reassign", "plan", "slow", "--brokers", alive)
    three_nodes.nodes[down].start()
    assert [len(each["replicas"]) for each in json.loads(answer.output)["partitions"]] == [1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["plan", "none"], Exit.NOT_FOUND, "UNKNOWN_TOPIC_OR_PARTITION"),
        (["plan", "planned", "--brokers", "1,x"], Exit.USAGE, "write ids, as in 1,2,3"),
        (["plan", "planned", "--brokers", "1,9"], Exit.FAILED, "Broker 9 is not alive; the brokers that are: 1,2,3"),
        (["plan", "planned", "--brokers", "1", "-r", "2"], Exit.FAILED, "planned-0 needs 2 brokers, of 1"),
        (["execute", "/proc/nowhere"], Exit.USAGE, "cannot be read: No such file or directory"),
    ],
)
def test_a_move_that_cannot_be_is_refused(
    three_nodes: ClusterProcess, arguments: list[str], code: Exit, message: str
) -> None:
    create(three_nodes, "planned", "-r", "1", "--if-not-exists")
    answer = run_command("reassign", *arguments)
    assert answer.code == code
    assert message in answer.errors


def test_health_names_problems_and_an_election_restores_preferred_leaders(three_nodes: ClusterProcess) -> None:
    create(three_nodes, "led", "-p", "3", "-r", "3")
    healthy = ask("cluster", "health")
    assert (healthy["is_healthy"], healthy["problems"], healthy["under_replicated"]) == (True, [], 0)
    assert [broker["is_alive"] for broker in healthy["brokers"]] == [True] * 3
    assert sum(controller["is_leader"] for controller in healthy["controllers"]) == 1

    led = ("topics", "describe", "led")
    preferred = leaders(ask(*led))
    three_nodes.nodes[3].kill()
    three_nodes.ask_every_broker(lambda topics: 3 not in leaders(topics), *led)
    answer = run_command("cluster", "health")
    assert answer.code == Exit.FAILED
    assert "! broker 3 is down: start it again" in answer.output
    assert "fewer replicas in sync than assigned: start broker" in answer.output

    three_nodes.nodes[3].start()
    three_nodes.ask_every_broker(lambda health: health["is_healthy"], "cluster", "health")
    elected = run_command("elect", "led")
    assert elected.code == Exit.OK, elected.errors
    three_nodes.ask_every_broker(lambda topics: leaders(topics) == preferred, *led)


def test_health_names_voters_that_are_down_and_a_quorum_without_a_leader(three_nodes: ClusterProcess) -> None:
    leader = three_nodes.controller_id()
    first, second = (node_id for node_id in three_nodes.nodes if node_id != leader)
    asked = three_nodes.nodes[leader].bootstrap
    health = ("cluster", "health", "-b", asked)
    three_nodes.nodes[first].kill()
    down = f"! controller {first} is down: it has not fetched for "
    answer = wait_for_answer(lambda answer: down in answer.output, *health)
    directory = three_nodes.directory_ids[first]
    assert f"`kraft -b {asked} quorum remove-controller -i {first} -d {directory}`" in answer.output
    assert "! 2 of 3 controllers vote: no further one may be lost" in answer.output

    three_nodes.nodes[second].kill()
    answer = wait_for_answer(lambda answer: "! the controllers have no leader" in answer.output, *health)
    assert answer.code == Exit.FAILED
    address = three_nodes.nodes[second].bootstrap
    assert f"! broker {second} is alive for the cluster, and does not answer here at {address}: " in answer.output
    output = three_nodes.nodes[leader].output()
    assert f"warning node {leader}: broker_fenced cause=" in output
    assert f"warning node {leader}: leader_lost epoch=" in output

    for node_id in (first, second):
        three_nodes.nodes[node_id].start()
    three_nodes.ask_every_broker(lambda health: health["is_healthy"], "cluster", "health")


def test_an_unclean_election_names_its_topics(three_nodes: ClusterProcess) -> None:
    answer = run_command("elect", "--unclean")
    assert answer.code == Exit.USAGE
    assert "Name the topics of an unclean election: it may lose records." in answer.errors
