"""kafka-console-share-consumer: prints records as a member of a share group, and acknowledges them
(ConsoleShareConsumer.java, KIP-932).
"""

import sys
from collections.abc import Sequence
from math import inf
from typing import Any, Final

import attrs
import trio

from broker.cli.kafka_tools.clients import client_configs, command_config, given_group_id, key_values
from broker.cli.kafka_tools.errors import exception_of
from broker.cli.kafka_tools.options import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    OptionParser,
    Options,
    flag,
    integer,
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
from broker.cli.printing import print_text
from broker.client import AcknowledgeType, ClientError, KafkaError, ShareConsumer
from broker.client.share_consumer.config import ShareConsumerConfig

_NAME: Final = "console-share-consumer"

PARSER: Final = OptionParser(
    "This tool helps to read data from Kafka topics using share groups and outputs it to standard output.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    option("topic", "topic", "REQUIRED: the topic."),
    option("group", "group", "The share group."),
    option("max-messages", "count", "How many records to read.", integer),
    option("timeout-ms", "ms", "How long to wait for the next record.", integer),
    flag("reject", "Reject the records instead of accepting them."),
    flag("release", "Release the records, so that they are delivered again."),
    flag("reject-message-on-error", "Reject a record that cannot be printed, and go on."),
    option("formatter", "class", "How records are printed.", default=DEFAULT_FORMATTER),
    FORMATTER_PROPERTIES,
    option("formatter-config", "file", "A file with properties of the formatter."),
    option("key-deserializer", "class", "How keys are read."),
    option("value-deserializer", "class", "How values are read."),
    flag("enable-systest-events", "Print what happens to the consumer, too."),
    option("command-property", "key=value", "A config of the consumer."),
    option("property", "key=value", "The old name of --formatter-property."),
    option("consumer-property", "key=value", "The old name of --command-property."),
    option("consumer-config", "file", "The old name of --command-config."),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    _check(options)
    configs = client_configs(ShareConsumerConfig, _configs(options))
    on_error = "rejecting" if "reject-message-on-error" in options else None
    printer = RecordPrinter(make_record_formatter(options), on_error=on_error)
    reading = _Reading(options.value("max-messages"), options.value("timeout-ms"), _outcome(options))
    consumer: ShareConsumer[Any, Any] = ShareConsumer(
        options.value("bootstrap-server"), topics=[options.value("topic")], config=configs
    )
    signal = None
    try:
        async with consumer:
            signal = await until_interrupted(lambda: reading.run(consumer, printer))
    except (KafkaError, ClientError) as error:
        print_end(exception_of(error))
    finally:
        print_text(f"Processed a total of {printer.count} messages", file=sys.stderr)
    if "enable-systest-events" in options:
        print_text("shutdown_complete")
    return 0 if signal is None else 128 + signal


def _check(options: Options) -> None:
    """Checks that the options go together. Raises UsageFailure."""
    if "topic" not in options:
        raise options.failure("--topic is a required argument")
    if "reject" in options and "release" in options:
        raise options.failure("At most one of --reject and --release may be specified.")
    options.require("bootstrap-server")


def _outcome(options: Options) -> AcknowledgeType:
    if "reject" in options:
        return AcknowledgeType.REJECT
    return AcknowledgeType.RELEASE if "release" in options else AcknowledgeType.ACCEPT


def _configs(options: Options) -> dict[str, str]:
    """The consumer's configs. Raises UsageFailure, ToolExit."""
    property_name = options.renamed("consumer-property", "command-property")
    of_file = command_config(options, options.renamed("consumer-config", "command-config"))
    of_properties = key_values(options.values(property_name))
    group = given_group_id(options, "consumer-config", of_properties, of_file)
    configs = of_file | of_properties
    configs.pop("bootstrap.servers", None)
    configs.setdefault("client.id", _NAME)
    configs["group.id"] = _NAME if group is None else group
    configs["share.acknowledgement.mode"] = "explicit"
    return configs


@attrs.frozen
class _Reading:
    """Reads records until the tool has read enough. Each record that is printed is acknowledged as `outcome`."""

    count_max: int | None
    timeout_ms: int | None
    outcome: AcknowledgeType

    async def run(self, consumer: ShareConsumer[Any, Any], printer: RecordPrinter) -> None:
        """Reads until `--max-messages` are printed, or no record arrives within `--timeout-ms`.

        Records beyond these, and those that were not printed because the output is gone, are released at the end.

        Raises KafkaError, ClientError, ToolExit.
        """
        count_max = inf if self.count_max is None or self.count_max < 0 else self.count_max
        timeout_s = None if self.timeout_ms is None or self.timeout_ms < 0 else self.timeout_ms / 1000
        while printer.count < count_max:
            records = await consumer.fetch(timeout_s)
            if not records:
                print_end("org.apache.kafka.common.errors.TimeoutException")
                return
            wanted = records[: int(min(count_max - printer.count, len(records)))]
            for record in wanted:
                is_printed = printer.print([record])
                consumer.acknowledge(record, self.outcome if is_printed else AcknowledgeType.REJECT)
            await trio.lowlevel.checkpoint()
