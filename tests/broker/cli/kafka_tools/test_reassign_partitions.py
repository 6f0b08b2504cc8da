"""kafka-reassign-partitions against a running cluster, and against one node."""

import json
from pathlib import Path

import pytest
import trio

from tests.support.kafka_tools import Tools, tools_of_a_node
from tests.support.running_cluster import running_cluster

Capture = pytest.CaptureFixture[str]
REASSIGN = "kafka-reassign-partitions"


def plan_file(directory: Path, *entries: dict[str, object]) -> list[str]:
    path = directory / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return ["--reassignment-json-file", str(path)]


async def test_replicas_are_moved_and_the_move_is_verified(tmp_path: Path, capsys: Capture) -> None:
    async with running_cluster(tmp_path) as cluster:
        tools = Tools(",".join(f"127.0.0.1:{cluster.port(node_id)}" for node_id in cluster.nodes), capsys)
        await tools.run("kafka-topics", "--create", "--topic", "orders", "--replica-assignment", "1,2")
        await cluster.until_images_match()
        await tools.run("kafka-topics", "--describe", "--topic", "orders")
        topics = tmp_path / "topics.json"
        topics.write_text('{"topics": [{"topic": "orders"}], "version": 1}')
        lines = await tools.lines(
            REASSIGN, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "2,3"
        )
        assert (lines[0], lines[2:4]) == (
            "Current partition replica assignment",
            ["", "Proposed partition reassignment configuration"],
        )
        current, proposed = (json.loads(line)["partitions"] for line in (lines[1], lines[4]))
        assert [each["replicas"] for each in current] == [[1], [2]]
        assert sorted(each["replicas"] for each in proposed) == [[2], [3]]
        plan = plan_file(tmp_path, {"topic": "orders", "partition": 0, "replicas": [3, 2]})
        lines = await tools.lines(REASSIGN, "--execute", *plan, "--throttle", "1000000")
        assert lines[0] == "Current partition replica assignment"
        assert json.loads(lines[2])["partitions"][0]["replicas"] == [1]
        assert lines[4:] == [
            "Save this to use as the --reassignment-json-file option during rollback",
            "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
            "removed.",
            "The inter-broker throttle limit was set to 1000000 B/s",
            "Successfully started partition reassignment for orders-0",
        ]
        with trio.fail_after(60):
            while await tools.lines(REASSIGN, "--list") != ["No partition reassignments found."]:
                await trio.sleep(0.1)
        await cluster.until_images_match()
        assert await tools.lines(REASSIGN, "--verify", *plan) == [
            "Status of partition reassignment:",
            "Reassignment of partition orders-0 is completed.",
            "",
            "Clearing broker-level throttles on brokers 1,2,3",
            "Clearing topic-level throttles on topic orders",
        ]
        await cluster.until_images_match()
        assert await tools.lines("kafka-configs", "--describe", "--broker", "3") == [
            "Dynamic configs for broker 3 are:"
        ]


