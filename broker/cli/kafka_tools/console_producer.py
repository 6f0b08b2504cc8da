"""kafka-console-producer: each line of standard input is a record (ConsoleProducer.java).

It ends with exit code 1 if records were refused, where Kafka's tool only logs them.
"""

import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Final

import trio

from broker.cli.kafka_tools.clients import client_configs, command_config, key_values
from broker.cli.kafka_tools.errors import exception_of
from broker.cli.kafka_tools.line_reader import LineError, LineReader, LineRecord, LineSplitter
from broker.cli.kafka_tools.options import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Option,
    OptionParser,
    Options,
    ToolExit,
    flag,
    integer,
    long,
    option,
)
from broker.cli.printing import print_text
from broker.client import BufferFull, ClientError, KafkaError, Producer
from broker.client.producer.config import ProducerConfig
from broker.client.types import RecordMetadata

_CHUNK_BYTES: Final = 1 << 16
_LINE_READER: Final = "org.apache.kafka.tools.LineMessageReader"
# Options that stand for a config, which wins over the default here but not over the option.
_CONFIG_OF: Final = {
    "timeout": "linger.ms",
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "message-send-max-retries": "retries",
    "retry-backoff-ms": "retry.backoff.ms",
    "socket-buffer-size": "send.buffer.bytes",
    "max-memory-bytes": "buffer.memory",
    "batch-size": "batch.size",
    "max-partition-memory-bytes": "batch.size",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "max-block-ms": "max.block.ms",
}


def _producer_options() -> Iterable[Option]:
    yield option(
        "compression-codec",
        "codec",
        "none, gzip, snappy, lz4 or zstd; gzip without a value.",
        is_argument_optional=True,
    )
    yield option("batch-size", "bytes", "The size of a batch.", integer, default=16_384)
    yield option("max-partition-memory-bytes", "bytes", "The old name of --batch-size.", integer, default=16_384)
    yield option("message-send-max-retries", "count", "How often a record is sent again.", integer, default=3)
    yield option("retry-backoff-ms", "ms", "The pause before a record is sent again.", long, default=100)
    yield option("timeout", "ms", "How long a batch waits for more records.", long, default=1_000)
    yield option("request-required-acks", "acks", "The acks of the requests.", default="-1")
    yield option("request-timeout-ms", "ms", "How long a request may take.", integer, default=1_500)
    yield option("metadata-expiry-ms", "ms", "The age at which metadata is refreshed.", long, default=300_000)
    yield option("max-block-ms", "ms", "How long a record may wait for room in the buffer.", long, default=60_000)
    yield option("max-memory-bytes", "bytes", "The size of the buffer.", long, default=33_554_432)
    yield option("socket-buffer-size", "bytes", "The size of the socket's send buffer.", integer, default=102_400)


