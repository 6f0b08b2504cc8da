"""`kraft groups` on a node: members, lag, and resetting and deleting offsets."""

import json
import subprocess
import sys
from collections.abc import Iterator
from zlib import crc32

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from rich.text import Text

from broker.cli.grammar import Exit
from tests.support.cluster_process import run_command
from tests.support.command_output import ask, succeed, table
from tests.support.node_process import NodeProcess
from tests.support.terminal_images import on_a_terminal


@pytest.fixture
def topic(node: NodeProcess, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions, ten records in each; its name is also that of a group."""
    name = f"groups-{crc32(request.node.nodeid.encode()) % 10**8}"
    # The records are old: without this the node deletes them by time.
    succeed("topics", "create", name, "-p", "2", "--config", "retention.ms=-1")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(20):
        producer.produce(name, b"value", partition=number % 2, timestamp=1_769_846_400_000 + number)
    assert producer.flush(30) == 0
    return name


def commit(node: NodeProcess, topic: str, *offsets: int) -> None:
    """Commit these offsets of the partitions, from 0 on, for the group of the topic's name."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": topic})
    consumer.commit(
        offsets=[TopicPartition(topic, partition, offset) for partition, offset in enumerate(offsets)],
        asynchronous=False,
    )
    consumer.close()


@pytest.fixture
def member(node: NodeProcess, topic: str) -> Iterator[Consumer]:
    """A member of the group that has both partitions."""
    settings = {"bootstrap.servers": node.bootstrap, "group.id": topic, "client.id": "member"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    assert consumer.poll(30) is not None
    yield consumer
    consumer.close()


def test_a_group_is_listed_and_described_with_its_members(topic: str, member: Consumer) -> None:
    (row,) = [row for row in ask("groups", "list") if row["group_id"] == topic]
    assert (row["state"], row["protocol_type"]) == ("Stable", "consumer")
    (described,) = ask("groups", "describe", topic)
    (only,) = described["members"]
    assert (only["client_id"], only["assignment"]) == ("member", {topic: [0, 1]})
    assert f"{topic}:0-1" in succeed("groups", "describe", topic)


def test_lag_is_the_end_less_the_committed_offset(node: NodeProcess, topic: str, member: Consumer) -> None:
    member.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    rows = ask("groups", "lag", topic)
    assert [(row["partition"], row["committed"], row["end_offset"], row["lag"]) for row in rows] == [
        (0, 4, 10, 6),
        (1, None, 10, None),
    ]
    assert {row["client_id"] for row in rows} == {"member"}
    assert [row[1:] for row in table(succeed("groups", "lag", topic))[1:]] == [
        [f"{topic}-0", "4", "10", "6", "member"],
        [f"{topic}-1", "-", "10", "-", "member"],
    ]


def test_lag_takes_a_line_of_80_columns_for_each_partition(topic: str, member: Consumer) -> None:
    lines = Text.from_ansi(on_a_terminal("groups", "lag", topic, columns=80)).plain.splitlines()
    assert len(lines) == 3
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert lines[1].split() == [topic, f"{topic}-0", "-", "10", "-", "member"]


def test_a_group_without_members_is_described_with_its_offsets(node: NodeProcess, topic: str) -> None:
    commit(node, topic, 4)
    (described,) = ask("groups", "describe", topic)
    assert (described["state"], described["members"]) == ("Empty", [])
    expected = {"topic": topic, "partition": 0, "committed": 4, "end_offset": 10, "lag": 6}
    assert described["offsets"] == [expected]
    assert table(succeed("groups", "describe", topic))[1:] == [
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG"],
        [topic, "0", "4", "10", "6"],
    ]


def test_lag_is_watched_until_the_reader_has_enough(node: NodeProcess, topic: str) -> None:
    commit(node, topic, 4, 5)
    command = [sys.executable, "-m", "broker.cli", "groups", "lag", topic, "--watch", "--interval", "10ms", "--json"]
    decoder = json.JSONDecoder()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        text, seen = "", []
        while len(seen) < 3:
            text += watching.stdout.readline()
            if text.endswith("]\n"):
                seen.append(decoder.decode(text))
                text = ""
        watching.stdout.close()
        assert watching.wait(30) == Exit.OUTPUT_CLOSED
        assert watching.stderr.read() == ""
    assert [row["lag"] for row in seen[-1]] == [6, 5]


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [10, 10]),
        (["--to-current"], [4, 5]),
        (["--to-offset", "0"], [0, 0]),
        (["--to-offset", "7"], [7, 7]),
        (["--to-offset", "99"], [10, 10]),
        (["--to-time", "1769846400011"], [6, 5]),
        (["--to-time", "now"], [10, 10]),
        (["--shift-by", "0"], [4, 5]),
        (["--shift-by", "-1"], [3, 4]),
        (["--shift-by", "-99"], [0, 0]),
    ],
)
def test_offsets_are_reset_to_a_target(node: NodeProcess, topic: str, target: list[str], offsets: list[int]) -> None:
    commit(node, topic, 4, 5)
    planned = run_command("groups", "reset-offsets", topic, *target)
    assert planned.code == Exit.OK, planned.errors
    assert "Nothing was changed; --execute sets these offsets." in planned.output
    assert [row["committed"] for row in ask("groups", "lag", topic)] == [4, 5]
    rows = ask("groups", "reset-offsets", topic, *target, "--execute")
    assert [(row["old_offset"], row["new_offset"]) for row in rows] == list(zip([4, 5], offsets, strict=True))
    assert [row["committed"] for row in ask("groups", "lag", topic)] == offsets


def test_a_group_that_does_not_exist_gets_offsets_by_topic(node: NodeProcess, topic: str) -> None:
    assert succeed("groups", "reset-offsets", topic, "--to-latest") == (
        f"Group {topic} has no offsets; name topics with --topic.\n"
    )
    rows = ask("groups", "reset-offsets", topic, "-t", f"{topic}:1", "--to-latest", "--execute")
    assert [(row["partition"], row["old_offset"], row["new_offset"]) for row in rows] == [(1, None, 10)]


def test_offsets_of_a_group_with_members_are_left_alone(topic: str, member: Consumer) -> None:
    answer = run_command("groups", "reset-offsets", topic, "-t", topic, "--to-latest", "--execute")
    assert answer.code == Exit.FAILED
    assert "partition" in answer.errors
    delete = run_command("groups", "delete", topic)
    assert delete.code == Exit.FAILED
    assert "NON_EMPTY_GROUP" in delete.errors
    assert delete.errors.endswith("or remove its members, first; `kraft groups describe` shows the members\n")


def test_offsets_and_groups_are_deleted(node: NodeProcess, topic: str) -> None:
    commit(node, topic, 4, 5)
    assert succeed("groups", "delete-offsets", topic, "-t", f"{topic}:0") == f"Deleted the offset of {topic}-0.\n"
    assert [row["partition"] for row in ask("groups", "lag", topic)] == [1]
    assert succeed("groups", "delete", topic) == f"Deleted group {topic}.\n"
    assert run_command("groups", "describe", topic).code == Exit.NOT_FOUND
    assert run_command("groups", "delete", topic).code == Exit.NOT_FOUND
    assert run_command("groups", "delete", topic, "--if-exists").code == Exit.OK


@pytest.mark.parametrize("targets", [[], ["--to-earliest", "--to-latest"]])
def test_a_reset_has_one_target(node: NodeProcess, targets: list[str]) -> None:
    answer = run_command("groups", "reset-offsets", "group", *targets)
    assert answer.code == Exit.USAGE
    assert "Give exactly one of --to-earliest, " in answer.errors