async def test_plans_that_cannot_be_executed_are_refused(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        await tools.run("kafka-topics", "--create", "--topic", "orders")

        async def refusal(*entries: dict[str, object]) -> str:
            (line,) = await tools.lines(REASSIGN, "--execute", *plan_file(tmp_path, *entries), expected=1)
            return line

        entry: dict[str, object] = {"topic": "orders", "partition": 0, "replicas": [1]}
        assert await refusal() == "Error: Partition reassignment list cannot be empty"
        assert await refusal({**entry, "replicas": [7]}) == "Error: Unknown broker id 7"
        assert await refusal({**entry, "partition": 5}) == "Error: Unable to find partition: orders-5"
        assert await refusal({**entry, "topic": "missing"}) == "Error: Topic missing not found."
        assert await refusal({**entry, "replicas": []}) == "Error: Partition replica list cannot be empty"
        assert await refusal(entry, entry) == (
            "Error: Partition reassignment contains duplicate topic partitions: orders-0"
        )
        assert await refusal({**entry, "replicas": [1, 1]}) == (
            "Error: Partition replica lists may not contain duplicate entries: orders-0 contains multiple entries for 1"
        )
        assert (await refusal({"topic": "orders"})) == "Error: No such field exists: `partition`"


async def test_replicas_are_moved_between_log_directories(tmp_path: Path, capsys: Capture) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    async with tools_of_a_node(tmp_path, capsys, log_dirs=f"{one},{two}") as tools:
        await tools.run("kafka-topics", "--create", "--topic", "orders")
        entry: dict[str, object] = {"topic": "orders", "partition": 0, "replicas": [1]}
        plan = plan_file(tmp_path, {**entry, "log_dirs": [two]})
        lines = await tools.lines(REASSIGN, "--execute", *plan, "--replica-alter-log-dirs-throttle", "0")
        assert json.loads(lines[2])["partitions"][0]["log_dirs"] == [one]
        assert lines[4:] == [
            "Save this to use as the --reassignment-json-file option during rollback",
            "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
            "removed.",
            "The replica-alter-dir throttle limit was set to 0 B/s",
            "Successfully started partition reassignment for orders-0",
            f"Successfully started moving log directory to {two} for replica orders-0 with broker 1 ",
        ]
        completed = "Reassignment of replica orders-0-1 completed successfully."
        with trio.fail_after(60):
            while completed not in (lines := await tools.lines(REASSIGN, "--verify", *plan)):
                await trio.sleep(0.1)
        assert lines == [
            "Status of partition reassignment:",
            "Reassignment of partition orders-0 is completed.",
            completed,
            "Clearing broker-level throttles on broker 1",
            "Clearing topic-level throttles on topic orders",
        ]
        back = plan_file(tmp_path, {**entry, "log_dirs": [one]})
        assert "Partition orders-0 on broker 1 is not being moved from log dir" in "".join(
            await tools.lines(REASSIGN, "--verify", *back)
        )
        nowhere = plan_file(tmp_path, {**entry, "log_dirs": ["/nowhere"]})
        lines = await tools.lines(REASSIGN, "--execute", *nowhere, expected=1)
        assert lines[-1].startswith("Error: Failed to alter dir for orders-0-1")


async def test_moves_between_log_directories_are_cancelled(tmp_path: Path, capsys: Capture) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    async with tools_of_a_node(tmp_path, capsys, log_dirs=f"{one},{two}") as tools:
        await tools.run("kafka-topics", "--create", "--topic", "orders")
        load = ("--num-records", "10", "--record-size", "10", "--throughput", "-1")
        await tools.run("kafka-producer-perf-test", "--topic", "orders", *load)
        plan = plan_file(tmp_path, {"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": [two]})
        await tools.run(REASSIGN, "--execute", *plan, "--replica-alter-log-dirs-throttle", "0")
        lines = await tools.lines(REASSIGN, "--verify", *plan)
        assert lines[2:] == ["Reassignment of replica orders-0-1 is still in progress."]
        assert await tools.lines(REASSIGN, "--cancel", *plan, "--preserve-throttles") == [
            "None of the specified partition reassignments are active.",
            f"Successfully started moving log directory to {one} for replica orders-0 with broker 1 ",
        ]
        lines = await tools.lines(REASSIGN, "--verify", *plan, "--preserve-throttles")
        assert lines[2:] == [f"Partition orders-0 on broker 1 is not being moved from log dir {one} to {two}."]


async def test_cancelling_without_a_reassignment_changes_nothing(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        await tools.run("kafka-topics", "--create", "--topic", "orders")
        plan = plan_file(tmp_path, {"topic": "orders", "partition": 0, "replicas": [1]})
        assert await tools.lines(REASSIGN, "--cancel", *plan, "--preserve-throttles") == [
            "None of the specified partition reassignments are active.",
            "None of the specified partition moves are active.",
        ]
        _, errors = await tools.run(REASSIGN, "--list", *plan, expected=1)
        assert errors.startswith('Option "[reassignment-json-file]" can\'t be used with action "[list]"')
