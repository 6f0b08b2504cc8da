"""`kraft share-groups`: list and describe share groups, reset and delete their start offsets, delete them (KIP-932)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import click

from broker.cli.commands.group_lag import lag_style
from broker.cli.commands.groups import (
    MEMBER_COLUMNS,
    RESET_COLUMNS,
    ChangedGroup,
    MemberRow,
    ResetRow,
    member_row,
)
from broker.cli.commands.offset_resets import SHARE, choose_reset, plan_reset, refuse_other_type
from broker.cli.grammar import ClusterCommand, CommandGroup, Invocation
from broker.cli.grammar.arguments import Integer, TopicPartitions, topic_option
from broker.cli.grammar.completion import complete_group
from broker.cli.grammar.partitions import find_partitions
from broker.cli.grammar.units import format_count
from broker.cli.output import Column, list_of
from broker.client.admin import (
    Admin,
    ConfigResource,
    ConfigResourceType,
    Failure,
    GroupDescription,
    GroupListing,
    Results,
    ShareGroupOffset,
    ShareGroupOffsets,
)
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode, KafkaError

_STATES: Final = ("Stable", "Empty")
_DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
_TAKES_DEAD_LETTERS: Final = "errors.deadletterqueue.group.enable"
_DEAD_LETTER_PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"


@attrs.frozen
class ShareGroupRow:
    """A share group."""

    group_id: str
    state: str | None
    coordinator: int


@attrs.frozen
class ShareOffsetRow:
    """A partition of a share group. Before its first delivery it has no start offset, and `lag` is null then."""

    topic: str
    partition: int
    start_offset: int | None
    lag: int | None


@attrs.frozen
class DescribedShareGroup:
    """A share group, its members and the start offsets of its partitions.

    `dead_letter_topic` gets the records that have failed; null if there is none, or if the user may not know.
    `dead_letter_problem` says why it may not get them.
    """

    group_id: str
    state: str
    epoch: int | None
    assignment_epoch: int | None
    coordinator: int
    dead_letter_topic: str | None
    dead_letter_problem: str | None
    members: list[MemberRow]
    offsets: list[ShareOffsetRow]


@attrs.frozen
class DeletedTopic:
    """A topic that was removed from a share group."""

    group_id: str
    topic: str


SHARE_GROUP_COLUMNS: Sequence[Column[ShareGroupRow]] = (
    Column("group", lambda row: row.group_id),
    Column("state", lambda row: row.state or "-", style=lambda row: "green" if row.state == "Stable" else "yellow"),
    Column("coordinator", lambda row: row.coordinator, is_number=True),
)
SHARE_OFFSET_COLUMNS: Sequence[Column[ShareOffsetRow]] = (
    Column("topic", lambda row: row.topic),
    Column("partition", lambda row: row.partition, is_number=True),
    Column("start", lambda row: "-" if row.start_offset is None else row.start_offset, is_number=True),
    Column("lag", lambda row: "-" if row.lag is None else row.lag, True, lambda row: lag_style(row.lag)),
)


@click.group("share-groups", cls=CommandGroup)
def share_groups() -> None:
    """List and describe share groups, reset and delete their start offsets, delete them."""


@share_groups.command("list", cls=ClusterCommand, shape=list_of(ShareGroupRow))
@click.option(
    "--state",
    "states",
    type=click.Choice(_STATES, case_sensitive=False),
    multiple=True,
    metavar="STATE",
    help="Only groups in this state: Stable or Empty.",
)
async def list_share_groups(invocation: Invocation, states: Sequence[str]) -> None:
    """List share groups."""
    async with invocation.admin() as admin:
        listed = invocation.succeeded(await admin.list_groups(states=states, types=[SHARE]), "broker")
    found: list[GroupListing] = [group for groups_of_broker in listed.values() for group in groups_of_broker]
    rows = [
        ShareGroupRow(each.group_id, each.state, each.coordinator_id)
        for each in sorted(found, key=lambda group: group.group_id)
    ]
    invocation.printer.rows(rows, SHARE_GROUP_COLUMNS, empty="There are no share groups.")


@share_groups.command("describe", cls=ClusterCommand, shape=list_of(DescribedShareGroup))
@click.argument("names", nargs=-1, required=True, shell_complete=complete_group)
async def describe(invocation: Invocation, names: Sequence[str]) -> None:
    """Show share groups: their state, their members, their start offsets, their lag and their dead-letter topic."""
    async with invocation.admin() as admin:
        described = invocation.succeeded(_only_share(await admin.describe_groups(names)), "group")
        asked = await admin.list_share_group_offsets(dict.fromkeys(described))
        offsets: Mapping[str, ShareGroupOffsets] = invocation.succeeded(asked, "group")
        topics = await _dead_letter_topics(admin, described)
        coordinators = {group.coordinator.id for group in described.values()}
        problems = await _dead_letter_problems(admin, topics.values(), coordinators)
    shown = [
        _described(group, offsets.get(each), topics.get(each), problems.get(topics.get(each, "")))
        for each, group in described.items()
    ]
    if invocation.printer.is_json:
        invocation.printer.json(shown)
        return
    for group in shown:
        invocation.printer.say(
            f"Share group {group.group_id}: {group.state}, epoch {group.epoch}, assignment epoch "
            f"{group.assignment_epoch}, coordinator {group.coordinator}, {format_count(len(group.members), 'member')}"
        )
        if group.dead_letter_topic:
            invocation.printer.say(f"Records that have failed are copied to topic {group.dead_letter_topic}.")
        if group.dead_letter_problem:
            invocation.printer.say(f"! {group.dead_letter_problem}")
        if group.members:
            invocation.printer.table(group.members, MEMBER_COLUMNS)
        if group.offsets:
            invocation.printer.table(group.offsets, SHARE_OFFSET_COLUMNS)


@share_groups.command("reset-offsets", cls=ClusterCommand, shape=list_of(ResetRow))
@click.argument("group_id", metavar="GROUP", shell_complete=complete_group)
@topic_option("The topic or partitions to reset; by default all partitions of the group. May be repeated.")
@click.option("--to-earliest", is_flag=True, help="Begin with the earliest records.")
@click.option("--to-latest", is_flag=True, help="Begin with the next records.")
@click.option("--to-current", is_flag=True, help="Deliver all records from the start offset on again.")
@click.option("--to-offset", type=Integer(0), metavar="OFFSET", help="Begin with this offset.")
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
    """Set the start offsets of a share group without members; a group that does not exist is created.

    Offsets that lie outside of a log become its beginning or its end. Records from the new start offset on are
    delivered again.
    """
    reset = choose_reset(targets)
    async with invocation.admin() as admin:
        chosen = list(await find_partitions(admin, topics)) if topics else None
        await refuse_other_type(admin, group_id, is_share=True)
        old = await _start_offsets(admin, group_id, chosen)
        planned = await plan_reset(admin, group_id, old, reset)
        done = {partition: new for partition, (_, new) in planned.items()}
        if execute and done:
            results = await admin.alter_share_group_offsets(group_id, done)
            done = {partition: done[partition] for partition in invocation.succeeded(results, "partition")}
    rows = [
        ResetRow(group_id, partition.topic, partition.partition, planned[partition][0], new)
        for partition, new in sorted(done.items())
    ]
    empty = f"Share group {group_id} has no partitions; name topics with --topic."
    invocation.printer.rows(rows, RESET_COLUMNS, empty=empty)
    if rows and not execute:
        invocation.printer.say("Nothing was changed; --execute sets these offsets.")


@share_groups.command("delete-offsets", cls=ClusterCommand, shape=list_of(DeletedTopic))
@click.argument("group_id", metavar="GROUP", shell_complete=complete_group)
@click.option("-t", "--topic", "topics", multiple=True, required=True, help="The topic to remove; may be repeated.")
async def delete_offsets(invocation: Invocation, group_id: str, topics: Sequence[str]) -> None:
    """Remove topics from a share group without members, with what the group has completed of them."""
    async with invocation.admin() as admin:
        results = await admin.delete_share_group_offsets(group_id, topics)
    done = [DeletedTopic(group_id, topic) for topic in invocation.succeeded(results, "topic")]
    invocation.printer.each(done, lambda row: f"Removed topic {row.topic} from share group {row.group_id}.")


@share_groups.command("delete", cls=ClusterCommand, shape=list_of(ChangedGroup))
@click.argument("names", nargs=-1, required=True, shell_complete=complete_group)
@click.option("--if-exists", is_flag=True, help="Succeed if the group does not exist.")
async def delete(invocation: Invocation, names: Sequence[str], if_exists: bool) -> None:
    """Delete share groups without members, and their start offsets."""
    ignored = {ErrorCode.GROUP_ID_NOT_FOUND} if if_exists else set()
    async with invocation.admin() as admin:
        found = invocation.succeeded(_only_share(await admin.describe_groups(names)), "group", ignored=ignored)
        results = await admin.delete_groups(found)
    done = [ChangedGroup(name) for name in invocation.succeeded(results, "group", ignored=ignored)]
    invocation.printer.each(done, lambda group: f"Deleted share group {group.group_id}.")


def _only_share(described: Results[str, GroupDescription]) -> Results[str, GroupDescription]:
    """The descriptions of share groups; a group of another type counts as not found."""
    outcomes: dict[str, GroupDescription | Failure] = dict(described)
    for name, group in described.succeeded.items():
        if group.type != SHARE:
            outcomes[name] = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} is not a share group.")
    return Results(outcomes)


async def _start_offsets(
    admin: Admin, group_id: str, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, int | None]:
    """The start offset of each partition, or None. Raises KafkaError, ClientError."""
    offsets = (await admin.list_share_group_offsets({group_id: partitions})).value(group_id).raise_first()
    return {partition: None if offset is None else offset.start_offset for partition, offset in offsets.items()}


async def _dead_letter_topics(admin: Admin, groups: Iterable[str]) -> Mapping[str, str]:
    """The dead-letter topics of groups. Groups whose configs the user may not describe are left out."""
    resources = [ConfigResource(ConfigResourceType.GROUP, group_id) for group_id in groups]
    described = (await admin.describe_configs(resources, names=[_DEAD_LETTER_TOPIC])).succeeded
    named = {group.name: configs.get(_DEAD_LETTER_TOPIC) for group, configs in described.items()}
    return {group_id: entry.value for group_id, entry in named.items() if entry is not None and entry.value}


async def _dead_letter_problems(admin: Admin, topics: Iterable[str], brokers: Iterable[int]) -> Mapping[str, str]:
    """Why topics cannot get dead letters from brokers. Resources that the user may not describe are left out."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in sorted(set(topics))]
    described = await admin.describe_configs(resources, names=[_TAKES_DEAD_LETTERS])
    problems = {}
    for resource, error in described.failed.items():
        if isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            problems[resource.name] = (
                f"Topic {resource.name} does not exist. Create it with {_TAKES_DEAD_LETTERS}=true, unless the brokers "
                "have errors.deadletterqueue.auto.create.topics.enable=true"
            )
    for resource, configs in described.succeeded.items():
        if _TAKES_DEAD_LETTERS in configs and configs[_TAKES_DEAD_LETTERS].value != "true":
            problems[resource.name] = f"Topic {resource.name} takes no dead letters before {_TAKES_DEAD_LETTERS}=true"
    prefixes = await _dead_letter_prefixes(admin, brokers) if resources else []
    for resource in resources:
        # No config of the topic helps against its name, so this problem is shown in place of the others.
        for prefix in prefixes:
            if not resource.name.startswith(prefix):
                problems[resource.name] = (
                    f"Topic {resource.name} cannot get dead letters, because its name does not begin with {prefix} "
                    f"({_DEAD_LETTER_PREFIX} of the brokers). Set {_DEAD_LETTER_TOPIC} of the group to another topic"
                )
    return problems


