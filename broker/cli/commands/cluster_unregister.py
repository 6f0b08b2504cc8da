"""`kraft cluster unregister`: removes a broker that is shut down for good."""

from typing import Final

import attrs
import click
import trio

from broker.cli.commands.cluster_drain import broker_argument, unknown_broker
from broker.cli.commands.maintenance import change_options, confirm
from broker.cli.commands.placement import describe_brokers, find_placement
from broker.cli.grammar import ClusterCommand, CommandFailed, Invocation
from broker.cli.grammar.command import shown_item
from broker.cli.grammar.units import format_count
from broker.cli.output import one
from broker.client.admin import Admin

_LOOK_S: Final = 0.25


@attrs.frozen
class UnregisteredBroker:
    """A broker that is not part of the cluster any more. With `dry_run`, nothing was changed."""

    broker_id: int
    dry_run: bool


@click.command("unregister", cls=ClusterCommand, shape=one(UnregisteredBroker))
@broker_argument
@change_options
async def unregister(invocation: Invocation, broker_id: int, dry_run: bool, yes: bool) -> None:
    """Remove a broker from the cluster that is shut down for good, and has no replicas."""
    async with invocation.admin() as admin:
        placement = await find_placement(admin)
        if broker_id not in placement.brokers:
            raise unknown_broker(placement, broker_id)
        if broker_id in placement.alive:
            raise CommandFailed(f"Broker {broker_id} is alive: stop it first.")
        if held := placement.on(broker_id):
            raise CommandFailed(
                f"Broker {broker_id} has {format_count(len(held), 'replica')}, such as {shown_item(held[0])}: "
                f"`kraft cluster drain {broker_id}` first."
            )
        if not dry_run:
            confirm(f"Unregister broker {broker_id}?", yes=yes)
            await admin.unregister_broker(broker_id)
            await _await_unregistered(admin, broker_id)
        await _note_vote(invocation, admin, broker_id)
    line = f"Would unregister broker {broker_id}." if dry_run else f"Broker {broker_id} is not registered any more."
    invocation.printer.one(UnregisteredBroker(broker_id, dry_run), [line])


async def _await_unregistered(admin: Admin, broker_id: int) -> None:
    """Wait until the broker that is asked knows. Raises CommandFailed if the broker was started meanwhile."""
    while True:
        cluster = await describe_brokers(admin)
        if all(node.id != broker_id for node in cluster.nodes):
            return
        if broker_id not in cluster.fenced:
            raise CommandFailed(f"Broker {broker_id} was started again, and has registered itself: stop it first.")
        await trio.sleep(_LOOK_S)


async def _note_vote(invocation: Invocation, admin: Admin, node_id: int) -> None:
    voters = (await admin.describe_metadata_quorum()).voters
    if any(voter.id == node_id for voter in voters):
        invocation.printer.note(
            f"kraft: node {node_id} is also a controller and still has a vote: see `kraft quorum remove-controller`"
        )
