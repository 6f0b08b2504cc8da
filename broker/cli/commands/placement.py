"""Where the replicas of a cluster are, and bounded moves of them, which a later command can take up.

A command keeps no state of its own: the cluster has the reassignments that are under way, and the replicas.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs
import trio

from broker.cli.commands.move_progress import Copy, MoveProgress
from broker.cli.grammar import CommandFailed, Invocation
from broker.cli.grammar.command import shown_item
from broker.cli.grammar.units import format_count, format_ids
from broker.cli.move_throttles import Move, ThrottledReplicas, limit_moves, moves_of, release_moves
from broker.client.admin import Admin, ClusterDescription, ElectionType, LogDir, PartitionReassignment
from broker.client.errors import ClientError, TimedOut, UnsupportedByBroker
from broker.client.types import Node, TopicPartition
from broker.wire.errors import ErrorCode, KafkaError

# Reassignments that are under way at one time. Those that a command has begun go on when it is ended.
_MOVING_MAX: Final = 50
# The least time between two looks at the cluster. A look at a large one takes its time, and the pause as long.
_LOOK_S: Final = 0.25
# A broker that is down for longer than this does not just restart.
_GONE_S: Final = 30.0
# A broker has learned of a change of the metadata after this time.
_LATE_S: Final = 10.0
# How long reassignments may show no progress before that is said.
_STALL_S: Final = 60.0
# Errors that end by themselves: the controllers elect a leader, or a topic was deleted meanwhile.
_PASSING: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }
)
# A broker was cordoned or unregistered after the plan was made, or the plan is that of a broker that lagged.
_OUTDATED: Final = (ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICATION_FACTOR)


@attrs.frozen
class PlacedPartition:
    """A partition. `target` are its replicas once the reassignment that is under way has ended, if there is one."""

    replicas: tuple[int, ...]
    target: tuple[int, ...]
    adding: tuple[int, ...]
    leader: int | None
    isr: tuple[int, ...]

    @property
    def sources(self) -> tuple[int, ...]:
        """The replicas that are complete, or were before the reassignment began."""
        return tuple(each for each in self.replicas if each not in self.adding)


@attrs.frozen
class Placement:
    """The replicas of a cluster, and its brokers by id. `down` are brokers that are registered, and not alive."""

    partitions: Mapping[TopicPartition, PlacedPartition]
    brokers: Mapping[int, Node]
    down: frozenset[int]

    @property
    def alive(self) -> list[int]:
        return [broker for broker in self.brokers if broker not in self.down]

    @property
    def targets(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {partition: each.target for partition, each in self.partitions.items()}

    def on(self, broker_id: int) -> list[TopicPartition]:
        """The partitions with a replica on a broker, also one that a reassignment adds or removes."""
        return [partition for partition, each in self.partitions.items() if broker_id in each.replicas]

    def has(self, partition: TopicPartition, replicas: Sequence[int]) -> bool:
        """True if the partition has just these replicas, or is gone."""
        placed = self.partitions.get(partition)
        return placed is None or placed.replicas == tuple(replicas)

    def lacking(self, partition: TopicPartition, replicas: Sequence[int]) -> list[int]:
        """Those of the brokers that have no complete replica yet."""
        placed = self.partitions.get(partition)
        return [] if placed is None else [broker for broker in replicas if broker not in placed.sources]

    @property
    def at_rest(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The replicas of the partitions that do not move."""
        return {name: each.replicas for name, each in self.partitions.items() if each.replicas == each.target}

    def is_moving(self, partition: TopicPartition) -> bool:
        placed = self.partitions.get(partition)
        return placed is not None and placed.replicas != placed.target

    def led_by(self, broker_id: int) -> list[TopicPartition]:
        return [partition for partition, each in self.partitions.items() if each.leader == broker_id]


async def find_placement(admin: Admin) -> Placement:
    """Raises ClientError, KafkaError."""
    cluster = await describe_brokers(admin)
    names = [topic.name for topic in await admin.list_topics(include_internal=True)]
    topics = (await admin.describe_topics(names)).succeeded if names else {}
    moving = await admin.list_partition_reassignments()
    partitions = {}
    for topic in sorted(topics.values(), key=lambda topic: topic.name):
        for each in topic.partitions:
            key = TopicPartition(topic.name, each.partition)
            partitions[key] = _placed(each.replicas, each.leader, each.isr, moving.get(key))
    return Placement(partitions, {node.id: node for node in sorted(cluster.nodes)}, cluster.fenced)


