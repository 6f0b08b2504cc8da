"""The output of kafka-share-groups --describe: start offsets and lag, members, or the state of share groups."""

import sys
from collections.abc import Sequence
from typing import Final

from broker.cli.kafka_tools.columns import row, width_of
from broker.cli.kafka_tools.options import Options
from broker.cli.printing import print_text
from broker.client.admin import Admin, GroupDescription
from broker.client.types import TopicPartition
from broker.printable import printable

_NONE: Final = "-"


async def describe_share_groups(admin: Admin, options: Options, groups: Sequence[GroupDescription]) -> None:
    """Prints the groups. Raises KafkaError and ClientError."""
    for group in groups:
        if "members" in options:
            _print_members(group, is_verbose="verbose" in options)
        elif "state" in options:
            _print_state(group, is_verbose="verbose" in options)
        else:
            await _print_offsets(admin, options, group)


def _is_shown(group: GroupDescription, count: int) -> bool:
    """Returns True if the group has rows to show. Prints a warning if it has no members."""
    if group.state == "Dead":
        print_text(f"\nError: Share group '{printable(group.group_id)}' does not exist.")
    elif group.state == "Empty":
        print_text(f"\nShare group '{printable(group.group_id)}' has no active members.", file=sys.stderr)
    return group.state != "Dead" and count > 0


async def _print_offsets(admin: Admin, options: Options, group: GroupDescription) -> None:
    listed = await admin.list_share_group_offsets({group.group_id: None}, timeout_ms=options.value("timeout"))
    offsets = listed.value(group.group_id).raise_first()
    if not offsets:
        print_text(f"\nShare group '{printable(group.group_id)}' has no offset information.")
        return
    is_verbose = "verbose" in options
    header = ["GROUP", "TOPIC", "PARTITION", *(["LEADER-EPOCH"] if is_verbose else []), "START-OFFSET", "LAG"]
    widths = [width_of([group.group_id], 15), width_of([each.topic for each in offsets], 15), 10, 13, 0]
    if is_verbose:
        widths.insert(3, 13)
    print_text("\n" + row(widths, header))
    for partition in sorted(offsets):
        found = offsets[partition]
        cells: list[object] = [group.group_id, partition.topic, partition.partition]
        if is_verbose:
            cells.append(_NONE if found is None else found.leader_epoch)
        cells += [_NONE if found is None else found.start_offset]
        cells += [_NONE if found is None or found.lag is None else found.lag]
        print_text(row(widths, cells))


def _print_members(group: GroupDescription, *, is_verbose: bool) -> None:
    members = group.members
    if not _is_shown(group, len(members)):
        return
    widths = [
        width_of([group.group_id], 15),
        width_of([each.member_id for each in members], 15),
        width_of([each.host for each in members], 15),
        width_of([each.client_id for each in members], 15),
        12,
        *([13] if is_verbose else []),
        0,
    ]
    epoch = ["MEMBER-EPOCH"] if is_verbose else []
    header = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", *epoch, "ASSIGNMENT"]
    print_text("\n" + row(widths, header))
    for each in members:
        epochs = [each.epoch] if is_verbose else []
        cells = [group.group_id, each.member_id, each.host, each.client_id, len(each.assignment)]
        print_text(row(widths, [*cells, *epochs, _assignment(each.assignment)]))


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    """Formats an assignment as `orders:0,1;payments:2`."""
    numbers: dict[str, list[int]] = {}
    for each in sorted(partitions):
        numbers.setdefault(each.topic, []).append(each.partition)
    return ";".join(f"{topic}:{','.join(map(str, of_topic))}" for topic, of_topic in numbers.items())


def _print_state(group: GroupDescription, *, is_verbose: bool) -> None:
    if not _is_shown(group, 1):
        return
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.id})"
    epochs = [group.group_epoch, group.assignment_epoch] if is_verbose else []
    widths = [
        width_of([group.group_id], 15),
        width_of([coordinator], 25),
        15,
        *([12, 17] if is_verbose else []),
        0,
    ]
    names = ["GROUP-EPOCH", "ASSIGNMENT-EPOCH"] if is_verbose else []
    print_text("\n" + row(widths, ["GROUP", "COORDINATOR (ID)", "STATE", *names, "#MEMBERS"]))
    shown = [_NONE if epoch is None else epoch for epoch in epochs]
    print_text(row(widths, [group.group_id, coordinator, group.state, *shown, len(group.members)]))
