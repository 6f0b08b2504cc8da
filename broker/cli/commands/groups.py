"""`kraft groups`: list and describe groups, see their lag, reset and delete their offsets."""

from collections.abc import Sequence
from typing import Any

import attrs
import click

from broker.cli.commands.group_lag import LAG_COLUMNS, LagRow, find_lag, lag_of_groups, lag_style, watch_lag
from broker.cli.commands.offset_resets import Reset, choose_reset, committed_offsets, plan_reset, refuse_other_type
from broker.cli.grammar import ClusterCommand, CommandGroup, Invocation
from broker.cli.grammar.arguments import DURATION, Integer, TopicPartitions, topic_option
from broker.cli.grammar.completion import complete_group
from broker.cli.grammar.partitions import find_partitions
from broker.cli.grammar.units import format_count
from broker.cli.output import Column, list_of
from broker.client.admin import GroupDescription, GroupListing, MemberDescription
from broker.wire.errors import ErrorCode


@attrs.frozen
class GroupRow:
    """A group. `type` is classic, consumer (KIP-848) or share (KIP-932). Brokers may not tell `state` and `type`."""

    group_id: str
    state: str | None
    type: str | None
    protocol_type: str
    coordinator: int


@attrs.frozen
class MemberRow:
    """A member and the partitions that are assigned to it, by topic."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: dict[str, list[int]]


@attrs.frozen
class OffsetRow:
    """A partition that the group has committed. `end_offset` and `lag` are null where the partition cannot be asked."""

    topic: str
    partition: int
    committed: int
    end_offset: int | None
    lag: int | None


@attrs.frozen
class DescribedGroup:
    """A group, its members and its committed offsets."""

    group_id: str
    state: str
    type: str
    assignor: str
    coordinator: int
    members: list[MemberRow]
    offsets: list[OffsetRow]


@attrs.frozen
class ResetRow:
    """An offset that was set, or would be without `--execute`. `old_offset` is null where there was none."""

    group_id: str
    topic: str
    partition: int
    old_offset: int | None
    new_offset: int


@attrs.frozen
class ChangedGroup:
    """A group that was deleted."""

    group_id: str


@attrs.frozen
class DeletedOffset:
    """A partition whose offset was deleted."""

    group_id: str
    topic: str
    partition: int


GROUP_COLUMNS: Sequence[Column[GroupRow]] = (
    Column("group", lambda row: row.group_id),
    Column("state", lambda row: row.state or "-", style=lambda row: "green" if row.state == "Stable" else "yellow"),
    Column("type", lambda row: row.type or "-"),
    Column("protocol", lambda row: row.protocol_type or "-"),
    Column("coordinator", lambda row: row.coordinator, is_number=True),
)
MEMBER_COLUMNS: Sequence[Column[MemberRow]] = (
    Column("member", lambda row: row.instance_id or row.member_id),
    Column("client", lambda row: row.client_id),
    Column("host", lambda row: row.host),
    Column("assignment", lambda row: " ".join(f"{topic}:{_ranges(row.assignment[topic])}" for topic in row.assignment)),
)
OFFSET_COLUMNS: Sequence[Column[OffsetRow]] = (
    Column("topic", lambda row: row.topic),
    Column("partition", lambda row: row.partition, is_number=True),
    Column("committed", lambda row: row.committed, is_number=True),
    Column("end", lambda row: "-" if row.end_offset is None else row.end_offset, is_number=True),
    Column("lag", lambda row: "-" if row.lag is None else row.lag, True, lambda row: lag_style(row.lag)),
)
RESET_COLUMNS: Sequence[Column[ResetRow]] = (
    Column("topic", lambda row: row.topic),
    Column("partition", lambda row: row.partition, is_number=True),
    Column("old offset", lambda row: "-" if row.old_offset is None else row.old_offset, is_number=True),
    Column("new offset", lambda row: row.new_offset, is_number=True),
)


@click.group("groups", cls=CommandGroup)
def groups() -> None:
    """List and describe groups, see their lag, reset and delete their offsets."""


@groups.command("list", cls=ClusterCommand, shape=list_of(GroupRow))
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="Only groups in this state, as Stable or Empty."
)
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only groups of this type: classic, consumer, ...")
async def list_groups(invocation: Invocation, states: Sequence[str], types: Sequence[str]) -> None:
    """List groups."""
    async with invocation.admin() as admin:
        listed = invocation.succeeded(await admin.list_groups(states=states, types=types), "broker")
    found: list[GroupListing] = [group for groups_of_broker in listed.values() for group in groups_of_broker]
    rows = [
        GroupRow(each.group_id, each.state, each.type, each.protocol_type, each.coordinator_id)
        for each in sorted(found, key=lambda group: group.group_id)
    ]
    invocation.printer.rows(rows, GROUP_COLUMNS, empty="There are no groups.")


@groups.command("describe", cls=ClusterCommand, shape=list_of(DescribedGroup))
@click.argument("names", nargs=-1, required=True, shell_complete=complete_group)
async def describe(invocation: Invocation, names: Sequence[str]) -> None:
    """Show groups: their state, their members and what these are assigned, and the offsets that they have committed.

    `kraft share-groups describe` shows the start offsets of share groups.
    """
    async with invocation.admin() as admin:
        described = invocation.succeeded(await admin.describe_groups(names), "group")
        rows = await lag_of_groups(invocation, admin, described)
    shown = [_described(group, [row for row in rows if row.group_id == group.group_id]) for group in described.values()]
    if invocation.printer.is_json:
        invocation.printer.json(shown)
        return
    for group in shown:
        invocation.printer.say(
            f"Group {group.group_id}: {group.state}, {group.type}, assignor {group.assignor or '-'}, "
            f"coordinator {group.coordinator}, {format_count(len(group.members), 'member')}"
        )
        if group.members:
            invocation.printer.table(group.members, MEMBER_COLUMNS)
        if group.offsets:
            invocation.printer.table(group.offsets, OFFSET_COLUMNS)


@groups.command("lag", cls=ClusterCommand, shape=list_of(LagRow))
@click.argument("names", nargs=-1, shell_complete=complete_group)
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C.")
@click.option(
    "--interval", type=DURATION, default="2s", metavar="DURATION", help="With --watch: how often; default 2s."
)
async def lag(invocation: Invocation, names: Sequence[str], watch: bool, interval: int) -> None:
    """Show the lag of groups: the distance to the ends of their partitions; without NAMES all groups."""
    async with invocation.admin() as admin:
        if watch:
            await watch_lag(invocation, admin, names, interval)
        else:
            rows = await find_lag(invocation, admin, names)
            invocation.printer.rows(rows, LAG_COLUMNS, empty="No group has an offset.")


@groups.command("reset-offsets", cls=ClusterCommand, shape=list_of(ResetRow))
@click.argument("group_id", metavar="GROUP", shell_complete=complete_group)
@topic_option("The topic or partitions to reset; by default all partitions with an offset. May be repeated.")
@click.option("--to-earliest", is_flag=True, help="Reset to the earliest offsets.")
@click.option("--to-latest", is_flag=True, help="Reset to the latest offsets.")
@click.option("--to-current", is_flag=True, help="Keep committed offsets; set the latest offset where there is none.")
@click.option("--to-offset", type=Integer(0), metavar="OFFSET", help="Reset to this offset.")
@click.option("--to-time", metavar="TIME", help="The first record since a time: 2026-01-31T08:00, or -2h.")
@click.option("--shift-by", type=Integer(), metavar="N", help="Move forward by N records; backward if N is negative.")
@click.option("--execute", is_flag=True, help="Set the offsets; without this option they are only shown.")
async def reset_offsets(
    invocation: Invocation,
    group_id: str,
    topics: Sequence[TopicPartitions],
    execute: bool,
    **targets: Any,
) -> None:
    """Set the offsets of a group without members.

    Offsets that lie outside of a log become its beginning or its end.
    """
    reset: Reset = choose_reset(targets)
    async with invocation.admin() as admin:
        chosen = list(await find_partitions(admin, topics)) if topics else None
        await refuse_other_type(admin, group_id, is_share=False)
        planned = await plan_reset(admin, group_id, await committed_offsets(admin, group_id, chosen), reset)
        done = {partition: new for partition, (_, new) in planned.items()}
        if execute and done:
            results = await admin.alter_group_offsets(group_id, done)
            done = {partition: done[partition] for partition in invocation.succeeded(results, "partition")}
    rows = [
        ResetRow(group_id, partition.topic, partition.partition, planned[partition][0], new)
        for partition, new in sorted(done.items())
    ]
    invocation.printer.rows(rows, RESET_COLUMNS, empty=f"Group {group_id} has no offsets; name topics with --topic.")
    if rows and not execute:
        invocation.printer.say("Nothing was changed; --execute sets these offsets.")


@groups.command("delete", cls=ClusterCommand, shape=list_of(ChangedGroup))
@click.argument("names", nargs=-1, required=True, shell_complete=complete_group)
@click.option("--if-exists", is_flag=True, help="Succeed if the group does not exist.")
async def delete(invocation: Invocation, names: Sequence[str], if_exists: bool) -> None:
    """Delete groups without members, and their offsets."""
    async with invocation.admin() as admin:
        results = await admin.delete_groups(names)
    ignored = {ErrorCode.GROUP_ID_NOT_FOUND} if if_exists else set()
    done = [ChangedGroup(name) for name in invocation.succeeded(results, "group", ignored=ignored)]
    invocation.printer.each(done, lambda group: f"Deleted group {group.group_id}.")


@groups.command("delete-offsets", cls=ClusterCommand, shape=list_of(DeletedOffset))
@click.argument("group_id", metavar="GROUP", shell_complete=complete_group)
@topic_option("The topic whose offsets to delete; may be repeated.", required=True)
async def delete_offsets(invocation: Invocation, group_id: str, topics: Sequence[TopicPartitions]) -> None:
    """Delete a group's offsets for topics that no member of it subscribes to."""
    async with invocation.admin() as admin:
        partitions = await find_partitions(admin, topics)
        results = await admin.delete_group_offsets(group_id, partitions)
    done = [DeletedOffset(group_id, each.topic, each.partition) for each in invocation.succeeded(results, "partition")]
    invocation.printer.each(done, lambda row: f"Deleted the offset of {row.topic}-{row.partition}.")


def _described(group: GroupDescription, rows: Sequence[LagRow]) -> DescribedGroup:
    members = [member_row(each) for each in group.members]
    offsets = [
        OffsetRow(row.topic, row.partition, row.committed, row.end_offset, row.lag)
        for row in rows
        if row.committed is not None
    ]
    coordinator = group.coordinator.id
    return DescribedGroup(group.group_id, group.state, group.type, group.assignor, coordinator, members, offsets)


def member_row(member: MemberDescription) -> MemberRow:
    return MemberRow(member.member_id, member.instance_id, member.client_id, member.host, _by_topic(member))


def _by_topic(member: MemberDescription) -> dict[str, list[int]]:
    assigned: dict[str, list[int]] = {}
    for partition in sorted(member.assignment):
        assigned.setdefault(partition.topic, []).append(partition.partition)
    return assigned


def _ranges(numbers: Sequence[int]) -> str:
    """`0-3,7` for 0, 1, 2, 3 and 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
