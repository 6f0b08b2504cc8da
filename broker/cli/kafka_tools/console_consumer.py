"""kafka-console-consumer: prints records as they come (ConsoleConsumer.java)."""

import sys
from collections.abc import Sequence
from math import inf
from typing import Final

import attrs
import trio

from broker.cli.kafka_tools.clients import client_configs, command_config, given_group_id, key_values
from broker.cli.kafka_tools.errors import exception_of
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
from broker.cli.kafka_tools.record_printer import (
    DEFAULT_FORMATTER,
    FORMATTER_PROPERTIES,
    RecordPrinter,
    make_record_formatter,
    print_end,
    until_interrupted,
)
from broker.cli.kafka_tools.topic_filters import compiled_pattern
from broker.cli.printing import print_error, print_text
from broker.client import ClientError, Consumer, KafkaError, TopicPartition
from broker.client.consumer.config import ConsumerConfig
from broker.client.environment import Environment

_GROUP_NUMBERS: Final = 100_000
_RECORDS_AT_ONCE: Final = 500

PARSER: Final = OptionParser(
    "This tool helps to read data from Kafka topics and outputs it to standard output.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    option("topic", "topic", "The topic."),
    option("include", "regex", "A regular expression of topics."),
    option("partition", "partition", "The partition, read from its end unless --offset is given.", integer),
    option("offset", "offset", "An offset, earliest or latest.", default="latest"),
    flag("from-beginning", "Begin with the first record where the group has no offset."),
    option("max-messages", "count", "How many records to read.", integer),
    option("timeout-ms", "ms", "How long to wait for the next record.", long),
    option("group", "group", "The consumer group."),
    option("isolation-level", "level", "read_committed or read_uncommitted.", default="read_uncommitted"),
    option("formatter", "class", "How records are printed.", default=DEFAULT_FORMATTER),
    FORMATTER_PROPERTIES,
    option("formatter-config", "file", "A file with properties of the formatter."),
    option("key-deserializer", "class", "How keys are read."),
    option("value-deserializer", "class", "How values are read."),
    flag("skip-message-on-error", "Go on after a record that cannot be printed."),
    flag("enable-systest-events", "Print what happens to the consumer, too."),
    option("command-property", "key=value", "A config of the consumer."),
    option("property", "key=value", "The old name of --formatter-property."),
    option("consumer-property", "key=value", "The old name of --command-property."),
    option("consumer.config", "file", "The old name of --command-config."),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    _check(options)
    configs = _configs(options)
    on_error = "skipping" if "skip-message-on-error" in options else None
    printer = RecordPrinter(make_record_formatter(options), on_error=on_error)
    has_partition = "partition" in options
    start = _start(options)
    if not has_partition and configs["group.protocol"] == "classic":
        print_error("This consumer is a member of a classic group; group.protocol=consumer is KIP-848's.")
    consumer = Consumer(options.value("bootstrap-server"), config=client_configs(ConsumerConfig, configs))
    reading = _Reading(options.value("max-messages"), options.value("timeout-ms"))
    try:
        async with consumer:
            if has_partition:
                _assign(consumer, TopicPartition(options.value("topic"), options.value("partition")), start)
            elif "topic" in options:
                consumer.subscribe([options.value("topic")])
            else:
                consumer.subscribe(pattern=compiled_pattern(options.value("include")))
            signal = await until_interrupted(lambda: reading.run(consumer, printer))
    except (KafkaError, ClientError) as error:
        print_end(exception_of(error))
        signal = None
    finally:
        print_text(f"Processed a total of {printer.count} messages", file=sys.stderr)
    if "enable-systest-events" in options:
        print_text("shutdown_complete")
    return 0 if signal is None else 128 + signal


def _check(options: Options) -> None:
    """Checks that the options go together. Raises UsageFailure."""
    options.require_one_of("topic", "include")
    if "partition" in options:
        if "topic" not in options:
            raise options.failure("The topic is required when partition is specified.")
        if "from-beginning" in options and "offset" in options:
            raise options.failure("Options from-beginning and offset cannot be specified together.")
    elif "offset" in options:
        raise options.failure("The partition is required when offset is specified.")
    options.require("bootstrap-server")


def _configs(options: Options) -> dict[str, str]:
    """The consumer's configs. Raises UsageFailure, ToolExit."""
    property_name = options.renamed("consumer-property", "command-property")
    file_name = options.renamed("consumer.config", "command-config")
    of_file = command_config(options, file_name)
    of_properties = key_values(options.values(property_name))
    group = given_group_id(options, "consumer.config", of_file, of_properties)
    if group is not None and "partition" in options:
        raise options.failure("Options group and partition cannot be specified together.")
    configs = of_file | of_properties
    configs.pop("bootstrap.servers", None)
    configs.setdefault("client.id", "console-consumer")
    configs.setdefault("group.protocol", "classic")
    if "isolation-level" in options or "isolation.level" not in configs:
        configs["isolation.level"] = options.value("isolation-level")
    if "from-beginning" in options and configs.get("auto.offset.reset", "earliest") != "earliest":
        raise ToolExit(
            1,
            "Can't simultaneously specify --from-beginning and "
            f"'auto.offset.reset={configs['auto.offset.reset']}', please remove one option",
        )
    configs.setdefault("auto.offset.reset", "earliest" if "from-beginning" in options else "latest")
    if group is not None:
        configs["group.id"] = group
    else:
        configs["group.id"] = f"console-consumer-{Environment().rng.randrange(_GROUP_NUMBERS)}"
        configs.setdefault("enable.auto.commit", "false")
    return configs


def _start(options: Options) -> int | str:
    """Returns the start of a single partition: an offset, "earliest" or "latest". Raises UsageFailure."""
    if "offset" not in options:
        return "earliest" if "from-beginning" in options else "latest"
    text: str = options.value("offset")
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    try:
        offset = long(text)
    except ValueError:
        offset = -1
    if offset < 0:
        raise options.failure(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long."
        )
    return offset


def _assign(consumer: Consumer, partition: TopicPartition, start: int | str) -> None:
    consumer.assign([partition])
    if start == "earliest":
        consumer.seek_to_beginning([partition])
    elif start == "latest":
        consumer.seek_to_end([partition])
    else:
        consumer.seek(partition, int(start))


@attrs.frozen
class _Reading:
    """Reads records until the tool has read enough."""

    count_max: int | None
    timeout_ms: int | None

    async def run(self, consumer: Consumer, printer: RecordPrinter) -> None:
        """Reads until `--max-messages` are printed, or no record arrives within `--timeout-ms`.

        Raises KafkaError, ClientError, ToolExit.
        """
        count_max = inf if self.count_max in (None, -1) else self.count_max
        timeout_s = None if self.timeout_ms is None or self.timeout_ms < 0 else self.timeout_ms / 1000
        assert count_max is not None, "a number or infinity"
        while printer.count < count_max:
            wanted = min(count_max - printer.count, _RECORDS_AT_ONCE)
            records = await consumer.fetch(int(wanted), timeout_s)
            if not records:
                print_end("org.apache.kafka.common.errors.TimeoutException")
                return
            printer.print(records)
            await trio.lowlevel.checkpoint()