async def describe_brokers(admin: Admin) -> ClusterDescription:
    """Describe the cluster, with the brokers that are down if the brokers report them (KIP-1073)."""
    try:
        return await admin.describe_cluster(include_fenced_brokers=True)
    except UnsupportedByBroker:
        return await admin.describe_cluster()


def partition_sizes(brokers: Iterable[Mapping[str, LogDir]]) -> dict[TopicPartition, int]:
    """The size of each partition: that of its largest replica."""
    sizes: dict[TopicPartition, int] = {}
    for directories in brokers:
        for directory in directories.values():
            for partition, replica in directory.replicas.items():
                sizes[partition] = max(sizes.get(partition, 0), replica.size_bytes)
    return sizes


def cordoned_brokers(log_dirs: Mapping[int, Mapping[str, LogDir]]) -> frozenset[int]:
    """The brokers that get no new replicas, because all their log directories are cordoned (KIP-1066)."""
    return frozenset(
        broker
        for broker, directories in log_dirs.items()
        if directories and all(directory.is_cordoned for directory in directories.values())
    )


async def pause(seconds_of_look: float) -> None:
    """Wait between two looks at the cluster."""
    await trio.sleep(max(_LOOK_S, seconds_of_look))


class PlanOutdated(CommandFailed):
    """A plan cannot be carried out: a broker is gone, or something else moves the same partitions."""


