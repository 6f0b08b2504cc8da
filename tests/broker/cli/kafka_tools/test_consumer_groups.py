"""kafka-consumer-groups against a running node. Groups without members keep offsets that an Admin has set."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.client import Admin, NewTopic, Producer, TopicPartition
from tests.support.kafka_tools import Tools, tools_of_a_node

Capture = pytest.CaptureFixture[str]
GROUPS = "kafka-consumer-groups"


@asynccontextmanager
async def a_group(directory: Path, capsys: Capture) -> AsyncIterator[Tools]:
    """A node with ten records in each of two partitions of `orders`, of which the group `tour` has read some."""
    async with tools_of_a_node(directory, capsys, offsets_topic_num_partitions=1) as tools:
        async with Admin(tools.bootstrap) as admin, Producer(tools.bootstrap) as producer:
            (await admin.create_topics([NewTopic("orders", num_partitions=2)])).raise_first()
            for number in range(20):
                await producer.send("orders", b"%d" % number, partition=number % 2, timestamp_ms=1_000_000 + number)
            offsets = {TopicPartition("orders", 0): 4, TopicPartition("orders", 1): 6}
            (await admin.alter_group_offsets("tour", offsets)).raise_first()
        yield tools


async def test_groups_are_listed_described_and_deleted(tmp_path: Path, capsys: Capture) -> None:
    async with a_group(tmp_path, capsys) as tools:
        assert await tools.lines(GROUPS, "--list") == ["tour"]
        assert await tools.lines(GROUPS, "--list", "--state", "--type") == [
            f"{'GROUP':<25} {'TYPE':<20} {'STATE':<20}",
            f"{'tour':<25} {'Classic':<20} {'Empty':<20}",
        ]
        output, errors = await tools.run(GROUPS, "--describe", "--group", "tour")
        assert errors == "\nConsumer group 'tour' has no active members.\n"
        none = f"{'-':<15} {'-':<15} -"
        assert output.splitlines() == [
            "",
            f"{'GROUP':<15} {'TOPIC':<15} {'PARTITION':<10} {'CURRENT-OFFSET':<15} {'LOG-END-OFFSET':<15} {'LAG':<15} "
            f"{'CONSUMER-ID':<15} {'HOST':<15} CLIENT-ID",
            f"{'tour':<15} {'orders':<15} {'0':<10} {'4':<15} {'10':<15} {'6':<15} {none}",
            f"{'tour':<15} {'orders':<15} {'1':<10} {'6':<15} {'10':<15} {'4':<15} {none}",
        ]
        header, state = (await tools.lines(GROUPS, "--describe", "--group", "tour", "--state"))[1:]
        assert header == (f"{'GROUP':<15} {'COORDINATOR (ID)':<25} {'ASSIGNMENT-STRATEGY':<20} {'STATE':<20} #MEMBERS")
        assert state.split() == ["tour", tools.bootstrap, "(1)", "-", "Empty", "0"]
        assert await tools.lines(GROUPS, "--delete", "--group", "tour") == [
            "Deletion of requested consumer groups ('tour') was successful."
        ]
        assert await tools.lines(GROUPS, "--list") == []


async def test_a_group_that_does_not_exist_is_an_error_with_exit_code_0_as_kafka_has_it(
    tmp_path: Path, capsys: Capture
) -> None:
    async with tools_of_a_node(tmp_path, capsys, offsets_topic_num_partitions=1) as tools:
        missing = "org.apache.kafka.common.errors.GroupIdNotFoundException: "
        _, line = await tools.lines(GROUPS, "--describe", "--group", "missing")
        assert line.startswith(f"Error: Executing consumer group command failed due to {missing}")
        _, error, group = await tools.lines(GROUPS, "--delete", "--group", "missing")
        assert error == "Error: Deletion of some consumer groups failed:"
        assert group.startswith(f"* Group 'missing' could not be deleted due to: {missing}")


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [10, 10]),
        (["--to-current"], [4, 6]),
        (["--to-offset", "7"], [7, 7]),
        (["--to-offset", "70"], [10, 10]),
        (["--shift-by", "-5"], [0, 1]),
        (["--to-datetime", "1970-01-01T00:16:40.011"], [6, 5]),
        (["--to-datetime", "1970-01-01T01:16:40.011+01:00"], [6, 5]),
        (["--by-duration", "PT0S"], [10, 10]),
    ],
)
async def test_offsets_are_reset_in_every_way(
    tmp_path: Path, capsys: Capture, scenario: list[str], expected: list[int]
) -> None:
    async with a_group(tmp_path, capsys) as tools:
        reset = [GROUPS, "--reset-offsets", "--group", "tour", "--topic", "orders", *scenario]
        rows = [f"{'tour':<15} {'orders':<15} {partition:<10} {offset}" for partition, offset in enumerate(expected)]
        for mode in ("--dry-run", "--execute"):
            lines = [line for line in await tools.lines(*reset, mode) if line and not line.startswith("Warn:")]
            assert lines[0] == f"{'GROUP':<15} {'TOPIC':<15} {'PARTITION':<10} NEW-OFFSET"
            assert sorted(lines[1:]) == rows
        described = (await tools.lines(GROUPS, "--describe", "--group", "tour"))[2:]
        assert [int(line.split()[3]) for line in described] == expected


async def test_offsets_of_single_partitions_are_exported_and_reset_from_the_file(
    tmp_path: Path, capsys: Capture
) -> None:
    async with a_group(tmp_path, capsys) as tools:
        reset = [GROUPS, "--reset-offsets", "--group", "tour"]
        export = [*reset, "--topic", "orders:1", "--to-offset", "2", "--dry-run", "--export"]
        output, _ = await tools.run(*export)
        assert output == "orders,1,2\n\n"
        plan = tmp_path / "plan.csv"
        plan.write_text(output)
        assert (await tools.lines(*reset, "--from-file", str(plan), "--execute"))[2].split() == [
            "tour",
            "orders",
            "1",
            "2",
        ]
        described = (await tools.lines(GROUPS, "--describe", "--group", "tour"))[2:]
        assert [int(line.split()[3]) for line in described] == [4, 2]


async def test_offsets_of_a_topic_are_deleted(tmp_path: Path, capsys: Capture) -> None:
    async with a_group(tmp_path, capsys) as tools:
        delete = [GROUPS, "--delete-offsets", "--group", "tour", "--topic"]
        header = f"{'TOPIC':<15} {'PARTITION':<10} {'STATUS':<15}"
        assert await tools.lines(*delete, "orders:1") == [
            "Request succeeded for deleting offsets from group tour.",
            "",
            header,
            f"{'orders':<15} {'1':<10} {'Successful':<15}",
        ]
        assert len(await tools.lines(GROUPS, "--describe", "--group", "tour")) == 3
        lines = await tools.lines(*delete, "missing")
        assert lines[-2:] == [
            header,
            f"{'missing':<15} {'-':<10} Error: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
            "This server does not host this topic-partition.",
        ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--describe"], "Option [describe] takes one of these options: [group], [all-groups]"),
        (["--list", "--describe", "--all-groups"], "Command must include exactly one action: --list, --describe"),
        (["--reset-offsets", "--group", "g", "--dry-run", "--execute"], "Option [reset-offsets] only accepts one of"),
        (
            ["--reset-offsets", "--group", "g", "--dry-run", "--to-latest", "--to-earliest"],
            'Option "[to-earliest]" can\'t be used with option "[to-latest]"',
        ),
        (["--delete-offsets", "--group", "g"], "Option [delete-offsets] takes the following options: [group], [topic]"),
    ],
)
async def test_wrong_options_are_refused(capsys: Capture, arguments: list[str], message: str) -> None:
    from broker.cli.kafka_tools.tools import run_tool

    assert await run_tool(GROUPS, ["--bootstrap-server", "localhost:1", *arguments]) == 1
    assert capsys.readouterr().err.startswith(message)
