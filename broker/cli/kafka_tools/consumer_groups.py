"""kafka-consumer-groups: list, describe and delete groups, and change their offsets (ConsumerGroupCommand.java).

It ends with exit code 0 where the cluster refuses, as Kafka's tool does; a line that begins with "Error" says so.
"""

import re
import sys
from collections.abc import Sequence
from typing import Final

from broker.cli.kafka_tools.clients import open_admin
from broker.cli.kafka_tools.columns import row, width_of
from broker.cli.kafka_tools.errors import exception_of, message_of
from broker.cli.kafka_tools.group_descriptions import describe_groups
from broker.cli.kafka_tools.java_order import hash_map_order
from broker.cli.kafka_tools.offset_resets import (
    SCENARIOS,
    export_lines,
    offsets_to_reset,
    parse_partitions,
    reset_lines,
)
from broker.cli.kafka_tools.options import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    OptionParser,
    Options,
    flag,
    long,
    option,
)
from broker.cli.printing import print_line, print_text
from broker.client.admin import Admin, GroupListing
from broker.client.errors import ClientError
from broker.client.types import TopicPartition
from broker.printable import printable
from broker.wire.errors import KafkaError

ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
_CONSUMER_STATES: Final = {
    state.lower(): state
    for state in ("Assigning", "CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Reconciling", "Stable")
}
_TYPES: Final = {"classic": "Classic", "consumer": "Consumer"}
_GROUP_OR_ALL: Final = "[group], [all-groups]"

