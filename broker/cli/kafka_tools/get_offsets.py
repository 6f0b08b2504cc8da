"""kafka-get-offsets: the offsets of partitions at an end or at a time (GetOffsetShell.java)."""

import re
import sys
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from broker.cli.kafka_tools.clients import open_admin
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
from broker.cli.kafka_tools.topic_filters import topic_pattern
from broker.cli.printing import print_text
from broker.client.admin import Admin, OffsetSpec
from broker.client.types import TopicPartition

_SPECS: Final = {spec.name.lower().replace("_", "-"): spec for spec in OffsetSpec}
_TIMES: Final = " / ".join(f"{int(spec)} or {name}" for name, spec in _SPECS.items())
_RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_PARTITION_MAX: Final = 2**31 - 1

_Filter: TypeAlias = Callable[[TopicPartition], bool]

PARSER: Final = OptionParser(
    "An interactive shell for getting topic-partition offsets.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    option(
        "topic-partitions",
        "topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3",
        "Partitions: regular expressions of topics, each with a partition or a range whose end is left out.",
    ),
    option("topic", "topic", "The topic, a regular expression; all without it."),
    option("partitions", "0,1,...", "The partitions; all without it."),
    option(
        "time",
        "ms|latest|earliest|...",
        f"A time in milliseconds since 1970, or {_TIMES}.",
        default="latest",
    ),
    flag("exclude-internal-topics", "Leave out internal topics."),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    options.require("bootstrap-server")
    if "topic-partitions" in options and ("topic" in options or "partitions" in options):
        raise _failure("--topic-partitions cannot be used with --topic or --partitions")
    spec = _spec(options.value("time"))
    accepts = _filter(options)
    async with open_admin(options) as admin:
        partitions = await _partitions(admin, options, accepts)
        if not partitions:
            raise _failure("Could not match any topic-partitions with the specified filters")
        found = await admin.list_offsets(dict.fromkeys(partitions, spec))
    for each, error in found.failed.items():
        name = f"{each.topic}-{each.partition}"
        print_text(
            f"Skip getting offsets for topic-partition {name} due to error: {exception_of(error)}", file=sys.stderr
        )
    offsets = found.succeeded
    for each in sorted(offsets, key=lambda each: f"{each.topic}-{each.partition}"):
        if (at := offsets[each]) is not None:
            print_text(f"{each.topic}:{each.partition}:{at.offset}")
    return 0


async def _partitions(admin: Admin, options: Options, accepts: _Filter) -> list[TopicPartition]:
    listed = await admin.list_topics(include_internal="exclude-internal-topics" not in options)
    described = (await admin.describe_topics([topic.name for topic in listed])).raise_first()
    partitions = [
        TopicPartition(topic.name, each.partition) for topic in described.values() for each in topic.partitions
    ]
    return [each for each in partitions if accepts(each)]


def _spec(text: str) -> OffsetSpec | int:
    if text in _SPECS:
        return _SPECS[text]
    try:
        timestamp = long(text)
    except ValueError:
        raise _failure(
            f"Malformed time argument {text}. Please use {_TIMES}, or a specified long format timestamp"
        ) from None
    if timestamp < min(OffsetSpec):
        raise _failure(f"Malformed time argument {text}. A time is a number of milliseconds since 1970.")
    return timestamp


def _filter(options: Options) -> _Filter:
    if "topic-partitions" in options:
        rules = [_rule(text) for text in options.value("topic-partitions").split(",")]
        return lambda each: any(rule(each) for rule in rules)
    pattern = topic_pattern(options.value("topic") or ".*")
    text = options.value("partitions")
    try:
        numbers = {integer(part) for part in text.split(",")} if text else None
    except ValueError:
        raise _failure(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        ) from None
    return lambda each: bool(pattern.fullmatch(each.topic)) and (numbers is None or each.partition in numbers)


def _rule(text: str) -> _Filter:
    """Parses `topic`, `topic:3`, `topic:0-3` (without 3), `topic:5-` or `topic:-3`. An empty topic matches all."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise _failure(f"Invalid rule specification: {text}")
    topic, number, first, end = found.groups()
    pattern = topic_pattern(topic or ".*")
    if number:
        chosen = range(int(number), int(number) + 1)
    else:
        chosen = range(int(first or 0), int(end or _PARTITION_MAX))
    return lambda each: bool(pattern.fullmatch(each.topic)) and each.partition in chosen


def _failure(message: str) -> ToolExit:
    return ToolExit(1, f"Error occurred: {message}")
