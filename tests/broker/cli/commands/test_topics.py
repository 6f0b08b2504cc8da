"""`kraft topics` on a node: create, list, describe, alter, delete; offsets and trimming."""

import pytest
from confluent_kafka import Producer

from broker.cli.grammar import Exit
from tests.support.cluster_process import run_command
from tests.support.command_output import ask, succeed, table
from tests.support.node_process import NodeProcess


def produce(node: NodeProcess, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, b"value %d" % number, partition=partition, timestamp=1_769_846_400_000 + number)
    assert producer.flush(30) == 0


def test_a_topic_lives_from_create_to_delete(node: NodeProcess) -> None:
    created = succeed("topics", "create", "orders", "-p", "6", "-r", "1", "-c", "retention.ms=3600000")
    assert created == "Created topic orders with 6 partitions, 1 replica\n"
    assert ["orders", "6", "1", "0", "0"] in table(succeed("topics", "list", "ord*"))
    (described,) = ask("topics", "describe", "orders")
    assert described["configs"] == {"retention.ms": "3600000"}
    assert [each["partition"] for each in described["partitions"]] == list(range(6))
    assert succeed("topics", "alter", "orders", "-p", "8") == "Topic orders has 8 partitions.\n"
    assert ask("topics", "list", "orders")[0]["partitions"] == 8
    assert succeed("topics", "delete", "orders") == "Deleted topic orders.\n"
    assert ask("topics", "list", "orders") == []


def test_names_can_be_printed_alone_for_scripts(node: NodeProcess) -> None:
    succeed("topics", "create", "names-a", "names-b")
    assert succeed("topics", "list", "names-*", "--names") == "names-a\nnames-b\n"


def test_a_dry_run_creates_nothing(node: NodeProcess) -> None:
    assert succeed("topics", "create", "dry", "-p", "1", "--dry-run").startswith("Could create topic dry")
    assert run_command("topics", "describe", "dry").code == Exit.NOT_FOUND


def test_a_part_that_fails_is_reported_and_the_rest_is_done(node: NodeProcess) -> None:
    succeed("topics", "create", "there")
    answer = run_command("topics", "create", "there", "new")
    assert answer.code == Exit.FAILED
    assert answer.output.startswith("Created topic new ")
    assert answer.errors == (
        "kraft: topic there: TOPIC_ALREADY_EXISTS: Topic 'there' already exists; "
        "use --if-not-exists where that is fine\n"
    )
    assert run_command("topics", "create", "there", "--if-not-exists").code == Exit.OK


def test_a_topic_that_does_not_exist_has_its_own_exit_code(node: NodeProcess) -> None:
    for command in ("describe", "delete", "offsets"):
        answer = run_command("topics", command, "none")
        assert (answer.code, answer.output) == (Exit.NOT_FOUND, ""), command
        assert "`kraft topics list` shows the topics that exist" in answer.errors
    assert run_command("topics", "delete", "none", "--if-exists").code == Exit.OK


def test_offsets_show_where_partitions_begin_and_end(node: NodeProcess) -> None:
    succeed("topics", "create", "offsets", "-p", "2")
    produce(node, "offsets", 10, partition=1)
    assert table(succeed("topics", "offsets", "offsets:0", "offsets:1", "--at", "1769846400004", "--at", "now")) == [
        ["TOPIC", "PARTITION", "BEGIN", "END", "OFFSETS", "1769846400004", "NOW"],
        ["offsets", "0", "0", "0", "0", "-", "-"],
        ["offsets", "1", "0", "10", "10", "4", "-"],
    ]
    assert [row["at"] for row in ask("topics", "offsets", "offsets", "--at", "1769846400004")] == [[None], [4]]


def test_records_are_trimmed_up_to_an_offset_a_time_or_the_end(node: NodeProcess) -> None:
    succeed("topics", "create", "trimmed", "-p", "1")
    produce(node, "trimmed", 10)
    assert succeed("topics", "trim", "trimmed", "--before-offset", "3") == "trimmed-0 begins at offset 3 now.\n"
    assert ask("topics", "trim", "trimmed:0", "--before-time", "1769846400005")[0]["begin"] == 5
    assert ask("topics", "trim", "trimmed", "--all")[0]["begin"] == 10
    answer = run_command("topics", "trim", "trimmed", "--before-offset", "11")
    assert answer.code == Exit.FAILED
    assert "OFFSET_OUT_OF_RANGE" in answer.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trim", "t"], "Give one of --all, --before-offset and --before-time."),
        (["trim", "t", "--before-time", "soon"], "'soon' is not a time;"),
        (["offsets", "t:x"], "'t:x' names no partitions; write for example orders:0,3-5."),
        (["offsets", "t:3-1"], "'t:3-1' names impossible partitions."),
        (["offsets", ":1"], "':1' names no topic;"),
        (["create", "t", "-p", "0"], "0 is not in the range 1<=x<=2147483647"),
        (["create", "t", "-c", "x"], "'x' is not a setting; write key=value"),
    ],
)
def test_wrong_arguments_are_refused_with_the_valid_ones(node: NodeProcess, arguments: list[str], message: str) -> None:
    answer = run_command("topics", *arguments)
    assert (answer.code, answer.output) == (Exit.USAGE, "")
    assert message in answer.errors


def test_a_partition_that_does_not_exist_is_named(node: NodeProcess) -> None:
    succeed("topics", "create", "small", "-p", "2")
    answer = run_command("topics", "offsets", "small:0-2")
    assert answer == (Exit.NOT_FOUND, "", "kraft: Topic small has no partition 2; its partitions are 0 to 1\n")
