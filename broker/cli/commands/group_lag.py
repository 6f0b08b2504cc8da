"""The lag of groups: committed offsets, ends of partitions, and the members that read them."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from broker.cli.commands.offset_resets import SHARE
from broker.cli.grammar import Invocation
from broker.cli.output import Column
from broker.client.admin import Admin, Failure, GroupDescription, OffsetSpec, Results
from broker.client.types import OffsetAndMetadata, TopicPartition
from broker.wire.errors import ErrorCode, KafkaError

# More records than this are shown in red, any lag in yellow.
_LAG_HIGH: Final = 10_000


@attrs.frozen
class LagRow:
    """A partition of a group.

    `committed` is null where the group has no offset, `end_offset` where the partition cannot be asked; `lag` is then
    null too. `member_id` is that of the member that has the partition, null where none has.
    """

    group_id: str
    topic: str
    partition: int
    committed: int | None
    end_offset: int | None
    lag: int | None
    member_id: str | None
    client_id: str | None
    host: str | None


LAG_COLUMNS: Final[Sequence[Column[LagRow]]] = (
    Column("group", lambda row: row.group_id),
    Column("partition", lambda row: f"{row.topic}-{row.partition}"),
    Column("committed", lambda row: _shown(row.committed), is_number=True),
    Column("end", lambda row: _shown(row.end_offset), is_number=True),
    Column("lag", lambda row: _shown(row.lag), True, lambda row: lag_style(row.lag)),
    # Ids of members are client ids with a UUID: too long for a terminal, and --json has them.
    Column("client", lambda row: _shown(row.client_id)),
)


async def find_lag(invocation: Invocation, admin: Admin, names: Sequence[str]) -> list[LagRow]:
    """The rows of these groups, or of all. A group that cannot be described is reported, and left out."""
    if not names:
        listed = invocation.succeeded(await admin.list_groups(), "broker")
        names = sorted({group.group_id for groups in listed.values() for group in groups if group.type != SHARE})
    found: dict[str, GroupDescription | Failure] = dict(await admin.describe_groups(names))
    for name, group in found.items():
        if isinstance(group, GroupDescription) and group.type == SHARE:
            hint = "a share group; `kraft share-groups describe` shows its lag"
            found[name] = KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, hint)
    described: dict[str, GroupDescription] = invocation.succeeded(Results(found), "group")
    return await lag_of_groups(invocation, admin, described)


async def lag_of_groups(
    invocation: Invocation, admin: Admin, described: Mapping[str, GroupDescription]
) -> list[LagRow]:
    """The rows of groups that have been described: partitions that are assigned, or have an offset."""
    committed = invocation.succeeded(await admin.list_group_offsets(dict.fromkeys(described)), "group")
    partitions: dict[str, list[TopicPartition]] = {}
    for group_id, group in described.items():
        assigned = [partition for member in group.members for partition in member.assignment]
        offsets: Results[TopicPartition, OffsetAndMetadata | None] | dict[TopicPartition, None]
        offsets = committed.get(group_id, {})
        partitions[group_id] = sorted({*assigned, *offsets})
    wanted = dict.fromkeys((each for of_group in partitions.values() for each in of_group), OffsetSpec.LATEST)
    ends = (await admin.list_offsets(wanted)).succeeded if wanted else {}
    rows = []
    for group_id, of_group in partitions.items():
        offsets_of_group = committed[group_id].succeeded if group_id in committed else {}
        for partition in of_group:
            offset, end = offsets_of_group.get(partition), ends.get(partition)
            rows.append(
                _row(described[group_id], partition, offset and offset.offset, None if end is None else end.offset)
            )
    return rows


async def watch_lag(invocation: Invocation, admin: Admin, names: Sequence[str], interval_ms: float) -> None:
    """Show the lag again and again: in place on a terminal, otherwise below each other."""
    if invocation.printer.is_json or not sys.stdout.isatty():
        while True:
            invocation.printer.rows(
                await find_lag(invocation, admin, names), LAG_COLUMNS, empty="No group has an offset."
            )
            sys.stdout.flush()
            await trio.sleep(interval_ms / 1000)
    from rich.live import Live

    from broker.cli.output.tables import make_table, new_console

    with Live(console=new_console(), auto_refresh=False, screen=False) as live:
        while True:
            rows = await find_lag(invocation, admin, names)
            live.update(make_table(rows, LAG_COLUMNS), refresh=True)
            await trio.sleep(interval_ms / 1000)


def _row(group: GroupDescription, partition: TopicPartition, committed: int | None, end: int | None) -> LagRow:
    owner = next((member for member in group.members if partition in member.assignment), None)
    return LagRow(
        group.group_id,
        partition.topic,
        partition.partition,
        committed,
        end,
        None if committed is None or end is None else max(0, end - committed),
        None if owner is None else owner.instance_id or owner.member_id,
        None if owner is None else owner.client_id,
        None if owner is None else owner.host,
    )


def _shown(value: object) -> object:
    return "-" if value is None else value


def lag_style(lag: int | None) -> str:
    """The colour of a lag on a terminal."""
    if not lag:
        return "green"
    return "bold red" if lag > _LAG_HIGH else "yellow"