async def _dead_letter_prefixes(admin: Admin, brokers: Iterable[int]) -> Sequence[str]:
    """The prefixes that brokers demand of the names of dead-letter topics. Brokers without an answer are left out."""
    resources = [ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in sorted(set(brokers))]
    described = (await admin.describe_configs(resources, names=[_DEAD_LETTER_PREFIX])).succeeded
    entries = [configs.get(_DEAD_LETTER_PREFIX) for configs in described.values()]
    return sorted({entry.value for entry in entries if entry is not None and entry.value})


def _described(
    group: GroupDescription,
    offsets: ShareGroupOffsets | None,
    dead_letter_topic: str | None,
    dead_letter_problem: str | None,
) -> DescribedShareGroup:
    return DescribedShareGroup(
        group.group_id,
        group.state,
        group.group_epoch,
        group.assignment_epoch,
        group.coordinator.id,
        dead_letter_topic,
        dead_letter_problem,
        [member_row(each) for each in group.members],
        [] if offsets is None else [_offset_row(*each) for each in sorted(offsets.succeeded.items())],
    )


def _offset_row(partition: TopicPartition, offset: ShareGroupOffset | None) -> ShareOffsetRow:
    start, lag = (None, None) if offset is None else (offset.start_offset, offset.lag)
    return ShareOffsetRow(partition.topic, partition.partition, start, lag)