PARSER: Final = OptionParser(
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, "
    "or reset consumer group offsets.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    option("group", "group", "The group; may be repeated."),
    flag("all-groups", "All groups."),
    option("topic", "topic[:0,1,...]", "A topic, or partitions of it; may be repeated."),
    flag("all-topics", "All topics for which the group has offsets."),
    flag("list", "List the groups."),
    flag("describe", "Describe groups: their offsets and lag, or what --members and --state ask for."),
    flag("delete", "Delete groups that have no members, with their offsets."),
    flag("delete-offsets", "Delete a group's offsets of topics."),
    flag("reset-offsets", "Set a group's offsets: plan it with --dry-run, do it with --execute."),
    option("timeout", "ms", "How long the cluster may take.", long, default=30_000),
    flag("dry-run", "Show the offsets that --execute would set."),
    flag("execute", "Set the offsets."),
    flag("export", "Print the offsets as CSV."),
    option("to-offset", "offset", "Reset to this offset.", long),
    option("from-file", "file", "Reset to the offsets in a CSV file, as --export prints it."),
    option("to-datetime", "YYYY-MM-DDThh:mm:ss.sss", "Reset to the first record at or after this time."),
    option("by-duration", "PnDTnHnMnS", "Reset to the first record that is at most this old."),
    flag("to-earliest", "Reset to the first record."),
    flag("to-latest", "Reset to the end."),
    flag("to-current", "Reset to the committed offset, where there is none to the end."),
    option("shift-by", "count", "Move the offset forward, or back where the count is negative.", long),
    flag("members", "With --describe: show the members."),
    flag("offsets", "With --describe: show the offsets, as by default."),
    option("state", "state,...", "With --describe and --list: show the state.", is_argument_optional=True),
    option("type", "type,...", "With --list: show the types.", is_argument_optional=True),
    flag("verbose", "With --describe: show more."),
    option("validate-regex", "regex", "Check a regular expression."),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    _check(options)
    if "validate-regex" in options:
        _validate(options.value("validate-regex"))
        return 0
    try:
        async with open_admin(options) as admin:
            await _run(admin, options)
    except (KafkaError, ClientError) as error:
        _print_error(f"Executing consumer group command failed due to {exception_of(error)}")
    except ValueError as error:
        raise options.failure(str(error)) from error
    return 0


async def _run(admin: Admin, options: Options) -> None:
    if "list" in options:
        await _list(admin, options)
    elif "describe" in options:
        await describe_groups(admin, options, await _groups(admin, options))
    elif "delete" in options:
        await _delete(admin, options, await _groups(admin, options))
    elif "delete-offsets" in options:
        await _delete_offsets(admin, options)
    else:
        offsets = await offsets_to_reset(admin, options, await _groups(admin, options))
        for line in (export_lines if "export" in options else reset_lines)(options, offsets):
            print_text(line)


def _check(options: Options) -> None:
    """Checks that the options go together. Raises UsageFailure."""
    if "validate-regex" not in options:
        options.require("bootstrap-server")
    has_groups = "group" in options or "all-groups" in options
    for action in ("describe", "delete", "reset-offsets"):
        if action in options and not has_groups:
            raise options.failure(f"Option [{action}] takes one of these options: {_GROUP_OR_ALL}")
    if sum(part in options for part in ("members", "offsets", "state")) > 1 and "describe" in options:
        raise options.failure("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if "describe" in options and "state" in options and options.value("state") is not None:
        raise options.failure("Option [describe] does not take a value for [state]")
    if "delete" in options and "topic" in options:
        raise options.failure("The consumer does not support topic-specific offset deletion from a consumer group.")
    if "delete-offsets" in options and not ("group" in options and "topic" in options):
        raise options.failure("Option [delete-offsets] takes the following options: [group], [topic]")
    if "reset-offsets" in options:
        _check_reset(options)
    options.exclude("group", "all-groups", "list")
    options.exclude("topic", "list", "describe")
    if sum(action in options for action in ACTIONS) != 1:
        named = ", ".join(f"--{action}" for action in ACTIONS)
        raise options.failure(f"Command must include exactly one action: {named}")


def _check_reset(options: Options) -> None:
    if "dry-run" in options and "execute" in options:
        raise options.failure("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if "dry-run" not in options and "execute" not in options:
        print_text(
            "WARN: No action will be performed as the --execute option is missing. "
            "In version 5.0, this command will require either --dry-run or --execute to be specified. "
            "You should add the --dry-run option explicitly if you are scripting this command and want to "
            "keep the current default behavior without prompting.",
            file=sys.stderr,
        )
    for scenario in SCENARIOS:
        options.exclude(scenario, *(other for other in SCENARIOS if other != scenario))


async def _groups(admin: Admin, options: Options) -> list[str]:
    if "all-groups" not in options:
        return list(dict.fromkeys(options.values("group")))
    return [group.group_id for group in await _listed(admin, options)]


async def _listed(
    admin: Admin, options: Options, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """The groups of consumers, and those that only keep offsets."""
    listed = await admin.list_groups(
        states=states, types=types, protocol_types=("consumer", ""), timeout_ms=options.value("timeout")
    )
    by_name = {group.group_id: group for groups in listed.raise_first().values() for group in groups}
    return [by_name[name] for name in hash_map_order(by_name)]


async def _list(admin: Admin, options: Options) -> None:
    types = _chosen(options.value("type"), _TYPES, "types")
    states = _chosen(options.value("state"), _CONSUMER_STATES, "state")
    groups = await _listed(admin, options, states, types)
    if not ("type" in options or "state" in options):
        for group in groups:
            print_line(group.group_id)
        return
    widths = [width_of([group.group_id for group in groups], 15) + 10]
    header = ["GROUP"]
    for name in ("type", "state"):
        if name in options:
            widths.append(20)
            header.append(name.upper())
    print_text(row(widths, header))
    for group in groups:
        cells = [group.group_id]
        cells += [_TYPES.get((group.type or "").lower(), "Unknown")] if "type" in options else []
        cells += [group.state or "Unknown"] if "state" in options else []
        print_text(row(widths, cells))


def _chosen(text: str | None, known: dict[str, str], what: str) -> list[str]:
    """Values that are separated by commas, in any case of letters. Raises ValueError."""
    wanted = [part.strip().lower() for part in text.split(",")] if text else []
    if any(each not in known for each in wanted):
        raise ValueError(f"Invalid {what} list '{text}'. Valid {what} are: {', '.join(known.values())}")
    return [known[each] for each in wanted]


async def _delete(admin: Admin, options: Options, groups: Sequence[str]) -> None:
    results = await admin.delete_groups(groups, timeout_ms=options.value("timeout"))
    deleted = ", ".join(f"'{printable(group)}'" for group in hash_map_order(results.succeeded))
    if not results.failed:
        print_text(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    _print_error("Deletion of some consumer groups failed:")
    for group in hash_map_order(results.failed):
        print_text(f"* Group '{printable(group)}' could not be deleted due to: {exception_of(results.failed[group])}")
    if deleted:
        print_text(f"\nThese consumer groups were deleted successfully: {deleted}")


async def _delete_offsets(admin: Admin, options: Options) -> None:
    timeout_ms = options.value("timeout")
    group = options.value("group")
    partitions, outcomes = await _partitions_of_topics(admin, options)
    try:
        results = await admin.delete_group_offsets(group, partitions, timeout_ms=timeout_ms)
    except KafkaError as error:
        _print_error(message_of(error))
        outcomes.update(dict.fromkeys(partitions, f"Error: {exception_of(error)}"))
    else:
        if results.failed:
            _print_error("Encountered some partition-level error, see the follow-up details.")
        else:
            print_text(f"Request succeeded for deleting offsets from group {printable(group)}.")
        for partition in partitions:
            failure = results.failed.get(partition)
            outcomes[partition] = "Successful" if failure is None else f"Error: {exception_of(failure)}"
    widths = [width_of([each.topic for each in outcomes], 15), 10, 15]
    print_text("\n" + row(widths, ["TOPIC", "PARTITION", "STATUS"]), end="")
    for partition in sorted(outcomes, key=lambda each: f"{each.topic}{each.partition}"):
        number = "-" if partition.partition < 0 else partition.partition
        print_text("\n" + row(widths, [partition.topic, number, outcomes[partition]]), end="")
    print_text()


async def _partitions_of_topics(
    admin: Admin, options: Options
) -> tuple[list[TopicPartition], dict[TopicPartition, str]]:
    """The partitions of --topic, and the outcomes of topics that cannot be described. Raises ValueError."""
    topics = options.values("topic")
    partitions = [each for topic in topics if ":" in topic for each in parse_partitions(topic)]
    named = [topic for topic in topics if ":" not in topic]
    described = await admin.describe_topics(named, timeout_ms=options.value("timeout"))
    for topic in described.succeeded.values():
        partitions += [TopicPartition(topic.name, each.partition) for each in topic.partitions]
    outcomes = {
        TopicPartition(str(topic), -1): f"Error: {exception_of(error)}" for topic, error in described.failed.items()
    }
    return list(dict.fromkeys(partitions)), outcomes


def _validate(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        print_text(f"The regular expression `{printable(text)}` is invalid: {error}.")
    else:
        print_text(f"The regular expression `{printable(text)}` is valid.")


def _print_error(message: str) -> None:
    print_text(f"\nError: {message}")
