"""kafka-consumer-perf-test: how fast a consumer reads (ConsumerPerformance.java)."""

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

import trio

from broker.cli.kafka_tools.clients import client_configs, command_config, key_values
from broker.cli.kafka_tools.options import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    OptionParser,
    Options,
    ToolExit,
    flag,
    integer,
    long,
    option,
)
from broker.cli.kafka_tools.topic_filters import compiled_pattern
from broker.cli.printing import print_text
from broker.client import Consumer, TopicPartition
from broker.client.consumer.config import ConsumerConfig
from broker.client.consumer.group import RebalanceListener
from broker.client.environment import Environment
from broker.client.types import ConsumerRecord

_MIB: Final = 1024 * 1024
_POLL_S: Final = 0.1
_GROUP_NUMBERS: Final = 100_000
_COLUMNS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
# The supported letters of java.text.SimpleDateFormat.
_DATE_PARTS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_DATE_TOKEN: Final = re.compile(r"([a-zA-Z])\1*|[^a-zA-Z]+")

PARSER: Final = OptionParser(
    "This tool is used to verify the consumer performance.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    option("topic", "topic", "The topic."),
    option("include", "regex", "A regular expression of topics."),
    option("num-records", "count", "REQUIRED: how many records to read.", long),
    option("messages", "count", "The old name of --num-records.", long),
    option("group", "group", "The consumer group; a new one without it."),
    option("fetch-size", "bytes", "The most data of a partition that one request asks for.", integer, default=_MIB),
    option("command-property", "key=value", "A config of the consumer."),
    option("consumer.config", "file", "The old name of --command-config."),
    flag("from-latest", "Begin with the records that are written from now on."),
    option("socket-buffer-size", "bytes", "The size of the socket's receive buffer.", integer, default=2 * _MIB),
    option("timeout", "ms", "How long to wait for the next record.", long, default=10_000, is_argument_optional=True),
    option("reporting-interval", "ms", "The time between reports.", long, default=5_000),
    flag("show-detailed-stats", "Print a report in every interval."),
    option("date-format", "format", "How times are printed.", default="yyyy-MM-dd HH:mm:ss:SSS"),
    flag("hide-header", "Print no header."),
    flag("print-metrics", "Ignored: this consumer keeps no metrics."),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    _check(options)
    configs = _configs(options)
    format_time(options.value("date-format"), 0)
    if "hide-header" not in options:
        times = "time, threadId" if "show-detailed-stats" in options else "start.time, end.time"
        print_text(f"{times}, {_COLUMNS}")
    reading = _Reading(options, Environment())
    async with Consumer(options.value("bootstrap-server"), config=client_configs(ConsumerConfig, configs)) as consumer:
        if "topic" in options:
            consumer.subscribe([options.value("topic")], listener=reading)
        else:
            consumer.subscribe(pattern=compiled_pattern(options.value("include")), listener=reading)
        await reading.run(consumer)
    if "show-detailed-stats" not in options:
        print_text(reading.total_line())
    return 0


def _check(options: Options) -> None:
    """Checks the options. Raises UsageFailure, ToolExit."""
    options.require("bootstrap-server")
    options.require_one_of("topic", "include")
    options.require_one_of("messages", "num-records")
    options.exclude("consumer.config", "command-config")
    if "messages" in options:
        print_text("Warning: --messages is deprecated. Use --num-records instead.")
    if "consumer.config" in options:
        print_text("Warning: --consumer.config is deprecated. Use --command-config instead.")
    if options.value("reporting-interval") <= 0:
        raise ToolExit(1, "Reporting interval must be greater than 0.")


def _configs(options: Options) -> dict[str, str]:
    name = "consumer.config" if "consumer.config" in options else "command-config"
    configs = command_config(options, name) | key_values(options.values("command-property"))
    configs.pop("bootstrap.servers", None)
    configs.setdefault("client.id", "perf-consumer-client")
    configs.setdefault("group.protocol", "classic")
    group = options.value("group") or f"perf-consumer-{Environment().rng.randrange(_GROUP_NUMBERS)}"
    return configs | {
        "group.id": group,
        "receive.buffer.bytes": str(options.value("socket-buffer-size")),
        "max.partition.fetch.bytes": str(options.value("fetch-size")),
        "auto.offset.reset": "latest" if "from-latest" in options else "earliest",
        "check.crcs": "false",
    }


def format_time(pattern: str, time_ms: int) -> str:
    """A local time in a format of java.text.SimpleDateFormat. Raises ToolExit for letters that are not known here."""
    time = datetime.fromtimestamp(time_ms / 1000)
    parts = []
    for token in (found[0] for found in _DATE_TOKEN.finditer(pattern)):
        if token in _DATE_PARTS:
            parts.append(time.strftime(_DATE_PARTS[token]))
        elif token == "SSS":
            parts.append(f"{time_ms % 1000:03}")
        elif token[0].isalpha():
            raise ToolExit(1, f"--date-format {pattern}: {token} is none of {', '.join(_DATE_PARTS)}, SSS")
        else:
            parts.append(token)
    return "".join(parts)


class _Reading(RebalanceListener):
    """Reads records and counts them; as the group's listener, it measures how long rebalances take."""

    def __init__(self, options: Options, environment: Environment) -> None:
        self._options = options
        self._now_ms = environment.now_ms
        self._start_ms = self._end_ms = self._join_start_ms = self._now_ms()
        self._join_ms = self._join_ms_since_report = 0
        self._assigned: set[TopicPartition] = set()
        self._count = self._bytes = 0
        # Time, records and bytes at the last report.
        self._reported = (self._start_ms, 0, 0)

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        if not self._assigned:
            elapsed_ms = self._now_ms() - self._join_start_ms
            self._join_ms += elapsed_ms
            self._join_ms_since_report += elapsed_ms
        self._assigned.update(partitions)

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._assigned.difference_update(partitions)
        if not self._assigned:
            self._join_start_ms = self._now_ms()

    async def run(self, consumer: Consumer) -> None:
        """Reads until enough records were read, or none comes in time. Raises KafkaError, ClientError."""
        options = self._options
        wanted = options.value("messages" if "messages" in options else "num-records")
        timeout_ms = options.value("timeout")
        consumed_ms = now_ms = self._now_ms()
        while self._count < wanted and now_ms - consumed_ms <= timeout_ms:
            records = await consumer.fetch(timeout_s=_POLL_S)
            now_ms = self._now_ms()
            if records:
                consumed_ms = now_ms
                self._take(records, now_ms)
            await trio.lowlevel.checkpoint()
        self._end_ms = self._now_ms()
        if self._count < wanted:
            print_text(
                "WARNING: Exiting before consuming the expected number of records: timeout "
                f"({timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout."
            )

    def _take(self, records: Sequence[ConsumerRecord], now_ms: int) -> None:
        self._count += len(records)
        self._bytes += sum(len(record.key or b"") + len(record.value or b"") for record in records)
        reported_ms = self._reported[0]
        if now_ms - reported_ms >= self._options.value("reporting-interval"):
            if "show-detailed-stats" in self._options:
                print_text(self._report_line(now_ms), flush=True)
            self._join_ms_since_report = 0
            self._reported = (now_ms, self._count, self._bytes)

    def _report_line(self, now_ms: int) -> str:
        reported_ms, count, size = self._reported
        time = format_time(self._options.value("date-format"), now_ms)
        rates = _rates(self._count - count, self._bytes - size, now_ms - reported_ms, self._join_ms_since_report)
        return f"{time}, 0, {_line(self._count, self._bytes, rates)}"

    def total_line(self) -> str:
        pattern = self._options.value("date-format")
        rates = _rates(self._count, self._bytes, self._end_ms - self._start_ms, self._join_ms)
        times = f"{format_time(pattern, self._start_ms)}, {format_time(pattern, self._end_ms)}"
        return f"{times}, {_line(self._count, self._bytes, rates)}"


def _rates(count: int, size: int, elapsed_ms: int, join_ms: int) -> tuple[float, float, int, int, float, float]:
    """Returns MiB and records per second, the times of rebalances and of fetching, and the rates while fetching."""
    fetch_ms = elapsed_ms - join_ms
    seconds, fetch_s = max(elapsed_ms, 1) / 1000, max(fetch_ms, 1) / 1000
    return size / _MIB / seconds, count / seconds, join_ms, fetch_ms, size / _MIB / fetch_s, count / fetch_s


def _line(count: int, size: int, rates: tuple[float, float, int, int, float, float]) -> str:
    mib_per_s, per_s, join_ms, fetch_ms, fetch_mib_per_s, fetch_per_s = rates
    return (
        f"{size / _MIB:.4f}, {mib_per_s:.4f}, {count}, {per_s:.4f}, "
        f"{join_ms}, {fetch_ms}, {fetch_mib_per_s:.4f}, {fetch_per_s:.4f}"
    )
