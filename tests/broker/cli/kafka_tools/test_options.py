"""Options of Kafka's tools."""

import pytest

from broker.cli.kafka_tools.java_order import described_topics_order, hash_map_order, partition_order
from broker.cli.kafka_tools.options import OptionParser, Options, ToolExit, UsageFailure, flag, integer, option
from broker.client import TopicPartition

PARSER = OptionParser(
    "A tool.",
    option("topic", "topic", "A topic."),
    option("config|c", "file", "A file."),
    option("partitions", "count", "A count.", integer, default=1),
    option("state", "state", "States.", is_argument_optional=True),
    option("delete", "key,...", "Keys.", separator=","),
    option("old", "value", "The old name of --new."),
    option("new", "value", "A value."),
    flag("list", "List."),
)


def parsed(*arguments: str) -> Options:
    return PARSER.parse(arguments)


def test_arguments_follow_or_are_joined_by_an_equals_sign_and_one_dash_is_enough() -> None:
    for arguments in (["--topic", "orders"], ["--topic=orders"], ["-topic", "orders"], ["word", "--topic", "orders"]):
        assert parsed(*arguments).value("topic") == "orders"
    assert parsed("-c", "a").value("config") == "a"
    assert parsed("--topic", "--list").value("topic") == "--list"
    assert "list" not in parsed("--topic", "--list")
    assert "list" not in parsed("--topic", "t", "--", "--list")


def test_an_optional_argument_is_not_taken_from_an_option() -> None:
    assert parsed("--state", "--list").value("state") is None
    assert "list" in parsed("--state", "--list")
    assert parsed("--state", "empty").value("state") == "empty"


def test_values_are_converted_split_repeated_and_have_defaults() -> None:
    assert parsed("--partitions", "-3").value("partitions") == -3
    assert parsed("--list").value("partitions") == 1
    assert parsed("--delete", "a,b", "--delete", "c").values("delete") == ["a", "b", "c"]
    assert parsed("--topic", "t", "--list", "--old", "x").in_order("old", "topic", "list") == [
        ("topic", "t"),
        ("list", None),
        ("old", "x"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top", "t"], "top is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
        (["--list=yes"], "Option list does not allow an argument"),
        (["--partitions", "9999999999"], "Cannot parse argument '9999999999' of option partitions"),
        ([], "A tool."),
        (["--list", "--help"], "A tool."),
    ],
)
def test_wrong_command_lines_are_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageFailure) as failure:
        parsed(*arguments)
    assert str(failure.value) == message
    assert "--partitions <count>" in failure.value.help_text


def test_an_option_with_one_value_is_not_repeated() -> None:
    with pytest.raises(UsageFailure, match="Found multiple arguments for option topic, but you asked for only one"):
        parsed("--topic", "a", "--topic", "b").value("topic")


def test_kip_1147_renamed_options_warn_and_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert parsed("--new", "x").renamed("old", "new") == "new"
    assert capsys.readouterr().out == ""
    assert parsed("--old", "x").renamed("old", "new") == "old"
    assert capsys.readouterr().out == (
        "Option --old is deprecated and will be removed in a future version. Use --new instead.\n"
    )
    both = parsed("--old", "x", "--new", "x")
    with pytest.raises(UsageFailure, match=r"Options --old and --new cannot be specified together."):
        both.renamed("old", "new")
    with pytest.raises(UsageFailure, match=r"Options --new and --old cannot be specified together."):
        both.renamed("old", "new", names_new_first=True)


def test_the_version_ends_the_tool(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ToolExit) as end:
        parsed("--version")
    assert end.value.exit_code == 0
    assert capsys.readouterr().out[:1].isdigit()


def test_names_and_partitions_come_in_the_order_of_javas_hash_maps() -> None:
    """The expected orders are what a JVM prints of a java.util.HashMap."""
    configs = [
        "retention.ms",
        "cleanup.policy",
        "min.insync.replicas",
        "segment.bytes",
        "a",
        "größe",
        "compression.type",
    ]
    assert hash_map_order(configs) == [
        "compression.type",
        "a",
        "cleanup.policy",
        "größe",
        "min.insync.replicas",
        "retention.ms",
        "segment.bytes",
    ]
    topics = ["__consumer_offsets", "my.topic_x", "orders"]
    assert described_topics_order(topics) == ["my.topic_x", "orders", "__consumer_offsets"]
    partitions = [*(TopicPartition("orders", number) for number in (3, 1, 0, 2, 14, 7)), TopicPartition("größe", 2)]
    assert [f"{each.topic}-{each.partition}" for each in partition_order(partitions)] == [
        "orders-7",
        "größe-2",
        "orders-14",
        "orders-0",
        "orders-1",
        "orders-2",
        "orders-3",
    ]
