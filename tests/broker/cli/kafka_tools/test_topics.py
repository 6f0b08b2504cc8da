"""kafka-topics against a running node."""

import re
from pathlib import Path

import pytest

from broker.cli.kafka_tools.tools import run_tool
from tests.support.kafka_tools import tools_of_a_node

Capture = pytest.CaptureFixture[str]


async def test_topics_are_created_described_altered_listed_and_deleted(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        create = ["--create", "--topic", "orders", "--partitions", "2", "--replication-factor", "1"]
        config = ["--config", "retention.ms=60000", "--config", "cleanup.policy=compact"]
        assert await tools.lines("kafka-topics", *create, *config) == ["Created topic orders."]
        topic, first, second = await tools.lines("kafka-topics", "--describe", "--topic", "orders")
        assert re.fullmatch(
            r"Topic: orders\tTopicId: [\w-]{22}\tPartitionCount: 2\tReplicationFactor: 1"
            r"\tConfigs: min.insync.replicas=1,cleanup.policy=compact,retention.ms=60000",
            topic,
        )
        assert first == "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
        assert second.startswith("\tTopic: orders\tPartition: 1\tLeader: 1\t")
        assert await tools.lines("kafka-topics", "--alter", "--topic", "orders", "--partitions", "3") == []
        assert len(await tools.lines("kafka-topics", "--describe", "--topic=orders")) == 4
        assert await tools.lines("kafka-topics", "--list") == ["orders"]
        assert await tools.lines("kafka-topics", "--delete", "--topic", "orders") == []
        assert await tools.lines("kafka-topics", "--list") == [""]


async def test_topics_are_selected_by_a_regular_expression_and_by_id(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        for name in ("orders", "orders-2", "payments"):
            await tools.run("kafka-topics", "--create", "--topic", name)
        assert await tools.lines("kafka-topics", "--list", "--topic", "orders.*") == ["orders", "orders-2"]
        assert await tools.lines("kafka-topics", "--list", "--topic", "orders,pay.*") == ["orders", "payments"]
        (line, _) = await tools.lines("kafka-topics", "--describe", "--topic", "payments")
        topic_id = line.split("\t")[1].removeprefix("TopicId: ")
        assert (await tools.lines("kafka-topics", "--describe", "--topic-id", topic_id))[0] == line
        _, errors = await tools.run("kafka-topics", "--list", "--topic", "(", expected=1)
        assert errors.startswith("( is an invalid regex")


async def test_missing_and_existing_topics_fail_unless_allowed(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        await tools.run("kafka-topics", "--create", "--topic", "orders")
        create = ["kafka-topics", "--create", "--topic", "orders"]
        assert await tools.lines(*create, expected=1) == [
            "Error while executing topic command : Topic 'orders' already exists."
        ]
        assert await tools.lines(*create, "--if-not-exists") == []
        missing = ["Error while executing topic command : Topic 'missing' does not exist as expected"]
        for action in (["--describe"], ["--delete"], ["--alter", "--partitions", "3"]):
            assert await tools.lines("kafka-topics", *action, "--topic", "missing", expected=1) == missing
            assert await tools.lines("kafka-topics", *action, "--topic", "missing", "--if-exists") == []


async def test_describe_shows_only_the_partitions_of_a_report(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        await tools.run("kafka-topics", "--create", "--topic", "plain")
        await tools.run("kafka-topics", "--create", "--topic", "changed", "--config", "retention.ms=1")
        assert await tools.lines("kafka-topics", "--describe", "--under-replicated-partitions") == []
        assert await tools.lines("kafka-topics", "--describe", "--unavailable-partitions") == []
        assert len(await tools.lines("kafka-topics", "--describe", "--at-min-isr-partitions")) == 2
        lines = await tools.lines("kafka-topics", "--describe", "--topics-with-overrides", "--topic", "changed")
        assert [line.split("\t")[-1] for line in lines] == ["Configs: min.insync.replicas=1,retention.ms=1"]


async def test_replicas_are_assigned_and_an_assignment_is_checked(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        create = ["kafka-topics", "--create", "--topic", "orders", "--replica-assignment"]
        error = "Error while executing topic command : Partition "
        assert await tools.lines(*create, "1:1", expected=1) == [
            f"{error}replica lists may not contain duplicate entries: 1"
        ]
        assert await tools.lines(*create, "1,1:2", expected=1) == [f"{error}1 has different replication factor: [1, 2]"]
        assert await tools.lines(*create, "1,1") == ["Created topic orders."]
        assert len(await tools.lines("kafka-topics", "--describe", "--topic", "orders")) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--list", "--create"], "Command must include exactly one action: --list, --describe, --create, --alter or"),
        (["--create"], 'Missing required argument "[topic]"'),
        (["--list", "--partitions", "3"], 'Option "[partitions]" can\'t be used with option "[list]"'),
        (["--list", "--partitions", "x"], "Cannot parse argument 'x' of option partitions"),
        (["--list", "--topics"], "topics is not a recognized option"),
        (["--list", "--topic"], "Option topic requires an argument"),
        (["--describe", "--unavailable-partitions", "--topics-with-overrides"], 'Option "[unavailable-partitions]"'),
        (["--alter", "--topic", "t", "--config", "a=b"], 'Option combination "[[bootstrap-server], [config]]"'),
    ],
)
async def test_wrong_options_are_refused_with_the_help(capsys: Capture, arguments: list[str], message: str) -> None:
    assert await run_tool("kafka-topics", ["--bootstrap-server", "localhost:1", *arguments]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith(message)
    assert "--replication-factor <count>" in errors
