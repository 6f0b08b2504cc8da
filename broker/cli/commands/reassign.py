"""`kraft reassign`: move replicas of partitions to other brokers."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs
import click
import trio

from broker.cli.commands.maintenance import resumable, throttle_option
from broker.cli.commands.move_progress import Copy, MoveProgress
from broker.cli.commands.partition_health import brokers_named, holders_of, why_stuck
from broker.cli.commands.placement import note_each, partition_sizes
from broker.cli.commands.reassignment_plans import Plan, encode_plan, preview, read_plan
from broker.cli.commands.replica_spread import TooFewBrokers, spread
from broker.cli.grammar import ClusterCommand, CommandFailed, CommandGroup, Exit, Invocation
from broker.cli.grammar.arguments import IDS, INT16_MAX, TOPIC_PARTITIONS, Integer, TopicPartitions
from broker.cli.grammar.command import shown_item
from broker.cli.grammar.completion import complete_topic
from broker.cli.grammar.partitions import find_partitions
from broker.cli.grammar.units import format_ids
from broker.cli.move_throttles import Move, limit_moves, moves_of, release_moves
from broker.cli.output import Column, list_of
from broker.client.admin import Admin, TopicDescription
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode

_LOOK_S: Final = 0.5
# A broker has learned of a change of the metadata after this time.
_LATE_S: Final = 5.0
MOVED: Final = "moved"
_MOVING: Final = "moving"
_NOT_MOVING: Final = "not moving"
# Partitions that are named because they cannot move; more are counted.
_NAMED_MAX: Final = 5


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


@attrs.frozen
class VerifiedPartition:
    """A partition of a plan. `state` is `moved`, `moving`, or `not moving` if it has other replicas than `wanted`."""

    topic: str
    partition: int
    state: str
    wanted: list[int]
    replicas: list[int]


MOVING_COLUMNS: Sequence[Column[MovingPartition]] = (
    Column("topic", lambda row: row.topic),
    Column("partition", lambda row: row.partition, is_number=True),
    Column("replicas", lambda row: format_ids(row.replicas)),
    Column("adding", lambda row: format_ids(row.adding)),
    Column("removing", lambda row: format_ids(row.removing)),
)
VERIFIED_COLUMNS: Sequence[Column[VerifiedPartition]] = (
    Column("topic", lambda row: row.topic),
    Column("partition", lambda row: row.partition, is_number=True),
    Column("state", lambda row: row.state, style=lambda row: "green" if row.state == MOVED else "yellow"),
    Column("wanted", lambda row: format_ids(row.wanted)),
    Column("replicas", lambda row: format_ids(row.replicas)),
)


@click.group("reassign", cls=CommandGroup)
def reassign() -> None:
    """Move replicas of partitions to other brokers.

    `plan` prints a plan, `execute` begins it, `status` shows what is under way, `verify` what of a plan has moved, and
    `cancel` takes moves back.
    """


@reassign.command("plan", cls=ClusterCommand, shape=list_of(PlannedPartition))
@click.argument("topics", nargs=-1, shell_complete=complete_topic)
@click.option(
    "--brokers",
    type=IDS,
    metavar="ID,...",
    help="The brokers to spread the topics over; by default all that are alive.",
)
@click.option("-r", "--replicas", type=Integer(1, INT16_MAX), metavar="N", help="Also change the number of replicas.")
async def plan(invocation: Invocation, topics: Sequence[str], brokers: list[int] | None, replicas: int | None) -> None:
    """Print a plan that spreads topics over brokers, without TOPICS all; nothing is moved.

    Each partition gets replicas in as many racks as possible, each broker about as many replicas, bytes and preferred
    leaders as the others, with as few moves as that takes. A partition that is moving counts where it moves to. The
    plan is in the form of Kafka's tool: `kraft reassign plan orders > plan.json`. A preview of its moves is printed on
    standard error.
    """
    async with invocation.admin() as admin:
        names = list(topics) or [topic.name for topic in await admin.list_topics(include_internal=True)]
        described = (await admin.describe_topics(names)).raise_first()
        moving = await admin.list_partition_reassignments()
        racks = {node.id: node.rack for node in sorted((await admin.describe_cluster()).nodes)}
        sizes = partition_sizes((await admin.describe_log_dirs(list(racks))).succeeded.values())
    chosen = list(racks) if brokers is None else _alive(brokers, list(racks))
    placed = {broker: racks[broker] for broker in chosen}
    current = {
        (place := TopicPartition(topic.name, each.partition)): (
            moving[place].target_replicas if place in moving else each.replicas
        )
        for topic in described.values()
        for each in topic.partitions
    }
    try:
        after = spread(current, placed, sizes, replicas)
    except TooFewBrokers as error:
        fewer = f"lower the number of replicas with -r {error.brokers}"
        raise CommandFailed(f"{error}: start another broker, or {fewer}") from error
    made = {each: after[each] for each in after if after[each] != list(current[each])}
    if invocation.printer.is_json:
        invocation.printer.json([PlannedPartition(each.topic, each.partition, made[each]) for each in made])
    elif made:
        invocation.printer.say(encode_plan(made))
    waiting = list(_without_source(made, described.values(), list(racks)))
    for line in [*preview(current, after, placed, sizes), *_first(waiting)]:
        invocation.printer.note(f"kraft: {line}")


@reassign.command("execute", cls=ClusterCommand, shape=list_of(PlannedPartition))
@click.argument("path", metavar="PLAN", type=click.Path())
@click.option("--wait", is_flag=True, help="Wait until the replicas have moved, and remove the throttle.")
@throttle_option
async def execute(invocation: Invocation, path: str, wait: bool, throttle: int | None) -> None:
    """Begin to move replicas as PLAN says, a file in the form of Kafka's tool.

    Typed again with another --throttle, it changes the rate of moves that are under way. Without --wait, `kraft
    reassign verify` removes the throttle.
    """
    wanted = read_plan(path)
    async with invocation.admin() as admin:
        moves = {} if throttle is None else await _limit(invocation, admin, wanted, throttle)
        results = await admin.alter_partition_reassignments(wanted)
        begun = list(invocation.succeeded(results, "partition"))
        if moves:
            moving = await admin.list_partition_reassignments(results.failed) if results.failed else {}
            await _release(invocation, admin, [each for each in results.failed if each not in moving])
        stuck = _StuckReassignments(admin, invocation)
        await stuck.report(begun)
        go_on = f"`kraft reassign verify {path} --wait` waits for them, and removes their throttle"
        if wait:
            with resumable(invocation, f"The moves go on; {go_on}."):
                await _wait(invocation, admin, begun, stuck)
                await _release(invocation, admin, dict.fromkeys(begun), moves)
                changed = await _changed(admin, {each: wanted[each] for each in begun})
            for each, reason in changed.items():
                begun.remove(each)
                invocation.fail(CommandFailed(reason), f"partition {shown_item(each)}")
        elif throttle is not None:
            invocation.printer.note(f"kraft: the moves are throttled; {go_on}.")
    rows = [PlannedPartition(each.topic, each.partition, wanted[each]) for each in begun]
    verb = "Moved" if wait else "Moving"
    invocation.printer.each(rows, lambda row: f"{verb} {row.topic}-{row.partition} to {format_ids(row.replicas)}.")


@reassign.command("verify", cls=ClusterCommand, shape=list_of(VerifiedPartition))
@click.argument("path", metavar="PLAN", type=click.Path())
@click.option("--wait", is_flag=True, help="Wait until the replicas have moved.")
async def verify(invocation: Invocation, path: str, wait: bool) -> None:
    """Show which partitions of PLAN have moved, and remove the throttles of those that do not move any more.

    Throttles of other partitions stay. Exit code 1 unless all have moved.
    """
    wanted = read_plan(path)
    async with invocation.admin() as admin:
        if wait:
            with resumable(invocation, "The moves go on; type the command again."):
                await _wait(invocation, admin, list(wanted), _StuckReassignments(admin, invocation))
                await _await_replicas(admin, wanted)
        moving = await admin.list_partition_reassignments(wanted)
        placed = await _placed(admin, wanted)
        rows = [_verified(each, to, each in moving, placed.get(each)) for each, to in wanted.items()]
        await _release(invocation, admin, [each for each in wanted if each not in moving])
    if any(row.state != MOVED for row in rows):
        invocation.exit_code = invocation.exit_code or Exit.FAILED
    invocation.printer.rows(rows, VERIFIED_COLUMNS)


@reassign.command("status", cls=ClusterCommand, shape=list_of(MovingPartition))
@click.option("--wait", is_flag=True, help="Wait until no reassignment is in progress.")
async def status(invocation: Invocation, wait: bool) -> None:
    """Show the reassignments that are under way."""
    async with invocation.admin() as admin:
        if wait:
            stuck = _StuckReassignments(admin, invocation)
            await _wait(invocation, admin, list(await admin.list_partition_reassignments()), stuck)
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
    """Take back reassignments that are under way, and their throttles; without TOPIC all."""
    async with invocation.admin() as admin:
        moving = await admin.list_partition_reassignments()
        named = await find_partitions(admin, topics) if topics else None
        chosen = [partition for partition in moving if named is None or partition in named]
        results = await admin.alter_partition_reassignments(dict.fromkeys(chosen))
        ended = {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
        taken_back = invocation.succeeded(results, "partition", ignored=ended)
        await _release(invocation, admin, taken_back)
    rows = [
        PlannedPartition(
            each.topic,
            each.partition,
            [replica for replica in moving[each].replicas if replica not in moving[each].adding_replicas],
        )
        for each in sorted(taken_back)
    ]
    invocation.printer.each(rows, lambda row: f"{row.topic}-{row.partition} stays on {format_ids(row.replicas)}.")
    if not rows and not invocation.exit_code:
        invocation.printer.say("Nothing is being reassigned.")


def _without_source(made: Plan, topics: Iterable[TopicDescription], alive: Sequence[int]) -> Iterator[str]:
    """The partitions of a plan that no live broker can be copied from."""
    for topic in topics:
        for each in topic.partitions:
            if each.leader is None and TopicPartition(topic.name, each.partition) in made:
                down = [broker for broker in holders_of(each) if broker not in alive]
                yield (
                    f"{topic.name}-{each.partition} has no live replica to copy from: its records are only on "
                    f"{brokers_named(down)}, and the move waits for that; start it again, or leave the partition out "
                    "of the plan."
                )


def _first(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _NAMED_MAX
    return [*lines[:_NAMED_MAX], *([f"{more} more partitions have no live replica."] if more > 0 else [])]


class _StuckReassignments:
    """Names the reassignments that cannot end by themselves, each once."""

    def __init__(self, admin: Admin, invocation: Invocation) -> None:
        self._admin = admin
        self._printer = invocation.printer
        self._told: dict[TopicPartition, None] = {}

    async def report(self, partitions: Sequence[TopicPartition]) -> None:
        """Print a line for those of the partitions that are stuck and were not named before."""
        if not partitions:
            return
        moving = await self._admin.list_partition_reassignments(partitions)
        described = await self._admin.describe_topics(dict.fromkeys(each.topic for each in moving))
        found = {
            TopicPartition(topic.name, each.partition): each
            for topic in described.succeeded.values()
            for each in topic.partitions
        }
        alive = [node.id for node in (await self._admin.describe_cluster()).nodes]
        for each in sorted(moving):
            reason = why_stuck(each, found.get(each), moving[each], alive)
            if reason is not None and each not in self._told and len(self._told) < _NAMED_MAX:
                self._told[each] = None
                self._printer.note(f"kraft: {reason}")


async def _wait(
    invocation: Invocation, admin: Admin, partitions: Sequence[TopicPartition], stuck: _StuckReassignments
) -> None:
    """Wait until none of the partitions is being reassigned."""
    with MoveProgress(invocation, admin, len(partitions)) as progress:
        while partitions and (left := await admin.list_partition_reassignments(partitions)):
            copies = [Copy(each, broker) for each, found in left.items() for broker in found.adding_replicas]
            replicas = {each: found.replicas for each, found in left.items()}
            await progress.show(len(partitions) - len(left), replicas, copies)
            await stuck.report(list(left))
            await trio.sleep(_LOOK_S)


async def _placed(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[int]]:
    """The replicas of the partitions that exist."""
    described = await admin.describe_topics(dict.fromkeys(each.topic for each in partitions))
    return {
        TopicPartition(topic.name, each.partition): list(each.replicas)
        for topic in described.succeeded.values()
        for each in topic.partitions
    }


async def _await_replicas(admin: Admin, wanted: Plan) -> None:
    """Give brokers the time to learn of the end of moves, which the controllers know first."""
    with trio.move_on_after(_LATE_S):
        while True:
            placed = await _placed(admin, wanted)
            if all(placed.get(each) == to for each, to in wanted.items()):
                return
            await trio.sleep(_LOOK_S)


def _verified(
    partition: TopicPartition, wanted: list[int], is_moving: bool, replicas: list[int] | None
) -> VerifiedPartition:
    state = _MOVING if is_moving else MOVED if replicas == wanted else _NOT_MOVING
    return VerifiedPartition(partition.topic, partition.partition, state, wanted, replicas or [])


async def _limit(invocation: Invocation, admin: Admin, wanted: Plan, rate: int) -> dict[TopicPartition, Move]:
    """Limit the moves of a plan to a rate, and return them. Partitions that do not exist are left out."""
    current = await _placed(admin, wanted)
    moving = await admin.list_partition_reassignments(wanted)
    moves = moves_of(current, {each: to for each, to in wanted.items() if each in current}, moving)
    note_each(invocation, await limit_moves(admin, moves, rate))
    return moves


async def _release(
    invocation: Invocation,
    admin: Admin,
    partitions: Collection[TopicPartition],
    moves: Mapping[TopicPartition, Move] | None = None,
) -> None:
    if partitions:
        note_each(invocation, await release_moves(admin, partitions, moves))


async def _changed(admin: Admin, wanted: Plan) -> dict[TopicPartition, str]:
    """Why partitions whose moves have ended do not have the wanted replicas: something else has changed them."""
    if not wanted:
        return {}
    await _await_replicas(admin, wanted)
    placed = await _placed(admin, wanted)
    return {each: _other_replicas(placed.get(each)) for each, to in wanted.items() if placed.get(each) != to}


def _other_replicas(replicas: Sequence[int] | None) -> str:
    if replicas is None:
        return "it was deleted meanwhile"
    return f"it is on {format_ids(replicas)}: its move was cancelled, or it is moved by something else"


def _alive(ids: Sequence[int], alive: Sequence[int]) -> Sequence[int]:
    """The ids, which have to be alive. Raises CommandFailed."""
    if missing := [broker for broker in ids if broker not in alive]:
        raise CommandFailed(f"Broker {missing[0]} is not alive; the brokers that are: {format_ids(alive)}")
    return ids
