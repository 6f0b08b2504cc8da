"""`kraft cluster describe` and `kraft cluster health`: the brokers of a cluster, and its health on one screen."""

from collections.abc import Sequence
from typing import Final

import attrs
import click

from broker.cli.commands.cluster_health import BROKER_COLUMNS, CONTROLLER_COLUMNS, ClusterHealth, examine_cluster
from broker.cli.grammar import ClusterCommand, Exit, Invocation
from broker.cli.grammar.units import format_count
from broker.cli.output import Column, one


@attrs.frozen
class NodeRow:
    """A broker that is alive."""

    id: int
    host: str
    port: int
    rack: str | None


@attrs.frozen
class DescribedCluster:
    """A cluster and its brokers."""

    cluster_id: str
    brokers: list[NodeRow]


NODE_COLUMNS: Final[Sequence[Column[NodeRow]]] = (
    Column("broker", lambda row: row.id, is_number=True),
    Column("address", lambda row: f"{row.host}:{row.port}"),
    Column("rack", lambda row: row.rack or "-"),
)


@click.command("describe", cls=ClusterCommand, shape=one(DescribedCluster))
async def describe(invocation: Invocation) -> None:
    """Show the brokers of a cluster."""
    async with invocation.admin() as admin:
        found = await admin.describe_cluster()
    nodes = [NodeRow(node.id, node.host, node.port, node.rack) for node in sorted(found.nodes)]
    shown = DescribedCluster(found.cluster_id, nodes)
    if invocation.printer.is_json:
        invocation.printer.json(shown)
        return
    invocation.printer.say(f"Cluster {shown.cluster_id}")
    invocation.printer.table(shown.brokers, NODE_COLUMNS)


@click.command("health", cls=ClusterCommand, shape=one(ClusterHealth))
async def health(invocation: Invocation) -> None:
    """Show how a cluster is, on one screen. A problem is exit code 1."""
    async with invocation.admin() as admin:
        found = await examine_cluster(admin)
    invocation.exit_code = Exit.OK if found.is_healthy else Exit.FAILED
    printer = invocation.printer
    if printer.is_json:
        printer.json(found)
        return
    state = "healthy" if found.is_healthy else format_count(len(found.problems), "problem")
    printer.say(f"Cluster {found.cluster_id}: {state}")
    printer.say("")
    printer.table(found.controllers, CONTROLLER_COLUMNS)
    printer.say("")
    printer.table(found.brokers, BROKER_COLUMNS)
    printer.say("")
    printer.say(
        f"{format_count(found.topics, 'topic')}, {format_count(found.partitions, 'partition')}: "
        f"{found.without_leader} without a leader, {found.under_replicated} under-replicated, {found.under_min_isr} "
        f"under min ISR, {found.not_led_by_preferred} not led by the preferred replica; leader skew "
        f"{found.leader_skew * 100:.0f} %; {format_count(found.reassignments, 'reassignment')}"
    )
    if found.is_healthy and found.not_led_by_preferred:
        printer.say("`kraft elect` has the preferred replicas lead again.")
    if found.hanging_unsearched:
        printer.say(
            f"{format_count(found.hanging_unsearched, 'partition')} not searched for hanging transactions; `kraft "
            "transactions find-hanging` searches a topic."
        )
    for problem in found.problems:
        printer.say(f"! {problem}")
