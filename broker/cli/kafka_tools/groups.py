"""kafka-groups: the groups of all types (GroupsCommand.java, KIP-1043)."""

from collections.abc import Sequence
from typing import Final

from broker.cli.kafka_tools.clients import open_admin
from broker.cli.kafka_tools.errors import message_of
from broker.cli.kafka_tools.options import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    OptionParser,
    Options,
    ToolExit,
    flag,
    option,
)
from broker.cli.printing import print_line
from broker.client.admin import GroupListing
from broker.client.errors import ClientError
from broker.printable import printable
from broker.wire.errors import KafkaError

# The types by the names that --group-type takes, in any case of letters, and as they are printed.
_TYPES: Final = {"classic": "Classic", "consumer": "Consumer", "share": "Share", "streams": "Streams"}
_WIDTH_MIN: Final = 20

PARSER: Final = OptionParser(
    "This tool helps to list groups of all types.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    flag("list", "List the groups."),
    option("group-type", "type", f"Only groups of this type: {', '.join(_TYPES)}."),
    option("protocol", "protocol", "Only groups of this protocol type."),
    flag("consumer", "Only groups of consumers: type consumer, and type classic with protocol consumer or none."),
    flag("share", "Only share groups."),
    flag("streams", "Only streams groups."),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    _check(options)
    try:
        async with open_admin(options) as admin:
            listed = (await admin.list_groups()).raise_first()
    except (KafkaError, ClientError) as error:
        print_line(f"Error while executing groups command : {message_of(error)}")
        return 1
    _print([group for of_broker in listed.values() for group in of_broker if _is_wanted(options, group)])
    return 0


def _check(options: Options) -> None:
    """Checks that the options go together. Raises UsageFailure."""
    options.require("bootstrap-server")
    if "list" not in options:
        raise options.failure("Command must include exactly one action: --list.")
    if "group-type" in options and options.value("group-type").lower() not in _TYPES:
        raise ToolExit(1, "--group-type must be a valid group type.")
    options.exclude("consumer", "group-type", "protocol", "share", "streams")
    options.exclude("share", "consumer", "group-type", "protocol", "streams")
    options.exclude("streams", "consumer", "group-type", "protocol", "share")


def _is_wanted(options: Options, group: GroupListing) -> bool:
    kind = (group.type or "").lower()
    if "consumer" in options:
        return group.protocol_type in ("consumer", "") or kind == "consumer"
    if "share" in options or "streams" in options:
        return kind == ("share" if "share" in options else "streams")
    has_type = "group-type" not in options or kind == options.value("group-type").lower()
    return has_type and ("protocol" not in options or group.protocol_type == options.value("protocol"))


def _print(groups: Sequence[GroupListing]) -> None:
    rows = [
        [printable(cell) for cell in (each.group_id, _TYPES.get((each.type or "").lower(), ""), each.protocol_type)]
        for each in groups
    ]
    width = max([_WIDTH_MIN, *(len(cell) for row in rows for cell in row)])
    # The header has no blank at its end, as in Kafka's tool.
    print_line(" ".join(f"{heading:<{width}}" for heading in ("GROUP", "TYPE", "PROTOCOL")))
    for row in rows:
        print_line("".join(f"{cell:<{width}} " for cell in row))
