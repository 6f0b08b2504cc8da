"""kafka-log-dirs: the log directories of brokers and the replicas in them, as JSON (LogDirsCommand.java)."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from broker.cli.kafka_tools.clients import open_admin
from broker.cli.kafka_tools.errors import exception_of
from broker.cli.kafka_tools.java_order import hash_map_order, partition_order
from broker.cli.kafka_tools.options import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    OptionParser,
    ToolExit,
    flag,
    integer,
    option,
)
from broker.cli.printing import print_line, print_text
from broker.client.admin import LogDir

PARSER: Final = OptionParser(
    "This tool helps to query log directory usage on the specified brokers.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    flag("describe", "REQUIRED: describe the log directories."),
    option("topic-list", "topic,...", "The topics; all without it.", default=""),
    option("broker-list", "id,...", "The brokers; all without it.", default=""),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    options.require("bootstrap-server", "describe")
    topics = _parts(options.value("topic-list"))
    try:
        wanted = list(map(integer, _parts(options.value("broker-list"))))
    except ValueError as error:
        raise ToolExit(1, f'For input string: "{error}"') from error
    async with open_admin(options) as admin:
        existing = sorted(node.id for node in (await admin.describe_cluster()).nodes)
        if missing := [broker for broker in wanted if broker not in existing]:
            raise ToolExit(
                1,
                f"ERROR: The given brokers do not exist from --broker-list: {_listed(missing)}. "
                f"Current existent brokers: {_listed(existing)}",
            )
        brokers = sorted(set(wanted)) or existing
        print_text("Querying brokers for log directories information")
        described = (await admin.describe_log_dirs(brokers)).raise_first()
    print_text(f"Received log directory information from brokers {_listed(brokers)}")
    document = {"version": 1, "brokers": [_broker(each, described[each], topics) for each in brokers]}
    print_line(json.dumps(_ordered(document), separators=(",", ":")))
    return 0


def _parts(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _listed(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _broker(broker: int, directories: Mapping[str, LogDir], topics: Collection[str]) -> dict[str, Any]:
    found = [_directory(path, directories[path], topics) for path in hash_map_order(directories)]
    return {"broker": broker, "logDirs": found}


def _directory(path: str, directory: LogDir, topics: Collection[str]) -> dict[str, Any]:
    replicas = [
        {
            "partition": f"{each.topic}-{each.partition}",
            "size": directory.replicas[each].size_bytes,
            "offsetLag": directory.replicas[each].offset_lag,
            "isFuture": directory.replicas[each].is_future,
        }
        for each in partition_order(each for each in directory.replicas if not topics or each.topic in topics)
    ]
    error = None if directory.error is None else exception_of(directory.error).partition(":")[0]
    return {"logDir": path, "error": error, "partitions": replicas}


def _ordered(value: Any) -> Any:
    """The keys of objects in the order in which Kafka's tool prints them."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in hash_map_order(value)}
    return [_ordered(each) for each in value] if isinstance(value, list) else value
