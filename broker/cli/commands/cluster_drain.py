"""`kraft cluster drain` and `undrain`.

Drain cordons the broker first (KIP-1066), which keeps new replicas off it. The cordon and the reassignments are all the
state there is. Both are the cluster's, so the command can be typed again at any time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

import attrs
import click
import trio

from broker.cli.commands.log_dir_cordons import CORDON_S, CORDONED, LOOK_S, alter_cordon, await_cordon
from broker.cli.commands.maintenance import change_options, confirm, resumable, throttle_option
from broker.cli.commands.partition_health import brokers_named
from broker.cli.commands.placement import (
    PlacedPartition,
    Placement,
    PlanOutdated,
    by_target,
    carry_out,
    cordoned_brokers,
    find_placement,
    no_leader,
    partition_sizes,
    release_throttles,
)
from broker.cli.commands.replica_evacuation import evacuate, hand_over, in_fewer_racks
from broker.cli.commands.replica_spread import TooFewBrokers, moved
from broker.cli.grammar import ClusterCommand, CommandFailed, Exit, Invocation
from broker.cli.grammar.arguments import INT32_MAX, Integer
from broker.cli.grammar.command import shown_item
from broker.cli.grammar.units import format_count, format_ids, format_size
from broker.cli.output import one
from broker.client.admin import Admin, ConfigOperation
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode, KafkaError

# A cluster of an earlier release cannot cordon; a broker may have gone just now.
_NO_CORDON: Final = (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST, ErrorCode.BROKER_NOT_AVAILABLE)
# How long moves may seem impossible, and a broker may take to delete replicas that were moved.
_IMPOSSIBLE_S: Final = 15.0
# Times that a plan is made again because a broker has gone, or something else moves the same partitions.
_PLANS_MAX: Final = 20

broker_argument = click.argument("broker_id", type=Integer(0, INT32_MAX), metavar="ID")


@attrs.frozen
class DrainedBroker:
    """A broker without replicas. With `dry_run`, nothing was changed. `leaders` and `replicas` had to move.

    `is_cordoned` is False if the cluster cannot cordon brokers: then new replicas may still be placed on it.
    """

    broker_id: int
    dry_run: bool
    is_cordoned: bool
    leaders: int
    replicas: int
    size_bytes: int


@attrs.frozen
class UndrainedBroker:
    """A broker that may get replicas again. With `dry_run`, nothing was changed."""

    broker_id: int
    dry_run: bool


@attrs.frozen
class Survey:
    """The state of a cluster from which plans are made. `targets` are the brokers that may get replicas.

    `held` are the replicas in the log directories of each broker that has answered. They are read after the placement.
    """

    placement: Placement
    cordoned: frozenset[int]
    sizes: Mapping[TopicPartition, int]
    held: Mapping[int, Sequence[TopicPartition]]

    @property
    def racks(self) -> dict[int, str | None]:
        return {node.id: node.rack for node in self.placement.brokers.values()}

    @property
    def targets(self) -> list[int]:
        return [broker for broker in self.placement.alive if broker not in self.cordoned]

    def left_on(self, broker_id: int) -> Sequence[TopicPartition]:
        """The replicas of a broker by the placement, or by the broker itself if the placement has none.

        The broker that was asked for the placement may lag behind the controllers, and may hide topics from this
        client. A broker that is cordoned has all replicas that it will get.
        """
        return self.placement.on(broker_id) or self.held.get(broker_id, ())


@click.command("drain", cls=ClusterCommand, shape=one(DrainedBroker))
@broker_argument
@change_options
@throttle_option
@click.option("--fewer-racks", is_flag=True, help="Also move replicas that leave a partition in fewer racks.")
async def drain(
    invocation: Invocation, broker_id: int, dry_run: bool, yes: bool, throttle: int | None, fewer_racks: bool
) -> None:
    """Move leaders, then replicas, off a broker, and keep new ones off it.

    It ends when the broker has no replica left. Ctrl-C and a crash are safe: typed again, it goes on, and takes another
    --throttle. `undrain` lets the broker have replicas again.
    """
    async with invocation.admin() as admin:
        survey = await survey_cluster(admin)
        _check_known(survey.placement, broker_id)
        plan = _plan_drain(survey, broker_id, {}, fewer_racks)
        drained = _drained(survey, broker_id, plan, dry_run)
        _show_drain(invocation, survey, drained, plan)
        if not dry_run:
            confirm(f"Drain broker {broker_id}?", yes=yes)
            go_on = (
                f"Moves that have begun go on; `kraft cluster drain {broker_id}` takes them up, and `kraft reassign "
            )
            with resumable(invocation, f"{go_on}cancel` and `kraft cluster undrain {broker_id}` take them back."):
                is_cordoned = await _cordon(invocation, admin, survey.placement, broker_id)
                await _hand_over_leaders(invocation, admin, broker_id)
                emptied = await _empty(invocation, admin, broker_id, fewer_racks, throttle)
                await release_throttles(invocation, admin, broker_id)
            is_cordoned = is_cordoned and _stayed_cordoned(invocation, emptied, broker_id)
            drained = attrs.evolve(drained, is_cordoned=is_cordoned)
    invocation.printer.one(drained, _result(drained))


def _result(drained: DrainedBroker) -> list[str]:
    broker_id = drained.broker_id
    if drained.dry_run:
        return [f"Would drain broker {broker_id}."]
    return [
        f"Broker {broker_id} is drained: it has no replicas.",
        f"`kraft cluster undrain {broker_id}` lets it have some again; `kraft cluster unregister {broker_id}` "
        "removes it after it was shut down for good.",
    ]


def _stayed_cordoned(invocation: Invocation, emptied: Survey, broker_id: int) -> bool:
    """Whether the broker is still cordoned after it was emptied; if not, a note says what that means."""
    if broker_id in emptied.cordoned:
        return True
    invocation.printer.note(
        f"kraft: broker {broker_id} is not cordoned any more: something else has changed {CORDONED} or stopped it. "
        "New replicas may be placed on it"
    )
    return False


@click.command("undrain", cls=ClusterCommand, shape=one(UndrainedBroker))
@broker_argument
@change_options
async def undrain(invocation: Invocation, broker_id: int, dry_run: bool, yes: bool) -> None:
    """Let a drained broker have replicas again; `rebalance` moves some to it."""
    async with invocation.admin() as admin:
        placement = await find_placement(admin)
        if broker_id not in placement.brokers:
            raise unknown_broker(placement, broker_id)
        if broker_id not in placement.alive:
            raise CommandFailed(f"Broker {broker_id} is down: start it first.")
        found = (await admin.describe_log_dirs([broker_id])).succeeded
        if found and not cordoned_brokers(found):
            invocation.printer.note(f"kraft: broker {broker_id} may have replicas already.")
        if not dry_run:
            confirm(f"Let broker {broker_id} have replicas again?", yes=yes)
            await alter_cordon(admin, broker_id, ConfigOperation.DELETE, None)
            if not await await_cordon(admin, broker_id, lambda found: not cordoned_brokers(found)):
                raise CommandFailed(
                    f"Broker {broker_id} is still cordoned after {CORDON_S:.0f} s: look for {CORDONED} in its "
                    "server.properties, and whether it reaches the controllers."
                )
    if dry_run:
        line = f"Would let broker {broker_id} have replicas again."
    else:
        line = f"Broker {broker_id} may have replicas; `kraft cluster rebalance` moves some to it."
    invocation.printer.one(UndrainedBroker(broker_id, dry_run), [line])


async def survey_cluster(admin: Admin) -> Survey:
    placement = await find_placement(admin)
    log_dirs = (await admin.describe_log_dirs(placement.alive)).succeeded
    held = {
        broker: sorted(each for directory in directories.values() for each in directory.replicas)
        for broker, directories in log_dirs.items()
    }
    return Survey(placement, cordoned_brokers(log_dirs), partition_sizes(log_dirs.values()), held)


def _check_known(placement: Placement, broker_id: int) -> None:
    """Raises CommandFailed if the id is neither registered, nor that of a broker whose replicas are left."""
    if broker_id not in placement.brokers and not placement.on(broker_id):
        raise unknown_broker(placement, broker_id)


def unknown_broker(placement: Placement, broker_id: int) -> CommandFailed:
    known = format_ids(placement.brokers)
    return CommandFailed(f"No broker {broker_id} is registered; the brokers are {known}.", Exit.NOT_FOUND)


def _plan_drain(
    survey: Survey, broker_id: int, moved_before: Mapping[TopicPartition, list[int]], fewer_racks: bool
) -> dict[TopicPartition, list[int]]:
    """The new replicas of the partitions that have one on the broker. Raises CommandFailed."""
    placement = survey.placement
    targets = [broker for broker in survey.targets if broker != broker_id]
    current = {partition: _reachable(placement, placed) for partition, placed in placement.partitions.items()}
    under_way = {each: list(current[each]) for each in placement.on(broker_id) if broker_id not in current[each]}
    if leaderless := [each for each in placement.on(broker_id) if placement.partitions[each].leader is None]:
        raise CommandFailed(no_leader(leaderless, placement))
    if not targets and placement.on(broker_id):
        raise CommandFailed(f"No other broker is alive and may have replicas: broker {broker_id} cannot be drained.")
    try:
        evacuated = evacuate(current, broker_id, targets, survey.racks, survey.sizes)
    except TooFewBrokers as error:
        raise CommandFailed(f"{error}. Add a broker{_undrained(survey, broker_id)}, or {error.remedy}.") from error
    lost = in_fewer_racks(current, evacuated, survey.racks)
    if lost and not fewer_racks:
        raise CommandFailed(
            f"{format_count(len(lost), 'partition')} such as {shown_item(lost[0])} would be in fewer racks, since no "
            "other broker of the rack may have replicas. --fewer-racks accepts that."
        )
    # A broker that is asked for the replicas may not know yet of moves that have ended.
    done = {each: moved_before[each] for each in evacuated if each in moved_before}
    again = {each: to for each, to in done.items() if {*to} <= {*current[each], *targets}}
    return under_way | evacuated | again


def _undrained(survey: Survey, broker_id: int) -> str:
    others = [broker for broker in survey.placement.alive if broker in survey.cordoned and broker != broker_id]
    return f", let {brokers_named(others)} have replicas (`kraft cluster undrain`)" if others else ""


def _reachable(placement: Placement, placed: PlacedPartition) -> tuple[int, ...]:
    """The replicas after the move that is under way; those before it, if it waits for a broker that is down."""
    if all(broker in placement.alive for broker in placed.adding):
        return placed.target
    return tuple(each for each in placed.replicas if each not in placed.adding)


def _drained(survey: Survey, broker_id: int, plan: Mapping[TopicPartition, list[int]], dry_run: bool) -> DrainedBroker:
    return DrainedBroker(
        broker_id,
        dry_run,
        broker_id in survey.cordoned,
        len(survey.placement.led_by(broker_id)),
        len(plan),
        sum(survey.sizes.get(partition, 0) for partition in plan),
    )


def _show_drain(
    invocation: Invocation, survey: Survey, drained: DrainedBroker, plan: Mapping[TopicPartition, list[int]]
) -> None:
    if not plan:
        invocation.printer.note(f"kraft: broker {drained.broker_id} has no replicas.")
        return
    before = {partition: survey.placement.partitions[partition].replicas for partition in plan}
    moves = ", ".join(by_target(moved(before, plan))) or "all under way already"
    invocation.printer.note(
        f"kraft: broker {drained.broker_id}: {format_count(drained.leaders, 'leader')} and "
        f"{format_count(len(plan), 'replica')} ({format_size(drained.size_bytes)}) move: {moves}."
    )


async def _cordon(invocation: Invocation, admin: Admin, placement: Placement, broker_id: int) -> bool:
    """Keep new replicas off the broker. Returns False if the cluster cannot do that.

    The config of a broker is changed by way of that broker, so it has to be alive.
    """
    if broker_id not in placement.alive:
        invocation.printer.note(
            f"kraft: broker {broker_id} is down, and cannot be cordoned: it may get replicas if others are too few, "
            "and after its next start"
        )
        return False
    try:
        await alter_cordon(admin, broker_id, ConfigOperation.SET, "*")
    except KafkaError as error:
        if error.code not in _NO_CORDON:
            raise
        invocation.printer.note(
            f"kraft: new replicas may still be placed on broker {broker_id}, since it cannot be cordoned: {error}"
        )
        return False
    if not await await_cordon(admin, broker_id, lambda found: bool(cordoned_brokers(found))):
        invocation.printer.note(
            f"kraft: broker {broker_id} does not tell within {CORDON_S:.0f} s that it is cordoned; until it does, new "
            "replicas may be placed on it"
        )
        return False
    return True


async def _hand_over_leaders(invocation: Invocation, admin: Admin, broker_id: int) -> None:
    """Have other replicas in sync lead: the first of them becomes the preferred leader."""
    placement = await find_placement(admin)
    leads = Counter(each.leader for each in placement.partitions.values() if each.leader is not None)
    plan = {}
    for partition in placement.led_by(broker_id):
        placed = placement.partitions[partition]
        others = [each for each in placed.isr if each != broker_id]
        if placed.replicas == placed.target and others:
            in_sync = hand_over([broker_id], broker_id, others, leads)
            rest = [each for each in placed.replicas if each != broker_id and each not in in_sync]
            plan[partition] = [*in_sync, *rest, broker_id]
    try:
        await carry_out(invocation, admin, plan)
    except PlanOutdated:
        return  # another command moves some of them: their leaders move with the replicas then


class _NextMoves:
    """Plans the moves that empty a broker, again and again.

    The broker that is asked may not know yet of moves that have ended, and they may seem to be in the way. So a reason
    not to go on has to last.
    """

    def __init__(self, broker_id: int, *, fewer_racks: bool) -> None:
        self._broker_id, self._fewer_racks = broker_id, fewer_racks
        self._impossible_since = inf
        self.done: dict[TopicPartition, list[int]] = {}

    def plan(self, survey: Survey) -> dict[TopicPartition, list[int]]:
        """The moves; none if it is not clear yet whether there are any. Raises CommandFailed."""
        try:
            plan = self._plan(survey)
        except CommandFailed:
            self._impossible_since = min(self._impossible_since, trio.current_time())
            if trio.current_time() - self._impossible_since >= _IMPOSSIBLE_S:
                raise
            return {}
        self._impossible_since = inf
        return plan

    def _plan(self, survey: Survey) -> dict[TopicPartition, list[int]]:
        broker_id = self._broker_id
        if not survey.placement.on(broker_id):
            left = survey.left_on(broker_id)
            raise CommandFailed(
                f"Broker {broker_id} still has {format_count(len(left), 'replica')} in its log directories, such as "
                f"{shown_item(left[0])}, of topics that this client may not see, or that it has not deleted yet."
            )
        return _plan_drain(survey, broker_id, self.done, self._fewer_racks)


async def _empty(
    invocation: Invocation, admin: Admin, broker_id: int, fewer_racks: bool, throttle: int | None
) -> Survey:
    """Move replicas off the broker until it has none. Returns the state in which it has none. Raises CommandFailed."""
    moves, outdated = _NextMoves(broker_id, fewer_racks=fewer_racks), 0
    while True:
        survey = await survey_cluster(admin)
        if not survey.left_on(broker_id):
            return survey
        plan = moves.plan(survey)
        try:
            if plan:
                await carry_out(invocation, admin, plan, throttle)
        except PlanOutdated as error:
            moves.done.clear()
            outdated += 1
            if outdated == _PLANS_MAX:
                raise
            invocation.printer.note(f"kraft: planning again. {error}")
        else:
            moves.done.update(plan)
        await trio.sleep(LOOK_S)
