"""kafka-share-groups: list, describe and delete share groups, and change their start offsets (ShareGroupCommand.java).

It ends with exit code 0 where the cluster refuses, as Kafka's tool does; a line that begins with "Error" says so.
"""

from collections.abc import Sequence
from typing import Final

from broker.cli.kafka_tools.clients import open_admin
from broker.cli.kafka_tools.columns import row, width_of
from broker.cli.kafka_tools.errors import exception_of, message_of
from broker.cli.kafka_tools.java_order import hash_map_order
from broker.cli.kafka_tools.offset_resets import (
    OffsetReset,
    Offsets,
    export_lines,
    planned_offsets,
    reset_lines,
)
from broker.cli.kafka_tools.options import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    OptionParser,
    Options,
    ToolExit,
    flag,
    long,
    option,
)
from broker.cli.kafka_tools.share_group_descriptions import describe_share_groups
from broker.cli.printing import print_line, print_text
from broker.client.admin import Admin, GroupDescription, GroupListing
from broker.client.errors import ClientError
from broker.printable import printable
from broker.wire.errors import ErrorCode, KafkaError

ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
SCENARIOS: Final = ("to-offset", "to-earliest", "to-latest", "to-datetime", "from-file", "to-current")
_SHARE: Final = "share"
_STATES: Final = {state.lower(): state for state in ("Stable", "Dead", "Empty")}

