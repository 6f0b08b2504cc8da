"""`--throttle` of moves: set before they begin, for what moves alone, and removed when they have ended."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli.grammar import Exit
from broker.cli.move_throttles import Move, ThrottledReplicas, moves_of, throttled_replicas
from broker.client import SyncProducer
from broker.client.admin import PartitionReassignment
from broker.client.types import TopicPartition
from tests.support.assigned_topics import create_assigned
from tests.support.cluster_process import WITHIN_S, ClusterProcess, new_cluster, run_command
from tests.support.command_output import ask, succeed, wait_for_answer
from tests.support.terminal_images import on_a_terminal

LEADERS, FOLLOWERS = (f"{side}.replication.throttled.replicas" for side in ("leader", "follower"))
SIZE = 1_500_000
ORDERS = [TopicPartition("orders", index) for index in range(3)]


def test_moves_are_throttled_where_they_are_copied_from_and_to() -> None:
    moves = moves_of({ORDERS[0]: [1, 2], ORDERS[1]: [1, 4, 2]}, {ORDERS[0]: [2, 3], ORDERS[1]: [2, 4]}, {})
    assert moves == {
        ORDERS[0]: Move(frozenset({1, 2}), frozenset({3})),
        ORDERS[1]: Move(frozenset({1, 2, 4}), frozenset()),
    }
    assert throttled_replicas(moves) == {
        ("orders", LEADERS): ["0:1", "0:2", "1:1", "1:2", "1:4"],
        ("orders", FOLLOWERS): ["0:3"],
    }


def test_a_partition_that_moves_already_is_copied_from_its_former_replicas() -> None:
    moving = {ORDERS[0]: PartitionReassignment((1, 2, 3), (3,), (1,))}
    assert moves_of({ORDERS[0]: [1, 2, 3]}, {ORDERS[0]: [2, 3]}, moving) == {
        ORDERS[0]: Move(frozenset({1, 2}), frozenset({3}))
    }


def test_throttles_of_other_replicas_are_told_apart() -> None:
    throttled = ThrottledReplicas(
        {
            ("orders", LEADERS): ["0:1", "1:1", "2:7"],
            ("orders", FOLLOWERS): ["0:3", "1:2"],
            ("free", LEADERS): [],
        }
    )
    ours = throttled.of([ORDERS[0]])
    assert ours == {("orders", LEADERS): ["0:1"], ("orders", FOLLOWERS): ["0:3"]}
    left = throttled.without(ours)
    assert [broker for broker in (1, 2, 3, 4, 7) if left.holds_for(broker)] == [1, 2, 7]
    everything = ThrottledReplicas({("orders", LEADERS): ["*"]})
    assert everything.of(ORDERS) == {}
    assert everything.holds_for(9), "any replica of the topic may be on the broker"


def test_throttles_that_a_finished_move_has_left_name_a_broker_without_a_replica() -> None:
    throttled = ThrottledReplicas(
        {("orders", LEADERS): ["0:1", "0:2", "1:1", "2:5"], ("orders", FOLLOWERS): ["0:3", "1:3", "2:6"]}
    )
    at_rest = {ORDERS[0]: [2, 3], ORDERS[1]: [1, 3], TopicPartition("other", 0): [9]}  # 2 moves
    assert throttled.left_by_moves(at_rest) == [ORDERS[0]]
    assert throttled.left_by_moves(at_rest, 1) == [ORDERS[0]]
    assert throttled.left_by_moves(at_rest, 2) == []


@pytest.fixture(scope="module")
def _filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    with new_cluster(tmp_path_factory.mktemp("throttles"), voters=(1,), others={2: "broker", 3: "broker"}) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def cluster(_filled: ClusterProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterProcess]:
    """A combined node and two brokers. Partition 0 of `orders` has SIZE bytes on broker 1, and `other` is throttled."""
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", _filled.nodes[1].bootstrap)
    monkeypatch.setenv("KRAFT_CONFIG", "/nonexistent/config.toml")
    for topic in ("orders", "other"):
        create_assigned(_filled, topic, [1], [1])
    with SyncProducer(_filled.nodes[1].bootstrap, config={"batch.size": 50_000}) as producer:
        for _ in range(SIZE // 10_000):
            producer.send_soon("orders", b"x" * 10_000, partition=0)
    yield _filled
    succeed("topics", "delete", "orders", "other")
    wait_for_answer(lambda answer: answer.output.strip() == "[]", "topics", "list", "--json")


def check_set(wanted: dict[str, str], kind: str, *names: str) -> None:
    """The configs of throttles that are set on topics or brokers, once the brokers that are asked know of a change."""
    deadline = time.monotonic() + WITHIN_S
    for name in names:
        while (found := set_configs(kind, name)) != wanted:
            assert time.monotonic() < deadline, f"{kind} {name} has {found}, and not {wanted}"
            time.sleep(0.02)


def set_configs(kind: str, name: str) -> dict[str, str]:
    described = ask("configs", "describe", kind, name)
    return {each["name"]: each["value"] for each in described if "throttled" in each["name"]}


def plan_file(directory: Path, *replicas: int) -> str:
    """A plan that moves the filled partition to these brokers."""
    (directory / "plan.json").write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": replicas}]})
    )
    return str(directory / "plan.json")


def rates(rate: int) -> dict[str, str]:
    return {f"{side}.replication.throttled.rate": str(rate) for side in ("leader", "follower")}


def test_throttle_holds_for_the_moving_replicas_and_leaves_those_of_others(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    succeed("configs", "set", "topic", "other", f"{LEADERS}=0:1")
    succeed("configs", "set", "broker", "1", *(f"{name}={rate}" for name, rate in rates(5_000_000).items()))
    path = plan_file(tmp_path, 2)
    answer = run_command("reassign", "execute", path, "--throttle", "20KB/s")
    assert answer == (
        Exit.OK,
        "Moving orders-0 to 2.\n",
        "kraft: broker 1 limits other replicas, too, and now to the new rate\n"
        f"kraft: the moves are throttled; `kraft reassign verify {path} --wait` waits for them, and removes their "
        "throttle.\n",
    )
    check_set({LEADERS: "0:1", FOLLOWERS: "0:2"}, "topic", "orders")
    check_set(rates(20_000), "broker", "1", "2")
    check_set({}, "broker", "3")
    unfinished = run_command("reassign", "verify", path, "--json")
    assert (unfinished.code, json.loads(unfinished.output)[0]["state"]) == (Exit.FAILED, "moving")
    check_set({LEADERS: "0:1", FOLLOWERS: "0:2"}, "topic", "orders")  # it still moves

    succeed("reassign", "execute", path, "--throttle", "1GB")
    check_set(rates(10**9), "broker", "1", "2")
    check_set({LEADERS: "0:1", FOLLOWERS: "0:2"}, "topic", "orders")  # each replica is listed once
    assert [row["state"] for row in ask("reassign", "verify", path, "--wait")] == ["moved"]
    check_set({}, "topic", "orders")
    check_set({LEADERS: "0:1"}, "topic", "other")
    check_set(rates(10**9), "broker", "1")
    check_set({}, "broker", "2")
    succeed("configs", "delete", "broker", "1", *rates(0))


def test_kafka_tool_changes_the_rate_of_a_move_with_additional_and_verify_removes_it(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    path, tool = plan_file(tmp_path, 2), "kafka-reassign-partitions"
    servers = ("--bootstrap-server", cluster.nodes[1].bootstrap)
    execute = (*servers, "--execute", "--reassignment-json-file", path, "--throttle")
    assert "Successfully started" in on_a_terminal(*execute, "20000", tool=tool)
    assert "there is an existing partition assignment" in on_a_terminal(*execute, "1000000000", tool=tool)
    check_set(rates(20_000), "broker", "2")
    assert "Successfully started" in on_a_terminal(*execute, "1000000000", "--additional", tool=tool)
    assert [row["state"] for row in ask("reassign", "verify", path, "--wait")] == ["moved"]
    check_set({}, "topic", "orders")
    check_set({}, "broker", "1", "2")


def test_waiting_command_shows_bytes_and_the_time_left_and_removes_its_throttle(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    path, estimates = plan_file(tmp_path, 3), dict[str, None]()

    def speed_up(output: str) -> None:
        """Once there are two estimates, have the move end."""
        found = re.findall(r"0 of 1 partition, (\S+ \w+ of 1\.4 MiB, \S+ \w+/s, about [\dms ]+ left)", output)
        if len(estimates) < 2 <= len(dict.fromkeys(found)):
            succeed("reassign", "execute", path, "--throttle", "1GB")
        estimates.update(dict.fromkeys(found))

    shown = on_a_terminal("reassign", "execute", path, "--wait", "--throttle", "100KB", watch=speed_up)
    assert "Moved orders-0 to 3." in shown
    assert len(estimates) >= 2, shown
    check_set({}, "topic", "orders")
    check_set({}, "broker", "1", "3")


def test_cancelled_move_loses_its_throttle(cluster: ClusterProcess, tmp_path: Path) -> None:
    succeed("reassign", "execute", plan_file(tmp_path, 2), "--throttle", "1000")
    assert succeed("reassign", "cancel") == "orders-0 stays on 1.\n"
    check_set({}, "topic", "orders")
    check_set({}, "broker", "1", "2")


def test_drain_removes_its_throttle_and_one_that_a_killed_drain_has_left(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    path = plan_file(tmp_path, 3)
    succeed("reassign", "execute", path, "--throttle", "1GB")
    cluster.ask_every_broker(
        lambda topics: topics[0]["partitions"][0]["replicas"] == [3], "topics", "describe", "orders"
    )
    check_set({LEADERS: "0:1", FOLLOWERS: "0:3"}, "topic", "orders")
    drained = run_command("cluster", "drain", "1", "--throttle", "100MB")
    assert drained.code == Exit.OK, drained.errors
    for kind, name in (("topic", "orders"), ("topic", "other"), ("broker", "1"), ("broker", "2"), ("broker", "3")):
        check_set({}, kind, name)
    succeed("cluster", "undrain", "1")
    rebalanced = run_command("cluster", "rebalance", "--throttle", "100MB")
    assert rebalanced.code == Exit.OK, rebalanced.errors
    check_set({}, "topic", "other")
    (broker,) = ask("topics", "describe", "orders")[0]["partitions"][0]["replicas"]
    shown = on_a_terminal("cluster", "drain", str(broker), "--yes")
    assert re.search(r"(\d+) of \1 partitions?, 1\.4 MiB of 1\.4 MiB", shown), shown
    succeed("cluster", "undrain", str(broker))


@pytest.mark.parametrize("rate", ["0", "fast", "-1"])
def test_rate_has_to_be_a_size_above_zero(rate: str, tmp_path: Path) -> None:
    answer = run_command("reassign", "execute", plan_file(tmp_path, 1), "--throttle", rate)
    assert answer.code == Exit.USAGE