PARSER: Final = OptionParser(
    "This tool helps to read data from standard input and publish it to Kafka.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    option("topic", "topic", "REQUIRED: the topic."),
    flag("sync", "Wait for each record before the next one is read."),
    option("line-reader", "class", "How lines are read; there is one way.", default=_LINE_READER),
    option(
        "reader-property",
        "key=value",
        "A property of the line reader: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
        "headers.key.separator, ignore.error, null.marker.",
    ),
    option("reader-config", "file", "A file with properties of the line reader."),
    option("command-property", "key=value", "A config of the producer."),
    option("property", "key=value", "The old name of --reader-property."),
    option("producer-property", "key=value", "The old name of --command-property."),
    option("producer.config", "file", "The old name of --command-config."),
    *_producer_options(),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    options.require("topic", "bootstrap-server")
    configs = _configs(options)
    reader = _reader(options)
    async with Producer(options.value("bootstrap-server"), config=client_configs(ProducerConfig, configs)) as producer:
        sending = _Sending(producer, options.value("topic"), is_sync="sync" in options)
        await _send_lines(sending, reader)
    return 1 if sending.refused else 0


def _reader(options: Options) -> LineReader:
    """Returns the line reader that the options choose. Raises UsageFailure, ToolExit."""
    if not options.value("line-reader").endswith("LineMessageReader"):
        raise ToolExit(
            1, f"--line-reader {options.value('line-reader')} is a Java class; only {_LINE_READER} is supported"
        )
    properties = command_config(options, "reader-config")
    name = options.renamed("property", "reader-property", "Warning:", names_new_first=True)
    properties |= key_values(options.values(name))
    try:
        return LineReader(properties)
    except LineError as error:
        raise ToolExit(1, str(error)) from error


def _configs(options: Options) -> dict[str, str]:
    """The configs of the options, else of --command-property, else of --command-config, else the options' defaults."""
    property_name = options.renamed("producer-property", "command-property", "Warning:", names_new_first=True)
    file_name = options.renamed("producer.config", "command-config", "Warning:", names_new_first=True)
    configs = command_config(options, file_name) | key_values(options.values(property_name))
    configs.pop("bootstrap.servers", None)
    configs.setdefault("client.id", "console-producer")
    configs["compression.type"] = (
        options.value("compression-codec") or "gzip" if "compression-codec" in options else "none"
    )
    if "max-partition-memory-bytes" in options:
        print_text(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. "
            "Use --batch-size instead."
        )
    for name, key in _CONFIG_OF.items():
        if name in options or key not in configs:
            configs[key] = str(options.value(name))
    return configs


class _Sending:
    """Sends records to one topic, and reports those that are refused."""

    def __init__(self, producer: Producer, topic: str, *, is_sync: bool) -> None:
        self.refused = 0
        self._producer = producer
        self._topic = topic
        self._is_sync = is_sync

    async def send(self, record: LineRecord) -> None:
        """Sends a record. With --sync, waits for its outcome and raises KafkaError, ClientError."""
        key, value, headers = record
        if self._is_sync:
            await self._producer.send(self._topic, value, key=key, headers=headers)
            return

        def report(metadata: RecordMetadata | None, error: Exception | None) -> None:
            if error is not None:
                self._report(record, error)

        try:
            while True:
                try:
                    self._producer.send_soon(self._topic, value, key=key, headers=headers, on_delivery=report)
                    return
                except BufferFull:
                    await self._producer.wait_for_room()
        except (KafkaError, ClientError) as error:
            self._report(record, error)

    def _report(self, record: LineRecord, error: Exception) -> None:
        self.refused += 1
        sizes = ["null" if part is None else f"{len(part)} bytes" for part in (record.key, record.value)]
        print_text(
            f"ERROR Error when sending message to topic {self._topic} with key: {sizes[0]}, value: {sizes[1]} "
            f"with error:\n{exception_of(error)}",
            file=sys.stderr,
        )


async def _send_lines(sending: _Sending, reader: LineReader) -> None:
    """Sends the lines as records. Raises ToolExit at an unreadable line, after the lines before it were sent."""
    has_prompt = sys.stdin.isatty() and sys.stdout.isatty()
    splitter = LineSplitter()
    try:
        if has_prompt:
            _prompt()
        async with aclosing(_standard_input()) as incoming:
            async for chunk in incoming:
                for line in splitter.feed(chunk):
                    await sending.send(reader.read(line))
                    if has_prompt:
                        _prompt()
        for line in splitter.finish():
            await sending.send(reader.read(line))
    except LineError as error:
        raise ToolExit(1, f"org.apache.kafka.common.KafkaException: {error}") from error


def _prompt() -> None:
    print_text(">", end="", flush=True)


async def _standard_input() -> AsyncGenerator[bytes, None]:
    """Yields the bytes of standard input as they arrive.

    A thread reads them, since standard input may be a file, which Trio cannot wait for. A thread that outlives a
    cancelled read holds no lock.
    """
    stream = sys.stdin.buffer.raw  # type: ignore[union-attr]
    while chunk := await trio.to_thread.run_sync(stream.read, _CHUNK_BYTES, abandon_on_cancel=True):
        yield chunk
