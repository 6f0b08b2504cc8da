"""`kraft topics`: create, list, describe, alter and delete topics; see and trim what is in them."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import attrs
import click

from broker.cli.grammar import ClusterCommand, CommandGroup, Invocation
from broker.cli.grammar.arguments import INT16_MAX, INT32_MAX, TOPIC_PARTITIONS, Integer, TopicPartitions, parse_time
from broker.cli.grammar.command import shown_item
from broker.cli.grammar.completion import complete_topic
from broker.cli.grammar.partitions import find_offsets, find_partitions
from broker.cli.grammar.settings import parse_settings
from broker.cli.grammar.units import format_count, format_ids
from broker.cli.output import Column, list_of
from broker.client.admin import (
    HIGH_WATERMARK,
    Admin,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode
from broker.wire.uuids import encode_uuid
from kraft.env import real_env


@attrs.frozen
class TopicRow:
    """A topic. `replication_factor` is the lowest among its partitions."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    without_leader: int


@attrs.frozen
class PartitionRow:
    """A partition. `leader` is null while there is none; `elr` are the eligible leader replicas (KIP-966)."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    elr: list[int]
    offline: list[int]


@attrs.frozen
class DescribedTopic:
    """A topic, its partitions, and the configs that are set for it."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: list[PartitionRow]
    configs: dict[str, str | None]


@attrs.frozen
class ChangedTopic:
    """A topic that was created, altered or deleted. Counts are those after it; null where they do not matter."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None


@attrs.frozen
class OffsetRow:
    """A partition's first offset and the offset of its next record.

    `offsets` is how many offsets lie between; compaction and transactions leave fewer records. `at` are the first
    offsets since the times of `--at`, null where no record is that late.
    """

    topic: str
    partition: int
    begin: int
    end: int
    offsets: int
    at: list[int | None]


@attrs.frozen
class TrimmedPartition:
    """A partition whose first records were deleted, and the offset that it begins with now."""

    topic: str
    partition: int
    begin: int


TOPIC_COLUMNS: Sequence[Column[TopicRow]] = (
    Column("name", lambda row: row.name),
    Column("partitions", lambda row: row.partitions, is_number=True),
    Column("replicas", lambda row: row.replication_factor, is_number=True),
    Column(
        "under-replicated", lambda row: row.under_replicated, True, lambda row: "yellow" * bool(row.under_replicated)
    ),
    Column("leaderless", lambda row: row.without_leader, True, lambda row: "bold red" * bool(row.without_leader)),
)
PARTITION_COLUMNS: Sequence[Column[PartitionRow]] = (
    Column("partition", lambda row: row.partition, is_number=True),
    Column("leader", lambda row: "none" if row.leader is None else row.leader, True, lambda row: _leader_style(row)),
    Column("epoch", lambda row: row.leader_epoch, is_number=True),
    Column("replicas", lambda row: format_ids(row.replicas)),
    Column(
        "isr", lambda row: format_ids(row.isr), style=lambda row: "yellow" if len(row.isr) < len(row.replicas) else ""
    ),
    Column("elr", lambda row: format_ids(row.elr)),
    Column("offline", lambda row: format_ids(row.offline), style=lambda row: "red" if row.offline else ""),
)


OFFSET_COLUMNS: Sequence[Column[OffsetRow]] = (
    Column("topic", lambda row: row.topic),
    Column("partition", lambda row: row.partition, is_number=True),
    Column("begin", lambda row: row.begin, is_number=True),
    Column("end", lambda row: row.end, is_number=True),
    Column("offsets", lambda row: row.offsets, is_number=True),
)


@click.group("topics", cls=CommandGroup)
def topics() -> None:
    """Create, list, describe, alter and delete topics; see and trim what is in them."""


@topics.command("list", cls=ClusterCommand, shape=list_of(TopicRow))
@click.argument("pattern", default="*")
@click.option("--internal", is_flag=True, help="Include the topics that the cluster keeps for itself.")
@click.option("--names", is_flag=True, help="Print names alone, one a line.")
async def list_topics(invocation: Invocation, pattern: str, internal: bool, names: bool) -> None:
    """List topics; with PATTERN those that match it, as in 'orders-*'."""
    async with invocation.admin() as admin:
        listed = await admin.list_topics(include_internal=internal)
        matching = [topic.name for topic in listed if fnmatchcase(topic.name, pattern)]
        described = invocation.succeeded(await admin.describe_topics(matching), "topic")
    rows = [summarize(topic) for topic in described.values()]
    if names and not invocation.printer.is_json:
        for row in rows:
            invocation.printer.say(row.name)
        return
    invocation.printer.rows(rows, TOPIC_COLUMNS, empty="There are no topics.")


@topics.command("create", cls=ClusterCommand, shape=list_of(ChangedTopic))
@click.argument("names", nargs=-1, required=True)
@click.option("-p", "--partitions", type=Integer(1, INT32_MAX), metavar="N", help="The cluster's default without it.")
@click.option("-r", "--replicas", type=Integer(1, INT16_MAX), metavar="N", help="The cluster's default without it.")
@click.option("-c", "--config", "settings", multiple=True, metavar="KEY=VALUE", help="A config of the topic.")
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic already exists.")
@click.option("--dry-run", is_flag=True, help="Only validate the change; do not apply it.")
async def create(
    invocation: Invocation,
    names: Sequence[str],
    partitions: int | None,
    replicas: int | None,
    settings: Sequence[str],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics."""
    configs: Mapping[str, str | None] = dict(parse_settings(settings))
    wanted = [NewTopic(name, partitions, replicas, configs=configs) for name in dict.fromkeys(names)]
    async with invocation.admin() as admin:
        results = await admin.create_topics(wanted, validate_only=dry_run)
    ignored = {ErrorCode.TOPIC_ALREADY_EXISTS} if if_not_exists else set()
    created = invocation.succeeded(results, "topic", ignored=ignored).values()
    done = [ChangedTopic(each.name, each.num_partitions, each.replication_factor) for each in created]
    what = "Could create" if dry_run else "Created"
    invocation.printer.each(
        done,
        lambda topic: (
            f"{what} topic {topic.name} with {format_count(topic.partitions or 0, 'partition')}, "
            f"{format_count(topic.replication_factor or 0, 'replica')}"
        ),
    )