PARSER: Final = OptionParser(
    "This tool helps to list, describe, delete and manage the offsets of share groups.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    option("group", "group", "The share group; may be repeated."),
    flag("all-groups", "All share groups."),
    option("topic", "topic[:0,1,...]", "A topic, or partitions of it for --reset-offsets; may be repeated."),
    flag("all-topics", "With --reset-offsets: all topics of the group."),
    flag("list", "List the share groups."),
    flag("describe", "Describe groups: their offsets and lag, or what --members and --state ask for."),
    flag("delete", "Delete groups that have no members."),
    flag("delete-offsets", "Delete a group's offsets of topics."),
    flag("reset-offsets", "Set a group's start offsets: plan it with --dry-run, do it with --execute."),
    option("timeout", "ms", "How long the cluster may take.", long, default=30_000),
    flag("dry-run", "Show the offsets that --execute would set."),
    flag("execute", "Set the offsets."),
    flag("export", "Print the offsets as CSV."),
    option("to-offset", "offset", "Reset to this offset.", long),
    option("from-file", "file", "Reset to the offsets in a CSV file, as --export prints it."),
    option("to-datetime", "YYYY-MM-DDThh:mm:ss.sss", "Reset to the first record at or after this time."),
    flag("to-earliest", "Reset to the first record."),
    flag("to-latest", "Reset to the end."),
    flag("to-current", "Reset to the start offset, where there is none to the end."),
    flag("members", "With --describe: show the members."),
    flag("offsets", "With --describe: show the offsets, as by default."),
    option("state", "state,...", "With --describe and --list: show the state.", is_argument_optional=True),
    flag("verbose", "With --describe: show more."),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    _check(options)
    try:
        async with open_admin(options) as admin:
            await _run(admin, options)
    except (KafkaError, ClientError) as error:
        # Kafka's reset fails with the exception itself, and other actions with one that names it.
        reason = message_of(error) if "reset-offsets" in options else exception_of(error)
        _print_error(f"Executing share group command failed due to {reason}")
    except ValueError as error:
        raise options.failure(str(error)) from error
    return 0


async def _run(admin: Admin, options: Options) -> None:
    if "list" in options:
        await _list(admin, options)
    elif "describe" in options:
        groups = await _groups(admin, options)
        await describe_share_groups(admin, options, [await _described(admin, options, name) for name in groups])
    elif "delete" in options:
        await _delete(admin, options)
    elif "delete-offsets" in options:
        await _delete_offsets(admin, options)
    else:
        offsets = await _reset(admin, options, options.value("group"))
        planned = {options.value("group"): offsets} if offsets else {}
        for line in (export_lines if "export" in options else reset_lines)(options, planned):
            print_text(line)


def _check(options: Options) -> None:
    """Checks that the options go together. Raises UsageFailure."""
    options.require_with("describe", "members", "offsets", "verbose")
    if "list" not in options:
        options.require_with("describe", "state")
    options.require("bootstrap-server")
    has_groups = "group" in options or "all-groups" in options
    if "describe" in options:
        if not has_groups:
            raise options.failure("Option [describe] takes one of these options: [all-groups], [group]")
        if sum(part in options for part in ("members", "offsets", "state")) > 1:
            raise options.failure("Option [describe] takes at most one of these options: [members], [offsets], [state]")
        if "state" in options and options.value("state") is not None:
            raise options.failure("Option [describe] does not take a value for [state]")
    if "delete" in options:
        if not has_groups:
            raise options.failure("Option [delete] takes the options [group] or [all-groups].")
        if "all-groups" in options and "group" in options:
            raise options.failure("Option [delete] takes either [group] or [all-groups], not both.")
        if "all-topics" in options or "topic" in options:
            raise options.failure("Option [delete] does not take the options [topic] or [all-topics].")
    if "delete-offsets" in options and not ("group" in options and "topic" in options):
        raise options.failure("Option [delete-offsets] takes the following options: [group], [topic]")
    if "reset-offsets" in options:
        _check_reset(options)
    options.exclude("group", "all-groups", "list")
    options.exclude("topic", "list", "describe")
    if sum(action in options for action in ACTIONS) != 1:
        named = ", ".join(f"--{action}" for action in ACTIONS)
        raise options.failure(f"Command must include exactly one action: {named}.")


def _check_reset(options: Options) -> None:
    if "dry-run" in options and "execute" in options:
        raise options.failure("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if "dry-run" not in options and "execute" not in options:
        raise options.failure("Option [reset-offsets] takes the option: [execute] or [dry-run]")
    if "group" not in options:
        raise options.failure("Option [reset-offsets] takes the option: [group]")
    if not any(scope in options for scope in ("topic", "all-topics", "from-file")):
        raise options.failure("Option [reset-offsets] takes one of these options: [all-topics], [from-file], [topic]")
    options.exclude("topic", "all-topics", "from-file")
    options.exclude("all-topics", "from-file")
    if not any(scenario in options for scenario in SCENARIOS):
        named = ", ".join(f"[{scenario}]" for scenario in sorted(SCENARIOS))
        raise options.failure(f"Option [reset-offsets] takes one of these options: {named}")
    for scenario in SCENARIOS:
        options.exclude(scenario, *(other for other in SCENARIOS if other != scenario))


async def _groups(admin: Admin, options: Options) -> list[str]:
    if "all-groups" not in options:
        return sorted(dict.fromkeys(options.values("group")))
    return sorted(group.group_id for group in await _listed(admin, options))


async def _listed(admin: Admin, options: Options, states: Sequence[str] = ()) -> list[GroupListing]:
    listed = await admin.list_groups(states=states, types=[_SHARE], timeout_ms=options.value("timeout"))
    by_name = {group.group_id: group for groups in listed.raise_first().values() for group in groups}
    return [by_name[name] for name in hash_map_order(by_name)]


async def _list(admin: Admin, options: Options) -> None:
    wanted = [part.strip() for part in (options.value("state") or "").split(",") if part.strip()]
    if any(each.lower() not in _STATES for each in wanted):
        valid = ", ".join(_STATES.values())
        raise ValueError(f"Invalid state list '{options.value('state')}'. Valid states are: {valid}")
    groups = await _listed(admin, options, [_STATES[each.lower()] for each in wanted])
    if "state" not in options:
        for group in groups:
            print_line(group.group_id)
        return
    widths = [width_of([group.group_id for group in groups], 15), 0]
    print_text(row(widths, ["GROUP", "STATE"]))
    for group in groups:
        print_text(row(widths, [group.group_id, group.state or "Unknown"]))


async def _described(admin: Admin, options: Options, name: str) -> GroupDescription:
    """The group. Raises KafkaError GROUP_ID_NOT_FOUND if it is not a share group, and ClientError."""
    described = await admin.describe_groups([name], timeout_ms=options.value("timeout"))
    failure = described.failed.get(name)
    if isinstance(failure, KafkaError) and failure.code is ErrorCode.GROUP_ID_NOT_FOUND:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {name} not found.")
    group = described.value(name)
    if group.type != _SHARE:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} is not a share group.")
    return group


async def _delete(admin: Admin, options: Options) -> None:
    existing = {group.group_id: group for group in await _listed(admin, options)}
    names = list(existing) if "all-groups" in options else list(dict.fromkeys(options.values("group")))
    failed: dict[str, Exception] = {}
    for name in names:
        if name not in existing:
            failed[name] = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group '{name}' is not a share group.")
        elif existing[name].state not in ("Empty", "Dead"):
            failed[name] = KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Share group '{name}' is not EMPTY.")
    empty = [name for name in names if name not in failed]
    deleted: list[str] = []
    if empty:
        results = await admin.delete_groups(empty, timeout_ms=options.value("timeout"))
        deleted, failed = list(results.succeeded), failed | dict(results.failed)
    shown = ", ".join(f"'{printable(group)}'" for group in hash_map_order(deleted))
    if not failed:
        print_text(f"Deletion of requested share groups ({shown}) was successful.")
        return
    _print_error("Deletion of some share groups failed:")
    for group in hash_map_order(failed):
        print_text(f"* Group '{printable(group)}' could not be deleted due to: {exception_of(failed[group])}")
    if deleted:
        print_text(f"\nThese share groups were deleted successfully: {shown}")


async def _delete_offsets(admin: Admin, options: Options) -> None:
    topics = list(dict.fromkeys(options.values("topic")))
    outcomes: dict[str, str] = {}
    try:
        results = await admin.delete_share_group_offsets(
            options.value("group"), topics, timeout_ms=options.value("timeout")
        )
    except KafkaError as error:
        _print_error(message_of(error))
        outcomes = dict.fromkeys(topics, f"Error: {message_of(error)}")
    else:
        for topic in topics:
            failure = results.failed.get(topic)
            outcomes[topic] = "Successful" if failure is None else f"Error: {message_of(failure)}"
    widths = [width_of(topics, 15), 0]
    print_text("\n" + row(widths, ["TOPIC", "STATUS"]))
    for topic in sorted(outcomes):
        print_text(row(widths, [topic, outcomes[topic]]))


async def _reset(admin: Admin, options: Options, name: str) -> Offsets:
    """The new start offsets, which are set with --execute. Raises KafkaError, ClientError, ValueError, ToolExit."""
    try:
        group = await _described(admin, options, name)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    else:
        if group.state not in ("Empty", "Dead"):
            raise ToolExit(1, f"Share group '{name}' is not empty.")
    offsets = await planned_offsets(OffsetReset(admin, options, name, _start_offsets), SCENARIOS)
    if "execute" in options and offsets:
        altered = await admin.alter_share_group_offsets(name, offsets, timeout_ms=options.value("timeout"))
        altered.raise_first()
    return offsets


async def _start_offsets(reset: OffsetReset) -> Offsets:
    listed = await reset.admin.list_share_group_offsets({reset.group: None}, timeout_ms=reset.timeout_ms)
    offsets = listed.value(reset.group).raise_first()
    return {each: found.start_offset for each, found in offsets.items() if found is not None}


def _print_error(message: str) -> None:
    print_text(f"\nError: {message}")