class _GoneBrokers:
    """Tells brokers that are gone from those that only restart."""

    def __init__(self) -> None:
        self._down_since: dict[int, float] = {}
        self._leaderless_since: dict[TopicPartition, float] = {}

    def look(self, placement: Placement, left: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Raises PlanOutdated if a broker that is to get a replica is down for long, or is not registered."""
        now = trio.current_time()
        added = {broker: each for each in left for broker in placement.partitions[each].adding}
        down = {broker: each for broker, each in added.items() if broker not in placement.alive}
        self._down_since = {broker: self._down_since.get(broker, now) for broker in down}
        for broker, partition in down.items():
            if now - self._down_since[broker] >= _GONE_S:
                raise PlanOutdated(
                    f"Broker {broker}, to which {shown_item(partition)} moves, is down for {_GONE_S:.0f} s. Start it "
                    "again, or take the moves back with `kraft reassign cancel`; then type the command again."
                )
        leaderless = [each for each in left if placement.partitions[each].leader is None]
        self._leaderless_since = {each: self._leaderless_since.get(each, now) for each in leaderless}
        for partition, since in self._leaderless_since.items():
            if now - since >= _GONE_S:
                raise PlanOutdated(no_leader([partition], placement))


class _Contradiction:
    """Notices that a partition that was to move is moved elsewhere."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, float] = {}

    def look(self, placement: Placement, left: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Raises PlanOutdated."""
        now = trio.current_time()
        other = [each for each in left if placement.partitions[each].target != tuple(left[each])]
        self._since = {each: self._since.get(each, now) for each in other}
        for each in other:
            # The broker that is asked for the replicas learns of a change later than the controllers.
            if now - self._since[each] >= _LATE_S:
                raise PlanOutdated(
                    f"{shown_item(each)} is moved by something else: its replicas are to be "
                    f"{format_ids(placement.partitions[each].target)}, and not {format_ids(left[each])}. Type the "
                    "command again once that has ended."
                )


class _Stall:
    """Says once when moves do not progress, and which brokers they wait for."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._state: object = None
        self._since = trio.current_time()
        self._is_told = False

    def look(self, placement: Placement, left: Mapping[TopicPartition, Sequence[int]]) -> None:
        state = {each: placement.partitions[each] for each in left}
        if state != self._state:
            self._state, self._since, self._is_told = state, trio.current_time(), False
        elif state and not self._is_told and trio.current_time() - self._since >= _STALL_S:
            self._is_told = True
            lacking = {broker for each in state.values() for broker in each.target if broker not in each.isr}
            down = sorted(lacking.difference(placement.alive))
            advice = f"; start it again, or `kraft cluster drain {down[0]}`" if down else ""
            shown = ", ".join(f"broker {broker}" for broker in sorted(lacking)) or "the controllers"
            self._invocation.printer.note(
                f"kraft: no progress for {_STALL_S:.0f} s: {format_count(len(state), 'partition')} such as "
                f"{shown_item(next(iter(state)))} wait for {shown}{advice}. They go on by themselves after Ctrl-C, too"
            )


async def _begin(
    admin: Admin, placement: Placement, wanted: Mapping[TopicPartition, Sequence[int]], under_way: int
) -> Mapping[TopicPartition, Sequence[int]]:
    """Begin as many moves as the bound allows. Returns those that were begun. Raises KafkaError, ClientError."""
    portion = dict(list(wanted.items())[: max(0, _MOVING_MAX - under_way)])
    if not portion:
        return {}
    failed = await _alter(admin, placement, portion)
    for partition, error in failed.items():
        if isinstance(error, KafkaError) and error.code in _OUTDATED:
            raise PlanOutdated(f"{shown_item(partition)} cannot move to {format_ids(portion[partition])}: {error}")
    _raise_unless_passing(failed)
    return {partition: to for partition, to in portion.items() if partition not in failed}


async def _alter(
    admin: Admin, placement: Placement, moves: Mapping[TopicPartition, Sequence[int]]
) -> dict[TopicPartition, KafkaError | ClientError]:
    """Begin moves, none of which changes the number of replicas. Returns those that failed.

    Plans are made by what one broker knows. If it lags behind the controllers, a partition whose move has ended seems
    to have the replicas before and after it. So the controllers check the number (KIP-860; earlier releases cannot),
    unless they have just named the move that this one replaces.
    """
    moving = {each: to for each, to in moves.items() if placement.is_moving(each)}
    others = {each: to for each, to in moves.items() if each not in moving}
    failed: dict[TopicPartition, KafkaError | ClientError] = {}
    if moving:
        failed |= (await admin.alter_partition_reassignments(moving)).failed
    if others:
        try:
            results = await admin.alter_partition_reassignments(others, allow_replication_factor_change=False)
        except UnsupportedByBroker:
            results = await admin.alter_partition_reassignments(others)
        failed |= results.failed
    return failed


async def _elect_preferred(admin: Admin, partitions: Sequence[TopicPartition]) -> None:
    """Have the first replicas of the partitions lead. Raises KafkaError, ClientError."""
    results = await admin.elect_leaders(partitions, election_type=ElectionType.PREFERRED)
    _raise_unless_passing(results.failed)


def _raise_unless_passing(failed: Mapping[TopicPartition, KafkaError | ClientError]) -> None:
    """Raise the first error that does not end by itself, with a note of its partition."""
    for partition, error in failed.items():
        if isinstance(error, TimedOut) or (isinstance(error, KafkaError) and error.code in _PASSING):
            continue
        error.add_note(f"of {shown_item(partition)}")
        raise error


async def carry_out(
    invocation: Invocation, admin: Admin, plan: Mapping[TopicPartition, Sequence[int]], rate: int | None = None
) -> None:
    """Move replicas as the plan says, and wait until they have moved and their preferred leaders lead.

    A move that is under way already is taken up. `rate` limits the bytes per second of each broker until the moves have
    ended; `release_throttles` removes what is left if an exception is raised. Raises PlanOutdated, KafkaError,
    ClientError.
    """
    waiting = dict(plan)
    begun: dict[TopicPartition, Sequence[int]] = {}
    checks = (_Contradiction(), _GoneBrokers(), _Stall(invocation))
    moves = {} if rate is None else await _limit(invocation, admin, plan, rate)
    with MoveProgress(invocation, admin, len(plan)) as progress:
        while True:
            began = trio.current_time()
            placement = await find_placement(admin)
            left = {each: to for each, to in begun.items() if not placement.has(each, to)}
            for check in checks:
                check.look(placement, left)
            missing = [
                Copy(each, broker) for each, to in {**left, **waiting}.items() for broker in placement.lacking(each, to)
            ]
            replicas = {each: placement.partitions[each].replicas for each, _ in missing}
            await progress.show(len(plan) - len(left) - len(waiting), replicas, missing)
            if not left and not waiting:
                break
            new = await _begin(admin, placement, waiting, len(left))
            begun.update(new)
            waiting = {each: waiting[each] for each in waiting if each not in new and each in placement.partitions}
            await pause(trio.current_time() - began)
    if moves:
        note_each(invocation, await release_moves(admin, dict.fromkeys(plan), moves))
    await lead_as_preferred(admin, list(plan))


async def _limit(
    invocation: Invocation, admin: Admin, plan: Mapping[TopicPartition, Sequence[int]], rate: int
) -> dict[TopicPartition, Move]:
    """Limit the moves of a plan, and return them."""
    sources = {each: placed.sources for each, placed in (await find_placement(admin)).partitions.items()}
    moves = moves_of(sources, {each: to for each, to in plan.items() if each in sources}, {})
    note_each(invocation, await limit_moves(admin, moves, rate))
    return moves


async def release_throttles(invocation: Invocation, admin: Admin, broker: int | None = None) -> None:
    """Remove the throttles that an earlier command has left for moves that have ended.

    With `broker`, those of moves away from that broker. Raises KafkaError, ClientError.
    """
    throttled = await ThrottledReplicas.read(admin)
    left = throttled.left_by_moves((await find_placement(admin)).at_rest, broker)
    if left:
        note_each(invocation, await release_moves(admin, left))


def note_each(invocation: Invocation, lines: Iterable[str]) -> None:
    """Print each line on standard error."""
    for line in lines:
        invocation.printer.note(f"kraft: {line}")


async def lead_as_preferred(admin: Admin, partitions: Sequence[TopicPartition]) -> None:
    """Elect preferred leaders, and wait until they lead where they are alive and in sync.

    Raises CommandFailed if no further one is elected for a minute, KafkaError, ClientError.
    """
    number, since = len(partitions) + 1, trio.current_time()
    while True:
        began = trio.current_time()
        placement = await find_placement(admin)
        left = [each for each in partitions if _could_lead(placement, each)]
        if not left:
            return
        if len(left) < number:
            number, since = len(left), began
        elif began - since >= _STALL_S:
            raise CommandFailed(
                f"{format_count(len(left), 'partition')} such as {shown_item(left[0])} could not be handed to the "
                f"preferred leader for {_STALL_S:.0f} s, although it is alive and in sync."
            )
        await _elect_preferred(admin, left)
        await pause(trio.current_time() - began)


def _could_lead(placement: Placement, partition: TopicPartition) -> bool:
    placed = placement.partitions.get(partition)
    if placed is None or placed.leader == placed.target[0]:
        return False
    return placed.target[0] in placed.isr and placed.target[0] in placement.alive


def _placed(
    replicas: Sequence[int], leader: int | None, isr: Iterable[int], moving: PartitionReassignment | None
) -> PlacedPartition:
    if moving is None:
        return PlacedPartition(tuple(replicas), tuple(replicas), (), leader, tuple(isr))
    return PlacedPartition(moving.replicas, moving.target_replicas, moving.adding_replicas, leader, tuple(isr))


def no_leader(partitions: Sequence[TopicPartition], placement: Placement) -> str:
    """The message about partitions that cannot move, because no replica that is alive has all records."""
    partition = partitions[0]
    down = [each for each in placement.partitions[partition].replicas if each not in placement.alive]
    brokers = " and ".join(f"broker {each}" for each in down) or "its brokers"
    return (
        f"{format_count(len(partitions), 'partition')} such as {shown_item(partition)} cannot move without a leader: "
        f"start {brokers} again; `kraft cluster health` says what else there is to do."
    )


def by_target(moves: Iterable[tuple[TopicPartition, int]]) -> Iterator[str]:
    """How many replicas each broker gets."""
    for broker, number in sorted(Counter(broker for _, broker in moves).items()):
        yield f"{number} to broker {broker}"