@topics.command("describe", cls=ClusterCommand, shape=list_of(DescribedTopic))
@click.argument("names", nargs=-1, required=True, shell_complete=complete_topic)
async def describe(invocation: Invocation, names: Sequence[str]) -> None:
    """Show topics: their configs, and the leader and replicas of each partition."""
    async with invocation.admin() as admin:
        found = invocation.succeeded(await admin.describe_topics(names), "topic")
        configs = await _configs_set(admin, found)
    described = [_described(topic, configs.get(name, {})) for name, topic in found.items()]
    if invocation.printer.is_json:
        invocation.printer.json(described)
        return
    for topic in described:
        settings = " ".join(f"{key}={value}" for key, value in topic.configs.items()) or "none"
        invocation.printer.say(
            f"Topic {topic.name}, id {topic.topic_id}, {format_count(len(topic.partitions), 'partition')}"
        )
        invocation.printer.say(f"Configs: {settings}")
        invocation.printer.table(topic.partitions, PARTITION_COLUMNS)


@topics.command("alter", cls=ClusterCommand, shape=list_of(ChangedTopic))
@click.argument("names", nargs=-1, required=True, shell_complete=complete_topic)
@click.option("-p", "--partitions", type=Integer(1, INT32_MAX), required=True, metavar="N", help="How many in all.")
@click.option("--dry-run", is_flag=True, help="Only validate the change; do not apply it.")
async def alter(invocation: Invocation, names: Sequence[str], partitions: int, dry_run: bool) -> None:
    """Add partitions to topics.

    `kraft configs set topic NAME` alters their configs, `kraft reassign` moves their replicas.
    """
    async with invocation.admin() as admin:
        results = await admin.create_partitions(dict.fromkeys(names, partitions), validate_only=dry_run)
    done = [ChangedTopic(name, partitions) for name in invocation.succeeded(results, "topic")]
    what = "could have" if dry_run else "has"
    invocation.printer.each(
        done, lambda topic: f"Topic {topic.name} {what} {format_count(topic.partitions or 0, 'partition')}."
    )


@topics.command("delete", cls=ClusterCommand, shape=list_of(ChangedTopic))
@click.argument("names", nargs=-1, required=True, shell_complete=complete_topic)
@click.option("--if-exists", is_flag=True, help="Succeed if the topic does not exist.")
async def delete(invocation: Invocation, names: Sequence[str], if_exists: bool) -> None:
    """Delete topics and all their records."""
    async with invocation.admin() as admin:
        results = await admin.delete_topics(names)
    ignored = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if if_exists else set()
    done = [ChangedTopic(name) for name in invocation.succeeded(results, "topic", ignored=ignored)]
    invocation.printer.each(done, lambda topic: f"Deleted topic {topic.name}.")


