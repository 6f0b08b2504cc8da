"""kafka-console-consumer against a running node."""

from pathlib import Path

import pytest

from broker.cli.kafka_tools.record_formats import FormatError, make_formatter
from broker.client import ConsumerRecord, Producer
from broker.wire.records import TimestampType
from tests.support.kafka_tools import Tools, tools_of_a_node

Capture = pytest.CaptureFixture[str]
CONSUMER = "kafka-console-consumer"
QUICK = {"offsets_topic_num_partitions": 1, "group_initial_rebalance_delay_ms": 0}


async def fill(tools: Tools) -> None:
    """Writes five records with keys into partition 0 of `orders`, and one into partition 1."""
    await tools.run("kafka-topics", "--create", "--topic", "orders", "--partitions", "2")
    async with Producer(tools.bootstrap) as producer:
        for number in range(5):
            key = None if number == 3 else b"k%d" % number
            await producer.send("orders", b"v%d" % number, key=key, partition=0, timestamp_ms=1000 + number)
        await producer.send("orders", b"other", partition=1, headers=[("a", b"1"), ("b", None)])


async def test_a_partition_is_read_from_an_offset(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys, **QUICK) as tools:
        await fill(tools)
        read = [CONSUMER, "--topic", "orders", "--partition", "0"]
        output, errors = await tools.run(*read, "--from-beginning", "--max-messages", "2")
        assert (output, errors) == ("v0\nv1\n", "Processed a total of 2 messages\n")
        assert await tools.lines(*read, "--offset", "3", "--max-messages", "1") == ["v3"]
        assert await tools.lines(*read, "--offset", "earliest", "--max-messages", "1") == ["v0"]
        output, errors = await tools.run(*read, "--timeout-ms", "100")
        assert output == ""
        assert errors == (
            "ERROR Error processing message, terminating consumer process: \n"
            "org.apache.kafka.common.errors.TimeoutException\nProcessed a total of 0 messages\n"
        )


async def test_properties_choose_the_printed_parts(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys, **QUICK) as tools:
        await fill(tools)
        read = [CONSUMER, "--topic", "orders", "--from-beginning", "--max-messages", "1", "--partition"]
        shown = [f"print.{part}=true" for part in ("timestamp", "partition", "offset", "delivery", "key", "headers")]
        properties = [word for name in shown for word in ("--formatter-property", name)]
        assert await tools.lines(*read, "0", *properties, "--formatter-property", "key.separator=|") == [
            "CreateTime:1000|Partition:0|Offset:0|Delivery:NOT_PRESENT|NO_HEADERS|k0|v0"
        ]
        headers = ["--property", "print.headers=true", "--property", "print.key=true", "--property", "null.literal=-"]
        assert await tools.lines(*read, "1", *headers) == [
            "Option --property is deprecated and will be removed in a future version. "
            "Use --formatter-property instead.",
            "a:1,b:-\t-\tother",
        ]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_goes_on_where_it_has_ended(tmp_path: Path, capsys: Capture, protocol: str) -> None:
    async with tools_of_a_node(tmp_path, capsys, **QUICK) as tools:
        await fill(tools)
        group = ["--group", "tour", "--from-beginning", "--command-property", f"group.protocol={protocol}"]
        first = await tools.lines(CONSUMER, "--topic", "orders", *group, "--max-messages", "4")
        rest = await tools.lines(CONSUMER, "--include", "ord.*", *group, "--max-messages", "2", "--timeout-ms", "20000")
        assert sorted(first + rest) == ["other", "v0", "v1", "v2", "v3", "v4"]
        described = await tools.lines("kafka-consumer-groups", "--describe", "--group", "tour")
        assert [line.split()[2:6] for line in described[2:]] == [["0", "5", "5", "0"], ["1", "1", "1", "0"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Exactly one of the following arguments is required: [topic], [include]"),
        (["--topic", "t", "--offset", "3"], "The partition is required when offset is specified."),
        (["--topic", "t", "--partition", "0", "--offset", "soon"], "The provided offset value 'soon' is incorrect."),
        (["--topic", "t", "--partition", "0", "--group", "g"], "Options group and partition cannot be specified"),
        (
            ["--topic", "t", "--group", "g", "--command-property", "group.id=h"],
            "The group ids provided in different places",
        ),
        (
            ["--topic", "t", "--from-beginning", "--command-property", "auto.offset.reset=latest"],
            "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest', please remove one option",
        ),
        (["--topic", "t", "--formatter", "my.Formatter"], "--formatter my.Formatter is a Java class"),
    ],
)
async def test_wrong_options_are_refused(tmp_path: Path, capsys: Capture, arguments: list[str], message: str) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        _, errors = await tools.run(CONSUMER, *arguments, expected=1)
        assert errors.startswith(message)


def test_deserializers_read_numbers_and_uuids() -> None:
    def shown(deserializer: str, value: bytes) -> bytes:
        name = f"org.apache.kafka.common.serialization.{deserializer}Deserializer"
        formatter = make_formatter("x.DefaultMessageFormatter", {"value.deserializer": name})
        record = ConsumerRecord("t", 0, 0, 0, TimestampType.CREATE_TIME, None, value, [], None)
        return formatter(record)

    assert shown("Long", (-7).to_bytes(8, "big", signed=True)) == b"-7\n"
    assert shown("Integer", bytes(4)) == b"0\n"
    assert shown("String", b"text") == b"text\n"
    with pytest.raises(FormatError, match=r"Size of data received by LongDeserializer is not 8"):
        shown("Long", b"1")
    with pytest.raises(FormatError, match="Error parsing data into UUID"):
        shown("UUID", b"\xff")
    with pytest.raises(FormatError, match="is a Java class"):
        shown("Avro", b"")
