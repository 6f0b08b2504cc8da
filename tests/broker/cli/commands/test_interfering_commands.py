"""Commands that move replicas, while other commands and failures interfere."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from broker.cli.commands.cluster_drain import Survey
from broker.cli.commands.placement import Placement, PlanOutdated, carry_out, lead_as_preferred
from broker.cli.grammar import Exit
from broker.client import Admin, TopicPartition
from broker.client.types import Node
from tests.support.assigned_topics import create_assigned
from tests.support.cluster_process import ClusterProcess, new_cluster, run_command
from tests.support.command_output import wait_for_answer

BROKERS = (1, 2, 3, 4)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterProcess]:
    with new_cluster(tmp_path, voters=(1,), others=dict.fromkeys(BROKERS[1:], "broker")) as cluster:
        cluster.start()
        monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", cluster.nodes[1].bootstrap)
        yield cluster


def succeed(*arguments: str) -> Any:
    answer = run_command(*arguments, "--json")
    assert answer.code == Exit.OK, answer.errors
    return json.loads(answer.output)


def begin(cluster: ClusterProcess, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "broker.cli", *arguments],
        env=os.environ | {"KRAFT_BOOTSTRAP_SERVERS": cluster.nodes[1].bootstrap},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    )


def end(command: subprocess.Popen[bytes]) -> tuple[int, str]:
    output, _ = command.communicate(timeout=120)
    return command.returncode, output.decode()


def replicas(topic: str) -> list[int]:
    return [broker for each in succeed("topics", "describe", topic)[0]["partitions"] for broker in each["replicas"]]


def test_two_brokers_are_drained_at_the_same_time(cluster: ClusterProcess) -> None:
    succeed("topics", "create", "spread", "-p", "60", "-r", "2")
    commands = [begin(cluster, "cluster", "drain", str(broker)) for broker in (3, 4)]
    for code, output in map(end, commands):
        assert code == Exit.OK, output
    assert {*replicas("spread")} == {1, 2}


def test_rebalance_of_a_cluster_of_drained_brokers_says_so(cluster: ClusterProcess) -> None:
    for broker in BROKERS:
        succeed("configs", "set", "broker", str(broker), "cordoned.log.dirs=*")
        cluster.ask_every_broker(
            lambda health, broker=broker: health["brokers"][broker - 1]["is_cordoned"], "cluster", "health"
        )
    answer = run_command("cluster", "rebalance")
    assert (answer.code, answer.errors) == (
        Exit.FAILED,
        "kraft: All brokers are drained: `kraft cluster undrain` lets one have replicas.\n",
    )


def test_rebalance_does_not_take_a_silent_broker_for_one_that_may_have_replicas(cluster: ClusterProcess) -> None:
    pid = cluster.nodes[4].process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        answer = run_command("cluster", "rebalance", "-X", "default.api.timeout.ms=3000")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (answer.code, answer.errors) == (
        Exit.FAILED,
        "kraft: No answer from broker 4, so that it is not known which brokers are drained: try again.\n",
    )


def place(topic: str, brokers: list[int], directory: Path, *arguments: str) -> Any:
    """Move partition 0 of the topic."""
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": brokers}]}
    (directory / "plan.json").write_text(json.dumps(plan))
    return run_command("reassign", "execute", str(directory / "plan.json"), *arguments)


def test_plan_with_a_broker_that_is_cordoned_now_is_outdated(cluster: ClusterProcess) -> None:
    succeed("topics", "create", "topic", "-r", "1")
    succeed("cluster", "drain", "4")

    async def move() -> None:
        async with Admin(cluster.bootstrap) as admin:
            with pytest.raises(PlanOutdated, match=r"topic-0 cannot move to 4: .* cordoned"):
                await carry_out(None, admin, {TopicPartition("topic", 0): [4]})  # type: ignore[arg-type]

    trio.run(move)


def test_plan_that_changes_the_number_of_replicas_is_outdated_kip_860(cluster: ClusterProcess) -> None:
    """The broker that was asked did not know yet of a move that had ended."""
    succeed("topics", "create", "topic", "-r", "2")

    async def move() -> None:
        async with Admin(cluster.bootstrap) as admin:
            with pytest.raises(PlanOutdated, match="The replication factor is changed from 2 to 3"):
                await carry_out(None, admin, {TopicPartition("topic", 0): [1, 2, 3]})  # type: ignore[arg-type]

    trio.run(move)
    assert len(replicas("topic")) == 2


def test_preferred_leader_that_is_down_is_not_waited_for(cluster: ClusterProcess, tmp_path: Path) -> None:
    """Without eligible leader replicas, it stays in the ISR (KIP-966)."""
    assert run_command("features", "downgrade", "eligible.leader.replicas.version=0").code == Exit.OK
    succeed("topics", "create", "alone", "-r", "1")
    assert place("alone", [4], tmp_path, "--wait").code == Exit.OK
    cluster.nodes[4].stop()

    async def lead() -> None:
        async with Admin(cluster.nodes[1].bootstrap) as admin:
            with trio.fail_after(10):
                await lead_as_preferred(admin, [TopicPartition("alone", 0)])

    trio.run(lead)


def test_broker_that_still_holds_replicas_is_not_drained_whatever_another_broker_tells() -> None:
    """The placement is that of a broker that lags behind the controllers."""
    placement = Placement({}, {1: Node(1, "a", 1), 4: Node(4, "a", 4)}, frozenset())
    late = TopicPartition("late", 0)
    survey = Survey(placement, frozenset({4}), {}, {1: (), 4: (late,)})
    assert survey.left_on(4) == (late,)
    assert survey.left_on(1) == ()
    assert attrs.evolve(survey, held={}).left_on(4) == ()


def test_execute_that_is_cancelled_while_it_waits_fails(cluster: ClusterProcess, tmp_path: Path) -> None:
    create_assigned(cluster, "topic", [1])
    cluster.nodes[4].stop()
    plan = {"version": 1, "partitions": [{"topic": "topic", "partition": 0, "replicas": [4]}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    command = begin(cluster, "reassign", "execute", "--wait", str(tmp_path / "plan.json"))
    wait_for_answer(lambda answer: "topic" in answer.output, "reassign", "status")
    succeed("reassign", "cancel")
    code, output = end(command)
    assert code == Exit.FAILED, output
    assert "Moved" not in output
    assert "kraft: partition topic-0: it is on 1: its move was cancelled" in output