@topics.command("offsets", cls=ClusterCommand, shape=list_of(OffsetRow))
@click.argument("chosen", nargs=-1, required=True, type=TOPIC_PARTITIONS, metavar="TOPIC[:PARTITION,...]...")
@click.option("--at", "times", multiple=True, metavar="TIME", help="Also the first offset since a time, as -2h.")
async def offsets(invocation: Invocation, chosen: Sequence[TopicPartitions], times: Sequence[str]) -> None:
    """Show where partitions begin and end, and how many offsets lie between."""
    now_ms = int(real_env(lambda kind, /, **fields: None).wall() * 1000)
    moments = [parse_time(text, now_ms) for text in times]
    async with invocation.admin() as admin:
        partitions = await find_partitions(admin, chosen)
        specs = (OffsetSpec.EARLIEST, OffsetSpec.LATEST, *moments)
        found, errors = await find_offsets(admin, partitions, specs)
    for each, error in errors.items():
        invocation.fail(error, f"partition {shown_item(each)}")
    rows = []
    for each in found[0]:
        begin, end, *at = (None if (offset := of[each]) is None else offset.offset for of in found)
        if begin is not None and end is not None:
            rows.append(OffsetRow(each.topic, each.partition, begin, end, end - begin, at))
    columns = [*OFFSET_COLUMNS, *(_time_column(index, text) for index, text in enumerate(times))]
    invocation.printer.rows(rows, columns)


@topics.command("trim", cls=ClusterCommand, shape=list_of(TrimmedPartition))
@click.argument("chosen", nargs=-1, required=True, type=TOPIC_PARTITIONS, metavar="TOPIC[:PARTITION,...]...")
@click.option("--all", "trims_all", is_flag=True, help="Delete all records.")
@click.option("--before-offset", type=Integer(0), metavar="OFFSET", help="Delete those before an offset.")
@click.option("--before-time", metavar="TIME", help="Delete those before a time: 2026-01-31T08:00, or -7d.")
async def trim(
    invocation: Invocation,
    chosen: Sequence[TopicPartitions],
    trims_all: bool,
    before_offset: int | None,
    before_time: str | None,
) -> None:
    """Delete records from the beginnings of partitions."""
    if trims_all + (before_offset is not None) + (before_time is not None) != 1:
        raise click.UsageError("Give one of --all, --before-offset and --before-time.", click.get_current_context())
    now_ms = int(real_env(lambda kind, /, **fields: None).wall() * 1000)
    moment = None if before_time is None else parse_time(before_time, now_ms)
    async with invocation.admin() as admin:
        wanted: dict[TopicPartition, int] = dict.fromkeys(await find_partitions(admin, chosen), HIGH_WATERMARK)
        if before_offset is not None:
            wanted = dict.fromkeys(wanted, before_offset)
        elif moment is not None:
            found = (await admin.list_offsets(dict.fromkeys(wanted, moment))).raise_first()
            wanted = {each: HIGH_WATERMARK if (at := found[each]) is None else at.offset for each in wanted}
        trimmed = invocation.succeeded(await admin.delete_records(wanted), "partition")
    rows = [TrimmedPartition(each.topic, each.partition, trimmed[each]) for each in sorted(trimmed)]
    invocation.printer.each(rows, lambda row: f"{row.topic}-{row.partition} begins at offset {row.begin} now.")


async def _configs_set(admin: Admin, names: Iterable[str]) -> dict[str, dict[str, str | None]]:
    """The configs that are set for topics, by topic; those of a topic that cannot be described are left out."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    described = (await admin.describe_configs(resources)).succeeded if resources else {}
    return {
        resource.name: {entry.name: entry.value for entry in entries.values() if entry.source == ConfigSource.TOPIC}
        for resource, entries in described.items()
    }


def summarize(topic: TopicDescription) -> TopicRow:
    """A topic's row in a list."""
    return TopicRow(
        topic.name,
        encode_uuid(topic.topic_id),
        topic.is_internal,
        len(topic.partitions),
        min((len(each.replicas) for each in topic.partitions), default=0),
        sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
        sum(each.leader is None for each in topic.partitions),
    )


def _described(topic: TopicDescription, configs: dict[str, str | None]) -> DescribedTopic:
    partitions = [
        PartitionRow(
            each.partition,
            each.leader,
            each.leader_epoch,
            list(each.replicas),
            list(each.isr),
            list(each.eligible_leader_replicas or ()),
            list(each.offline_replicas),
        )
        for each in topic.partitions
    ]
    return DescribedTopic(topic.name, encode_uuid(topic.topic_id), topic.is_internal, partitions, configs)


def _leader_style(row: PartitionRow) -> str:
    """Return the style of the leader's cell: partitions without a leader or without the preferred leader stand out."""
    if row.leader is None:
        return "bold red"
    return "yellow" if row.leader != row.replicas[0] else ""


def _time_column(index: int, text: str) -> Column[OffsetRow]:
    return Column(text, lambda row: "-" if row.at[index] is None else row.at[index], is_number=True)
