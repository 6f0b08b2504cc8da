"""kafka-console-producer against a running node."""

import io
from pathlib import Path

import pytest

from broker.client import Consumer, TopicPartition
from broker.client.types import ConsumerRecord
from tests.support.kafka_tools import Tools, tools_of_a_node

Capture = pytest.CaptureFixture[str]


async def produce(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, lines: bytes, *arguments: str, expected: int = 0
) -> tuple[str, str]:
    """Runs the tool with these lines as its standard input."""
    reader = io.BufferedReader(io.BytesIO(lines))  # type: ignore[arg-type]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(reader))
    return await tools.run("kafka-console-producer", "--timeout", "0", *arguments, expected=expected)


async def records_of(tools: Tools, topic: str) -> list[ConsumerRecord]:
    async with Consumer(tools.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return await consumer.fetch(timeout_s=10)


async def test_lines_are_written_as_values(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        output, errors = await produce(tools, monkeypatch, b"a\nb\r\n\nlast", "--topic", "orders")
        assert (output, errors) == ("", "")
        records = await records_of(tools, "orders")
        assert [(record.key, record.value) for record in records] == [
            (None, b"a"),
            (None, b"b"),
            (None, b""),
            (None, b"last"),
        ]


async def test_keys_and_headers_are_parsed_and_old_options_are_warned_of(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        options = ["--property", "parse.key=true", "--property", "key.separator=:", "--producer-property", "acks=1"]
        codec = ["--compression-codec", "--sync"]
        output, errors = await produce(tools, monkeypatch, b"k:v\n", "--topic", "orders", *options, *codec)
        deprecated = "is deprecated and will be removed in a future version. Use"
        assert sorted(output.splitlines()) == [
            f"Warning: --producer-property {deprecated} --command-property instead.",
            f"Warning: --property {deprecated} --reader-property instead.",
        ]
        assert errors == ""
        (record,) = await records_of(tools, "orders")
        assert (record.key, record.value) == (b"k", b"v")


async def test_a_line_without_its_key_ends_the_tool_after_the_lines_before_it(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        options = ["--topic", "orders", "--reader-property", "parse.key=true"]
        _, errors = await produce(tools, monkeypatch, b"k\tv\nnone\n", *options, expected=1)
        assert errors == "org.apache.kafka.common.KafkaException: No key separator found on line number 2: 'none'\n"
        assert len(await records_of(tools, "orders")) == 1


async def test_records_that_are_refused_are_reported(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        create = ["--create", "--topic", "small", "--config", "max.message.bytes=100"]
        await tools.run("kafka-topics", *create)
        _, errors = await produce(tools, monkeypatch, b"x" * 200 + b"\n", "--topic", "small", expected=1)
        assert errors.splitlines()[0] == (
            "ERROR Error when sending message to topic small with key: null, value: 200 bytes with error:"
        )
        assert errors.splitlines()[1].startswith("org.apache.kafka.common.errors.RecordTooLargeException: ")
