"""The output of kafka-consumer-groups --describe: offsets and lag, members, or the state of groups."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from broker.cli.kafka_tools.columns import row, width_of
from broker.cli.kafka_tools.options import Options
from broker.cli.printing import print_text
from broker.client.admin import Admin, GroupDescription, MemberDescription, OffsetSpec
from broker.client.types import OffsetAndMetadata, TopicPartition
from broker.printable import printable

_NONE: Final = "-"
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_OFFSETS_HEADER: Final = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)


async def describe_groups(admin: Admin, options: Options, groups: Sequence[str]) -> None:
    """Prints groups, by name. Raises KafkaError where one does not exist, and ClientError."""
    described = (await admin.describe_groups(groups, timeout_ms=options.value("timeout"))).raise_first()
    for name in sorted(described):
        group = described[name]
        if "members" in options:
            _print_members(group, is_verbose="verbose" in options)
        elif "state" in options:
            _print_state(group, is_verbose="verbose" in options)
        else:
            await _print_offsets(admin, options, group)


def _is_shown(group: GroupDescription, count: int) -> bool:
    """Returns True if the group has rows to show. Prints a warning if the group is not stable."""
    if group.state == "Dead":
        print_text(f"\nError: Consumer group '{printable(group.group_id)}' does not exist.")
    elif group.state == "Empty":
        print_text(f"\nConsumer group '{printable(group.group_id)}' has no active members.", file=sys.stderr)
    elif group.state in _REBALANCING:
        print_text(f"\nWarning: Consumer group '{printable(group.group_id)}' is rebalancing.", file=sys.stderr)
    return group.state != "Dead" and count > 0


@attrs.frozen
class _Row:
    """A partition with the member that has it."""

    partition: TopicPartition
    member_id: str
    host: str
    client_id: str


async def _print_offsets(admin: Admin, options: Options, group: GroupDescription) -> None:
    timeout_ms = options.value("timeout")
    listed = await admin.list_group_offsets({group.group_id: None}, timeout_ms=timeout_ms)
    found_offsets = listed.value(group.group_id).raise_first()
    committed = {each: offset for each, offset in found_offsets.items() if offset is not None}
    rows = _rows(group, committed)
    found = await admin.list_offsets({each.partition: OffsetSpec.LATEST for each in rows}, timeout_ms=timeout_ms)
    ends = {each: end.offset for each, end in found.succeeded.items() if end is not None}
    if not _is_shown(group, len(rows)):
        return
    header, widths = list(_OFFSETS_HEADER), [15, 15, 10, 15, 15, 15, 15, 15, 0]
    widths[0] = width_of([group.group_id], 15)
    widths[1] = width_of([each.partition.topic for each in rows], 15)
    widths[6] = width_of([each.member_id for each in rows], 15)
    widths[7] = width_of([each.host for each in rows], 15)
    is_verbose = "verbose" in options
    if is_verbose:
        header.insert(3, "LEADER-EPOCH")
        widths.insert(3, 15)
    print_text("\n" + row(widths, header), end="")
    for each in rows:
        cells = _offset_cells(group.group_id, each, committed.get(each.partition), ends, is_verbose)
        print_text("\n" + row(widths, cells), end="")
    print_text()


def _rows(group: GroupDescription, committed: Mapping[TopicPartition, object]) -> list[_Row]:
    """Returns the partitions of each member, the member with the most first, then the unassigned partitions."""
    rows = [
        _Row(partition, member.member_id, member.host, member.client_id)
        for member in sorted(group.members, key=lambda each: -len(each.assignment))
        for partition in sorted(member.assignment)
    ]
    assigned = {each.partition for each in rows}
    return rows + [_Row(each, _NONE, _NONE, _NONE) for each in sorted(committed) if each not in assigned]


def _offset_cells(
    group: str,
    each: _Row,
    committed: OffsetAndMetadata | None,
    ends: Mapping[TopicPartition, int],
    is_verbose: bool,
) -> list[object]:
    offset = None if committed is None else committed.offset
    end = ends.get(each.partition)
    lag = None if offset is None or end is None else end - offset
    epoch = None if committed is None else committed.leader_epoch
    return [
        group,
        each.partition.topic,
        each.partition.partition,
        *([_shown(epoch)] if is_verbose else []),
        _shown(offset),
        _shown(end),
        _shown(lag),
        each.member_id,
        each.host,
        each.client_id,
    ]


def _print_members(group: GroupDescription, *, is_verbose: bool) -> None:
    members = group.members
    _is_shown(group, len(members))
    kinds = {member.is_classic for member in members}
    columns: list[tuple[str, int, list[str]]] = [
        ("GROUP", 15, [group.group_id] * len(members)),
        ("CONSUMER-ID", 15, [each.member_id for each in members]),
        ("GROUP-INSTANCE-ID", 17, [each.instance_id or "" for each in members]),
        ("HOST", 15, [each.host for each in members]),
        ("CLIENT-ID", 15, [each.client_id for each in members]),
        ("#PARTITIONS", 15, [str(len(each.assignment)) for each in members]),
    ]
    if not any(each.instance_id for each in members):
        del columns[2]
    if is_verbose:
        columns += _verbose_columns(group, members, has_both_kinds={True, False} <= kinds)
    names = [name for name, _, _ in columns]
    widths = [width_of(cells, least) for _, least, cells in columns]
    widths[-1] = 0 if names[-1] == "UPGRADED" else widths[-1]
    # Without --verbose Kafka's line ends with the blank before the columns that are left out.
    end = "" if is_verbose else " "
    print_text("\n" + row(widths, names) + end)
    for cells in zip(*(cells for _, _, cells in columns), strict=True):
        print_text(row(widths, cells) + end)


def _verbose_columns(
    group: GroupDescription, members: Sequence[MemberDescription], *, has_both_kinds: bool
) -> list[tuple[str, int, list[str]]]:
    columns = [
        ("CURRENT-EPOCH", 15, [_shown(each.epoch) for each in members]),
        ("CURRENT-ASSIGNMENT", 20, [_assignment(each.assignment) for each in members]),
        ("TARGET-EPOCH", 15, [_shown(group.assignment_epoch)] * len(members)),
        ("TARGET-ASSIGNMENT", 20, [_assignment(each.target_assignment) for each in members]),
    ]
    if has_both_kinds:
        columns.append(("UPGRADED", 1, [str(not each.is_classic).lower() for each in members]))
    return columns


def _assignment(partitions: Sequence[TopicPartition] | None) -> str:
    """Formats an assignment as `orders:0,1;payments:2`."""
    numbers: dict[str, list[int]] = {}
    for each in sorted(partitions or ()):
        numbers.setdefault(each.topic, []).append(each.partition)
    return ";".join(sorted(f"{topic}:{','.join(map(str, of_topic))}" for topic, of_topic in numbers.items())) or _NONE


def _print_state(group: GroupDescription, *, is_verbose: bool) -> None:
    if not _is_shown(group, 1):
        return
    node = group.coordinator
    columns: list[tuple[str, int, object]] = [
        ("GROUP", 15, group.group_id),
        ("COORDINATOR (ID)", 25, f"{node.host}:{node.port}  ({node.id})"),
        ("ASSIGNMENT-STRATEGY", 20, group.assignor or _NONE),
        ("STATE", 20, group.state),
        *(
            [
                ("GROUP-EPOCH", 15, _shown(group.group_epoch)),
                ("TARGET-ASSIGNMENT-EPOCH", 25, _shown(group.assignment_epoch)),
            ]
            if is_verbose
            else []
        ),
        ("#MEMBERS", 0, len(group.members)),
    ]
    widths = [
        width_of([str(cell)], least) if name in ("GROUP", "COORDINATOR (ID)") else least
        for name, least, cell in columns
    ]
    print_text("\n" + row(widths, [name for name, _, _ in columns]))
    print_text(row(widths, [cell for _, _, cell in columns]))


def _shown(number: int | None) -> str:
    return _NONE if number is None else str(number)
