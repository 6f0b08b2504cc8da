"""kafka-share-groups and kafka-console-share-consumer against a running node (KIP-932).

The expected lines are those of Kafka 4.4's own tools against the same node.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.client import Admin, NewTopic, Producer, ShareConsumer, TopicPartition
from tests.support.kafka_tools import Tools, tools_of_a_node

Capture = pytest.CaptureFixture[str]
GROUPS, CONSUMER = "kafka-share-groups", "kafka-console-share-consumer"
RESET = (GROUPS, "--reset-offsets", "--group", "workers")
NO_GROUP = ("--reset-offsets", "--group", "missing")
GROUP_NOT_FOUND = "org.apache.kafka.common.errors.GroupIdNotFoundException: "


@asynccontextmanager
async def jobs(directory: Path, capsys: Capture) -> AsyncIterator[Tools]:
    """A node with four records in `jobs`, all of which the share group `workers` still gets. It has no members."""
    async with tools_of_a_node(directory, capsys, offsets_topic_num_partitions=1) as tools:
        async with Admin(tools.bootstrap) as admin, Producer(tools.bootstrap) as producer:
            (await admin.create_topics([NewTopic("jobs", num_partitions=1)])).raise_first()
            for number in range(4):
                await producer.send("jobs", b"%d" % number, key=b"k")
            (await admin.alter_share_group_offsets("workers", {TopicPartition("jobs", 0): 0})).raise_first()
        yield tools


async def test_share_groups_are_listed_described_and_deleted(tmp_path: Path, capsys: Capture) -> None:
    async with jobs(tmp_path, capsys) as tools:
        assert await tools.lines(GROUPS, "--list") == ["workers"]
        assert await tools.lines(GROUPS, "--list", "--state") == [f"{'GROUP':<15} STATE", f"{'workers':<15} Empty"]
        assert await tools.lines(GROUPS, "--list", "--state", "stable") == [f"{'GROUP':<15} STATE"]
        assert await tools.lines(GROUPS, "--describe", "--group", "workers", "--verbose") == [
            "",
            f"{'GROUP':<15} {'TOPIC':<15} {'PARTITION':<10} {'LEADER-EPOCH':<13} {'START-OFFSET':<13} LAG",
            f"{'workers':<15} {'jobs':<15} {'0':<10} {'0':<13} {'0':<13} 4",
        ]
        output, errors = await tools.run(GROUPS, "--describe", "--group", "workers", "--members")
        assert (output, errors) == ("", "\nShare group 'workers' has no active members.\n")
        header, state = (await tools.lines(GROUPS, "--describe", "--all-groups", "--state"))[1:]
        assert header == f"{'GROUP':<15} {'COORDINATOR (ID)':<25} {'STATE':<15} #MEMBERS"
        assert state.split() == ["workers", tools.bootstrap, "(1)", "Empty", "0"]
        assert await tools.lines(GROUPS, "--delete", "--group", "workers", "--group", "other") == [
            "",
            "Error: Deletion of some share groups failed:",
            f"* Group 'other' could not be deleted due to: {GROUP_NOT_FOUND}Group 'other' is not a share group.",
            "",
            "These share groups were deleted successfully: 'workers'",
        ]
        assert await tools.lines(GROUPS, "--list") == []


async def test_share_group_with_a_member_is_described_and_not_changed(tmp_path: Path, capsys: Capture) -> None:
    async with (
        jobs(tmp_path, capsys) as tools,
        ShareConsumer(tools.bootstrap, topics=["jobs"], group_id="workers", client_id="worker") as consumer,
    ):
        assert len(await consumer.fetch(30)) == 4
        header, member = (await tools.lines(GROUPS, "--describe", "--group", "workers", "--members", "--verbose"))[1:]
        assert header.split()[4:] == ["#PARTITIONS", "MEMBER-EPOCH", "ASSIGNMENT"]
        assert member.split()[2:] == ["/127.0.0.1", "worker", "1", member.split()[5], "jobs:0"]
        _, errors = await tools.run(*RESET, "--topic", "jobs", "--to-earliest", "--execute", expected=1)
        assert errors == "Share group 'workers' is not empty.\n"
        assert await tools.lines(GROUPS, "--delete", "--group", "workers") == [
            "",
            "Error: Deletion of some share groups failed:",
            "* Group 'workers' could not be deleted due to: org.apache.kafka.common.errors.GroupNotEmptyException: "
            "Share group 'workers' is not EMPTY.",
        ]
        assert await tools.lines(GROUPS, "--delete-offsets", "--group", "workers", "--topic", "jobs") == [
            "",
            "Error: The group is not empty.",
            "",
            f"{'TOPIC':<15} STATUS",
            f"{'jobs':<15} Error: The group is not empty.",
        ]


async def test_start_offsets_are_reset_exported_and_deleted(tmp_path: Path, capsys: Capture) -> None:
    async with jobs(tmp_path, capsys) as tools:
        header = f"{'GROUP':<15} {'TOPIC':<15} {'PARTITION':<10} NEW-OFFSET"
        row = f"{'workers':<15} {'jobs':<15} {'0':<10} "
        assert await tools.lines(*RESET, "--topic", "jobs", "--to-latest", "--dry-run") == ["", header, f"{row}4"]
        assert await tools.lines(*RESET, "--topic", "jobs:0", "--to-offset", "3", "--execute") == [
            "",
            header,
            f"{row}3",
        ]
        assert await tools.lines(*RESET, "--all-topics", "--to-current", "--dry-run") == ["", header, f"{row}3"]
        exported, _ = await tools.run(*RESET, "--all-topics", "--to-current", "--dry-run", "--export")
        assert exported == "jobs,0,3\n\n"
        assert await tools.run(GROUPS, *NO_GROUP, "--all-topics", "--to-latest", "--dry-run") == ("\n", "")
        (tmp_path / "plan.csv").write_text("jobs,0,2\n")
        plan = str(tmp_path / "plan.csv")
        assert await tools.lines(*RESET, "--from-file", plan, "--execute") == ["", header, f"{row}2"]
        assert (await tools.lines(*RESET, "--topic", "missing", "--to-latest", "--dry-run"))[1:] == [
            "Error: Executing share group command failed due to This server does not host this topic-partition."
        ]
        assert await tools.lines(GROUPS, "--delete-offsets", "--group", "workers", "--topic", "jobs") == [
            "",
            f"{'TOPIC':<15} STATUS",
            f"{'jobs':<15} Successful",
        ]
        assert (await tools.lines(GROUPS, "--describe", "--group", "missing"))[1:] == [
            f"Error: Executing share group command failed due to {GROUP_NOT_FOUND}Share group missing not found."
        ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "",
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets.",
        ),
        ("--describe", "Option [describe] takes one of these options: [all-groups], [group]"),
        ("--list --group g", 'Option "[group]" can\'t be used with option "[list]"'),
        ("--list --state bogus", "Invalid state list 'bogus'. Valid states are: Stable, Dead, Empty"),
        (
            "--list --verbose --members",
            "Option(s) [members, verbose] are unavailable given other options on the command line",
        ),
        ("--delete --group g --state", "Option(s) [state] are unavailable given other options on the command line"),
        ("--delete", "Option [delete] takes the options [group] or [all-groups]."),
        (
            "--reset-offsets --group g --topic t --dry-run",
            "Option [reset-offsets] takes one of these options: [from-file], [to-current], [to-datetime], "
            "[to-earliest], [to-latest], [to-offset]",
        ),
        (
            "--reset-offsets --group g --topic t --all-topics --dry-run",
            'Option "[topic]" can\'t be used with option "[all-topics]"',
        ),
        (
            "--reset-offsets --group g --all-topics --from-file f --dry-run",
            'Option "[all-topics]" can\'t be used with option "[from-file]"',
        ),
        ("--reset-offsets --group g --topic t", "Option [reset-offsets] takes the option: [execute] or [dry-run]"),
        (
            "--reset-offsets --group g --to-latest --dry-run",
            "Option [reset-offsets] takes one of these options: [all-topics], [from-file], [topic]",
        ),
    ],
)
async def test_wrong_options_of_share_groups_are_refused_as_by_kafka(
    tmp_path: Path, capsys: Capture, arguments: str, message: str
) -> None:
    tools = Tools("127.0.0.1:1", capsys)
    if "bogus" in arguments:
        async with tools_of_a_node(tmp_path, capsys, offsets_topic_num_partitions=1) as running:
            _, errors = await running.run(GROUPS, *arguments.split(), expected=1)
    else:
        _, errors = await tools.run(GROUPS, *arguments.split(), expected=1)
    assert errors.splitlines()[0] == message


READ = (CONSUMER, "--topic", "jobs", "--group", "workers", "--timeout-ms", "30000")
WITH_COUNT = ("--formatter-property", "print.delivery=true", "--formatter-property", "key.separator=|")


async def test_console_share_consumer_accepts_releases_and_rejects(tmp_path: Path, capsys: Capture) -> None:
    """Records beyond --max-messages are released, too. The other ones count as delivered once."""
    async with jobs(tmp_path, capsys) as tools:
        output, errors = await tools.run(*READ, *WITH_COUNT, "--max-messages", "2", "--release")
        assert output == "Delivery:1|0\nDelivery:1|1\n"
        assert errors == "Processed a total of 2 messages\n"
        assert await tools.lines(*READ, *WITH_COUNT, "--max-messages", "1") == ["Delivery:2|0"]
        assert (await tools.lines(*READ, "--max-messages", "1", "--reject")) == ["1"]
        keys = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
        assert await tools.lines(*READ, *keys, "--max-messages", "2") == ["Offset:2\tk\t2", "Offset:3\tk\t3"]
        (described,) = (await tools.lines(GROUPS, "--describe", "--group", "workers"))[2:]
        assert described.split()[-1] == "0"


async def test_record_that_the_console_share_consumer_cannot_print_is_rejected_or_ends_it(
    tmp_path: Path, capsys: Capture
) -> None:
    async with jobs(tmp_path, capsys) as tools:
        read = (
            *READ,
            "--max-messages",
            "4",
            "--value-deserializer",
            "org.apache.kafka.common.serialization.LongDeserializer",
        )
        output, errors = await tools.run(*read, expected=1)
        assert output == ""
        assert errors.splitlines()[-1] == (
            "ERROR Unknown error when running consumer: Size of data received by LongDeserializer is not 8"
        )
        _, errors = await tools.run(*read, "--reject-message-on-error")
        assert errors.count("ERROR Error processing message, rejecting this message: ") == 4
        (described,) = (await tools.lines(GROUPS, "--describe", "--group", "workers"))[2:]
        assert described.split()[-1] == "0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--group g", "--topic is a required argument"),
        ("--topic t --reject --release", "At most one of --reject and --release may be specified."),
        (
            "--topic t --group a --command-property group.id=b",
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            "'--consumer-config') do not match. Detected group ids: 'a', 'b'",
        ),
    ],
)
async def test_wrong_options_of_the_console_share_consumer_are_refused_as_by_kafka(
    capsys: Capture, arguments: str, message: str
) -> None:
    _, errors = await Tools("127.0.0.1:1", capsys).run(CONSUMER, *arguments.split(), expected=1)
    assert errors.splitlines()[0] == message
