"""`kraft reassign`: move replicas of partitions to other brokers."""

from collections.abc import Sequence

import attrs
import click
import trio

from broker.cli.commands.reassignment_plans import encode_plan, make_plan, read_plan
from broker.cli.grammar import ClusterCommand, CommandFailed, CommandGroup, Invocation
from broker.cli.grammar.arguments import INT16_MAX, TOPIC_PARTITIONS, Integer, TopicPartitions
from broker.cli.grammar.completion import complete_topic
from broker.cli.grammar.partitions import find_partitions
from broker.cli.grammar.units import is_digits
from broker.cli.output import Column, list_of
from broker.cli.output.progress import Progress
from broker.client.admin import Admin
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode

_LOOK_S = 0.5


@attrs.frozen
class PlannedPartition:
    """A partition that is to move, and its new replicas, the preferred leader first."""

    topic: str
    partition: int
    replicas: list[int]


@attrs.frozen
class MovingPartition:
    """A reassignment that is under way. `replicas` are all, with those that are added and removed."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


MOVING_COLUMNS: Sequence[Column[MovingPartition]] = (
    Column("topic", lambda row: row.topic),
    Column("partition", lambda row: row.partition, is_number=True),
    Column("replicas", lambda row: _ids(row.replicas)),
    Column("adding", lambda row: _ids(row.adding)),
    Column("removing", lambda row: _ids(row.removing)),
)


@click.group("reassign", cls=CommandGroup)
def reassign() -> None:
    """Move replicas of partitions to other brokers.

    `plan` prints a plan, `execute` begins it, `status` shows what is under way, `cancel` takes it back.
    """


@reassign.command("plan", cls=ClusterCommand, shape=list_of(PlannedPartition))
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topic)
@click.option(
    "--brokers", metavar="ID,...", help="The brokers to spread the topics over; by default all that are alive."
)
@click.option("-r", "--replicas", type=Integer(1, INT16_MAX), metavar="N", help="Also change the number of replicas.")
async def plan(invocation: Invocation, topics: Sequence[str], brokers: str | None, replicas: int | None) -> None:
    """Print a plan that spreads topics over brokers; nothing is moved.

    The plan is in the form of Kafka's tool: `kraft reassign plan orders > plan.json`.
    """
    async with invocation.admin() as admin:
        described = (await admin.describe_topics(topics)).raise_first()
        alive = sorted(node.id for node in (await admin.describe_cluster()).nodes)
    chosen = alive if brokers is None else _broker_ids(brokers, alive)
    made = make_plan(list(described.values()), chosen, replicas)
    if invocation.printer.is_json:
        invocation.printer.json([PlannedPartition(each.topic, each.partition, made[each]) for each in made])
    elif made:
        invocation.printer.say(encode_plan(made))
    else:
        invocation.printer.note("kraft: nothing has to move.")


@reassign.command("execute", cls=ClusterCommand, shape=list_of(PlannedPartition))
@click.argument("path", metavar="PLAN", type=click.Path())
@click.option("--wait", is_flag=True, help="Wait until the replicas have moved.")
async def execute(invocation: Invocation, path: str, wait: bool) -> None:
    """Begin to move replicas as PLAN says, a file in the form of Kafka's tool."""
    wanted = read_plan(path)
    async with invocation.admin() as admin:
        begun = list(invocation.succeeded(await admin.alter_partition_reassignments(wanted), "partition"))
        if wait:
            await _wait(admin, begun)
    rows = [PlannedPartition(each.topic, each.partition, wanted[each]) for each in begun]
    verb = "Moved" if wait else "Moving"
    invocation.printer.each(rows, lambda row: f"{verb} {row.topic}-{row.partition} to {_ids(row.replicas)}.")


@reassign.command("status", cls=ClusterCommand, shape=list_of(MovingPartition))
@click.option("--wait", is_flag=True, help="Wait until no reassignment is in progress.")
async def status(invocation: Invocation, wait: bool) -> None:
    """Show the reassignments that are under way."""
    async with invocation.admin() as admin:
        if wait:
            await _wait(admin, list(await admin.list_partition_reassignments()))
        moving = await admin.list_partition_reassignments()
    rows = [
        MovingPartition(
            partition.topic,
            partition.partition,
            list(each.replicas),
            list(each.adding_replicas),
            list(each.removing_replicas),
        )
        for partition, each in sorted(moving.items())
    ]
    invocation.printer.rows(rows, MOVING_COLUMNS, empty="Nothing is being reassigned.")


@reassign.command("cancel", cls=ClusterCommand, shape=list_of(PlannedPartition))
@click.argument("topics", nargs=-1, type=TOPIC_PARTITIONS, metavar="[TOPIC[:PARTITION,...]]...")
async def cancel(invocation: Invocation, topics: Sequence[TopicPartitions]) -> None:
    """Take back reassignments that are under way; without TOPIC all."""
    async with invocation.admin() as admin:
        moving = await admin.list_partition_reassignments()
        named = await find_partitions(admin, topics) if topics else None
        chosen = [partition for partition in moving if named is None or partition in named]
        results = await admin.alter_partition_reassignments(dict.fromkeys(chosen))
    ended = {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    rows = [
        PlannedPartition(
            each.topic,
            each.partition,
            [replica for replica in moving[each].replicas if replica not in moving[each].adding_replicas],
        )
        for each in sorted(invocation.succeeded(results, "partition", ignored=ended))
    ]
    invocation.printer.each(rows, lambda row: f"{row.topic}-{row.partition} stays on {_ids(row.replicas)}.")
    if not rows and not invocation.exit_code:
        invocation.printer.say("Nothing is being reassigned.")


async def _wait(admin: Admin, partitions: Sequence[TopicPartition]) -> None:
    """Wait until none of the partitions is being reassigned."""
    with Progress("Moving", len(partitions), "partitions") as progress:
        while partitions and (left := await admin.list_partition_reassignments(partitions)):
            progress.show(len(partitions) - len(left))
            await trio.sleep(_LOOK_S)
        progress.show(len(partitions))


def _broker_ids(text: str, alive: Sequence[int]) -> list[int]:
    """Parses the ids of --brokers, which have to be alive. Raises UsageError, CommandFailed."""
    parts = [part.strip() for part in text.split(",")]
    if not all(map(is_digits, parts)):
        raise click.UsageError(f"--brokers {text}: write ids, as in 1,2,3.", click.get_current_context())
    ids = list(dict.fromkeys(map(int, parts)))
    if missing := [broker for broker in ids if broker not in alive]:
        raise CommandFailed(f"Broker {missing[0]} is not alive; the brokers that are: {_ids(alive)}")
    return ids


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "-"
