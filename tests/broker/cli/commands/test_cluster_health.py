"""`kraft cluster health` leads from a problem to its cause and to the command that ends it.

Each test makes the trouble, reads what is printed, types the printed command, and finds the cluster healthy again.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.cli.grammar import Exit
from jepsen.processes.ports import free_ports
from tests.support.assigned_topics import create_assigned
from tests.support.cluster_process import ClusterProcess, new_cluster, run_command
from tests.support.command_output import succeed, wait_for_answer
from tests.support.hanging_transactions import HOUR_MS, hang_transaction
from tests.support.incidents import HEALTH, commands, delete_topics, problem, type_command, until_healthy


@pytest.fixture(scope="module")
def _brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    others = {2: "broker", 3: "broker"}
    with new_cluster(tmp_path_factory.mktemp("incidents"), voters=(1,), others=others) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def brokers(_brokers: ClusterProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterProcess]:
    """A combined node and the brokers 2 and 3. Each test leaves them healthy; its topics are deleted."""
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", _brokers.nodes[1].bootstrap)
    yield _brokers
    for node in _brokers.nodes.values():
        if not node.is_running:
            node.start()
    until_healthy()
    delete_topics()


def ask_unhealthy() -> dict[str, Any]:
    """The JSON of a cluster with problems."""
    answer = run_command(*HEALTH, "--json")
    assert answer.code == Exit.FAILED
    found: dict[str, Any] = json.loads(answer.output)
    return found


def test_dead_broker_is_started_again_as_health_says(brokers: ClusterProcess) -> None:
    create_assigned(brokers, "orders", [1, 3], [2, 3])
    brokers.nodes[3].kill()
    line = problem("! broker 3 is down: start it again with `kraft start <its server.properties>`")
    assert "move its 2 replicas: `kraft cluster drain 3`, then `kraft cluster unregister 3`" in line
    brokers.nodes[3].start()
    until_healthy()


def test_replicas_of_a_broker_that_is_gone_move_as_health_says(brokers: ClusterProcess, tmp_path: Path) -> None:
    create_assigned(brokers, "orders", [1, 3], [3, 2])
    brokers.nodes[3].kill()
    _, drain, unregister = commands(problem("! broker 3 is down"))
    type_command(drain, tmp_path)
    assert commands(problem("! broker 3 is down"))[1:] == [unregister]
    type_command(unregister, tmp_path)
    until_healthy()
    replicas = brokers.ask_every_broker(bool, "topics", "describe", "orders")[0]["partitions"]
    assert [sorted(each["replicas"]) for each in replicas] == [[1, 2], [1, 2]]


def test_move_from_a_broker_needs_as_many_brokers_as_replicas(brokers: ClusterProcess, tmp_path: Path) -> None:
    create_assigned(brokers, "orders", [1, 2, 3])
    brokers.nodes[3].kill()
    assert "start 1 more broker, then `kraft cluster drain 3`" in problem("! broker 3 is down")
    refused = run_command("reassign", "plan", "orders")
    assert "orders-0 needs 3 brokers, of 2: start another broker, or lower the number of replicas with -r 2" in (
        refused.errors
    )
    type_command("kraft reassign plan orders -r 2 > plan.json", tmp_path)
    type_command("kraft reassign execute plan.json --wait", tmp_path)


def test_offline_partition_names_the_broker_that_has_its_records(brokers: ClusterProcess) -> None:
    create_assigned(brokers, "orders", [3], [1])
    brokers.nodes[3].kill()
    problem("its records are only on broker 3, and broker 3 is down: start it again")
    refused = run_command("elect", "orders:0")
    assert refused.code == Exit.FAILED
    assert "`kraft cluster health` says what to do" in refused.errors
    brokers.nodes[3].start()
    until_healthy()


def test_offline_partition_of_a_broker_that_is_gone_is_made_empty_as_health_says(
    brokers: ClusterProcess, tmp_path: Path
) -> None:
    create_assigned(brokers, "orders", [3])
    brokers.nodes[3].kill()
    for command in commands(
        problem("! orders-0 has no leader, and cannot be read or written: its records are only on")
    ):
        type_command(command, tmp_path)
    answer = wait_for_answer(lambda answer: "no leader" not in answer.output, *HEALTH)
    assert "reassign cancel" not in answer.output


def test_unclean_election_is_named_where_a_live_replica_was_not_in_sync(
    brokers: ClusterProcess, tmp_path: Path
) -> None:
    create_assigned(brokers, "orders", [2, 3], min_insync_replicas="1")
    brokers.nodes[3].kill()
    wait_for_answer(lambda answer: "orders-0 has fewer replicas in sync" in answer.output, *HEALTH)
    brokers.nodes[2].kill()
    problem("! orders-0 has no leader")
    brokers.nodes[3].start()
    line = wait_for_answer(
        lambda answer: (
            "its records are only on broker 2, and broker 2 is down" in answer.output
            and "broker 3 is down" not in answer.output
        ),
        *HEALTH,
    ).output
    (command,) = (each for each in commands(line) if each.startswith("kraft elect"))
    assert command == "kraft elect --unclean orders:0"
    type_command(command, tmp_path)
    wait_for_answer(lambda answer: "no leader" not in answer.output, *HEALTH)


def test_under_min_isr_is_named_before_internal_partitions(brokers: ClusterProcess, tmp_path: Path) -> None:
    create_assigned(brokers, "strict", [1, 2, 3], min_insync_replicas="3")
    create_assigned(brokers, "__consumer_offsets", [1, 2, 3])
    create_assigned(brokers, "zebra", [1, 2, 3])
    brokers.nodes[3].kill()
    # A broker that is asked meanwhile may know of the smaller ISR, and not yet that broker 3 is down.
    line = problem(
        "! strict-0 has 2 of at least 3 replicas in sync (min.insync.replicas), so that writes with acks=all fail: "
        "start broker 3 again, or "
    )
    assert (
        "! zebra-0, __consumer_offsets-0 have fewer replicas in sync than assigned: start broker 3 again"
        in run_command(*HEALTH).output
    )
    type_command(*commands(line), tmp_path)
    wait_for_answer(lambda answer: "acks=all" not in answer.output, *HEALTH)


def test_stuck_reassignment_is_previewed_and_cancelled_as_health_says(brokers: ClusterProcess, tmp_path: Path) -> None:
    create_assigned(brokers, "orders", [3])
    brokers.nodes[3].kill()
    problem("its records are only on broker 3, and broker 3 is down")
    plan = run_command("reassign", "plan", "orders")
    assert (
        "orders-0 has no live replica to copy from: its records are only on broker 3, and the move waits for that"
        in plan.errors
    )
    (tmp_path / "plan.json").write_text(plan.output)
    executed = run_command("reassign", "execute", str(tmp_path / "plan.json"))
    stuck = "since it has no leader to copy from: start broker 3 again, or `kraft reassign cancel orders:0`"
    assert stuck in executed.errors
    type_command(*commands(problem(stuck)), tmp_path)
    wait_for_answer(lambda answer: "reassign cancel" not in answer.output, *HEALTH)


def test_reassignment_to_a_dead_broker_is_named(brokers: ClusterProcess, tmp_path: Path) -> None:
    create_assigned(brokers, "orders", [1, 2])
    (tmp_path / "plan.json").write_text(
        '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 3]}]}'
    )
    brokers.nodes[3].kill()
    problem("! broker 3 is down")
    type_command("kraft reassign execute plan.json", tmp_path)
    line = problem("! orders-0 cannot move to 1,3: start broker 3 again")
    # The replica that is added counts neither as one that lacks, nor as one that needs a broker of its own.
    output = run_command(*HEALTH).output
    assert "0 under-replicated" in output
    assert "fewer replicas in sync" not in output
    assert "start 1 more broker" not in output
    type_command(*commands(line), tmp_path)
    wait_for_answer(lambda answer: "cannot move" not in answer.output, *HEALTH)


def test_hanging_transaction_is_aborted_as_health_says(brokers: ClusterProcess, tmp_path: Path) -> None:
    create_assigned(brokers, "orders", [1])
    verification = "transaction.partition.verification.enable"
    succeed("configs", "set", "broker", "default", f"{verification}=false")
    timestamp_ms = int(time.time() * 1000) - HOUR_MS

    async def hang() -> int:
        return await hang_transaction(brokers.nodes[1].port, "orders", 900_003, timestamp_ms=timestamp_ms)

    offset = trio.run(hang)
    succeed("configs", "delete", "broker", "default", verification)
    line = problem("! orders-0 has a transaction of producer 900003 that nothing will end")
    assert f"read_committed consumers stop before offset {offset}" in line
    type_command(*commands(line), tmp_path)
    until_healthy()


def test_healthy_cluster_names_the_election_of_preferred_leaders(brokers: ClusterProcess, tmp_path: Path) -> None:
    create_assigned(brokers, "orders", [2, 1], [2, 1], min_insync_replicas="1")
    brokers.nodes[2].kill()
    wait_for_answer(lambda answer: "orders-0, orders-1 have fewer replicas in sync" in answer.output, *HEALTH)
    brokers.nodes[2].start()
    found = until_healthy()
    assert "2 not led by the preferred replica" in found.output
    type_command(*commands(found.output), tmp_path)
    wait_for_answer(lambda answer: "0 not led by the preferred replica" in answer.output, *HEALTH)


def test_wrong_advertised_listener_is_named_with_its_address(brokers: ClusterProcess) -> None:
    create_assigned(brokers, "away", [3])
    node = brokers.nodes[3]
    (unused,) = free_ports(1)
    node.terminate()
    assert node.wait_ended(20) == 0
    node.overrides["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{unused}"
    node.start()
    line = problem(f"! broker 3 is alive for the cluster, and does not answer here at 127.0.0.1:{unused}: ")
    assert line.endswith("if clients cannot reach that address either, mend its advertised.listeners and restart it")
    assert ask_unhealthy()["hanging_unsearched"] == 1
    del node.overrides["advertised.listeners"]
    node.terminate()
    assert node.wait_ended(20) == 0
    node.start()
    until_healthy()
