"""`kraft cluster rebalance`: spreads the replicas of all topics over the brokers."""

from collections.abc import Collection

import attrs
import click

from broker.cli.commands.cluster_drain import Survey, survey_cluster
from broker.cli.commands.maintenance import change_options, confirm, resumable, throttle_option
from broker.cli.commands.partition_health import brokers_named
from broker.cli.commands.placement import carry_out, lead_as_preferred, release_throttles
from broker.cli.commands.reassignment_plans import preview
from broker.cli.commands.replica_spread import TooFewBrokers, moved, spread
from broker.cli.grammar import ClusterCommand, CommandFailed, Invocation
from broker.cli.grammar.units import format_count, format_ids
from broker.cli.output import one
from broker.client.types import TopicPartition


@attrs.frozen
class RebalancedCluster:
    """Replicas are spread, and preferred leaders lead. With `dry_run`, nothing was changed."""

    dry_run: bool
    partitions: int
    replicas: int


@click.command("rebalance", cls=ClusterCommand, shape=one(RebalancedCluster))
@change_options
@throttle_option
async def rebalance(invocation: Invocation, dry_run: bool, yes: bool, throttle: int | None) -> None:
    """Spread the replicas of all topics over the brokers, with few moves, and have preferred leaders lead.

    The plan is that of `kraft reassign plan`. A drained broker gets nothing, and all others have to be alive. The
    command ends when the replicas have moved. Ctrl-C and a crash are safe: typed again, it goes on, and takes another
    --throttle.
    """
    async with invocation.admin() as admin:
        survey = await survey_cluster(admin)
        _check_targets(survey)
        current = _movable(invocation, survey)
        racks = {broker: survey.racks[broker] for broker in survey.targets}
        try:
            after = spread(current, racks, survey.sizes, None)
        except TooFewBrokers as error:
            raise CommandFailed(f"{error}: start another broker, or {error.remedy}.") from error
        plan = {each: replicas for each, replicas in after.items() if replicas != list(current[each])}
        for line in preview(current, after, racks, survey.sizes):
            invocation.printer.note(f"kraft: {line}")
        if not dry_run:
            if plan:
                confirm("Move them?", yes=yes)
            with resumable(invocation, "Moves that have begun go on; `kraft cluster rebalance` goes on."):
                await carry_out(invocation, admin, plan, throttle)
                await release_throttles(invocation, admin)
                await lead_as_preferred(admin, list(after))
    replicas = sum(1 for _ in moved(current, after))
    if not plan:
        line = "The cluster is balanced: no replica has to move."
    else:
        line = "Would rebalance the cluster." if dry_run else "The cluster is balanced."
    invocation.printer.one(RebalancedCluster(dry_run, len(plan), replicas), [line])


def _check_targets(survey: Survey) -> None:
    """Raises CommandFailed if no broker may get replicas, or it is not known which brokers may."""
    if silent := [broker for broker in survey.placement.alive if broker not in survey.held]:
        raise CommandFailed(
            f"No answer from {brokers_named(silent)}, so that it is not known which brokers are drained: try again."
        )
    if not survey.targets:
        raise CommandFailed("All brokers are drained: `kraft cluster undrain` lets one have replicas.")


def _movable(invocation: Invocation, survey: Survey) -> dict[TopicPartition, tuple[int, ...]]:
    """The partitions that may be spread: those without a replica on a drained broker. Raises CommandFailed."""
    placement = survey.placement
    for broker in sorted(placement.down):
        if placement.on(broker):
            raise CommandFailed(
                f"Broker {broker} is down: start it again, or move its replicas with `kraft cluster drain {broker}`."
            )
    targets: Collection[int] = survey.targets
    current = {each: to for each, to in placement.targets.items() if all(broker in targets for broker in to)}
    if len(current) < len(placement.partitions):
        held = format_count(len(placement.partitions) - len(current), "partition")
        invocation.printer.note(
            f"kraft: {held} with a replica on a drained broker ({format_ids(survey.cordoned)}) stay."
        )
    return current
