"""`kraft cluster`: `describe` and `health` show the state of a cluster; `start` runs one on this machine.

`start` is for development: each node is a process of its own. The first run formats the nodes, later runs start the
existing ones. Each line of output is shown with its node's name. Ctrl-C, SIGTERM and SIGHUP stop all nodes cleanly, a
second signal stops them at once. A node that dies is reported and not restarted; `kraft start` with its properties file
restarts it.
"""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import attrs
import click
import trio

from broker.cli.commands.cluster_drain import drain, undrain
from broker.cli.commands.cluster_health import BROKER_COLUMNS, CONTROLLER_COLUMNS, ClusterHealth, examine_cluster
from broker.cli.commands.cluster_rebalance import rebalance
from broker.cli.commands.cluster_rejoin import rejoin
from broker.cli.commands.cluster_restart import restart
from broker.cli.commands.cluster_unregister import unregister
from broker.cli.errors import print_errors
from broker.cli.grammar import ClusterCommand, Command, CommandGroup, Exit, Invocation
from broker.cli.grammar.arguments import Integer
from broker.cli.grammar.units import format_count
from broker.cli.local_cluster import FIRST_ID_DEFAULT, NODES_DEFAULT, NODES_MAX, LocalNode, NotOneCluster, open_cluster
from broker.cli.local_security import LocalSecurity, MissingCryptography, read_client_files
from broker.cli.output import Column, one
from broker.cli.printing import print_line, print_text
from broker.cli.start_arguments import LOG_FORMATS, LOG_LEVELS
from broker.cli.supervisor import Supervisor, Task
from broker.node.formatting import FormattingRefused
from kraft.env import real_env
from metadata.configuration import InvalidConfig

# Leaves room for the ids of the other nodes below the largest int32.
_NODE_ID_MAX: Final = 2_000_000_000
_PORT_MAX: Final = 65_535


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


@click.group("cluster", cls=CommandGroup)
def cluster() -> None:
    """Run a cluster on this machine; see how a cluster is; take nodes out of it and back."""


for _command in (drain, undrain, rebalance, unregister, restart, rejoin):
    cluster.add_command(_command)


@cluster.command("start", cls=Command)
@click.option(
    "--nodes",
    type=Integer(1, NODES_MAX),
    metavar="N",
    help=f"Number of nodes; by default those of the existing cluster, or {NODES_DEFAULT}.",
)
@click.option(
    "--first-id",
    type=Integer(0, _NODE_ID_MAX - 1),
    metavar="ID",
    help=f"The id of a new cluster's first node; default: {FIRST_ID_DEFAULT}.",
)
@click.option("--dir", "directory", default="data", metavar="DIR", help="Where the data is; default: ./data.")
@click.option(
    "--first-port",
    type=Integer(0, _PORT_MAX),
    default=9092,
    metavar="PORT",
    help="The client port of a new cluster's first node. Its controller has the next port, the second node has the "
    "next two and so on; 0 takes free ones; default: 9092.",
)
@click.option(
    "--security",
    type=click.Choice([each.value for each in LocalSecurity]),
    help="How the clients of a new cluster connect. Certificates, users and configurations of clients are made and "
    f"printed; default: {LocalSecurity.PLAINTEXT}.",
)
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="A config that wins over each node's file."
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), help="Lowest level that nodes log; default: info.")
@click.option("--log-format", type=click.Choice(LOG_FORMATS), help="How nodes write their log; default: text.")
def start(invocation: Invocation, directory: str, security: str | None, **options: Any) -> None:
    """Run a cluster until SIGTERM or Ctrl-C; make it if it is not there."""
    absolute = os.path.abspath(directory)
    try:
        run = partial(_start, absolute, security=None if security is None else LocalSecurity(security), **options)
        invocation.exit_code = trio.run(run, restrict_keyboard_interrupt_to_checkpoints=True)
    except* (NotOneCluster, MissingCryptography, InvalidConfig, FormattingRefused, OSError) as group:
        print_errors(group)
        invocation.exit_code = Exit.FAILED


@cluster.command("describe", cls=ClusterCommand, shape=one(DescribedCluster))
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


@cluster.command("health", cls=ClusterCommand, shape=one(ClusterHealth))
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


async def _start(
    directory: str,
    *,
    nodes: int | None,
    first_port: int,
    first_id: int | None,
    security: LocalSecurity | None,
    overrides: Sequence[str],
    log_level: str | None,
    log_format: str | None,
) -> Exit:
    env = real_env(lambda kind, /, **fields: None)
    is_new = not (env.disk.exists(directory) and env.disk.list(directory))
    local_nodes = await open_cluster(env, directory, nodes, first_port, first_id, security)
    addresses = ",".join(node.address for node in local_nodes)
    given = [*(("--override", each) for each in overrides), ("--log-level", log_level), ("--log-format", log_format)]
    options = [part for option, value in given if value is not None for part in (option, value)]
    supervisor = Supervisor(
        [_task(node, options) for node in local_nodes],
        partial(print_line, flush=True),
        partial(_report_serving, addresses, directory, local_nodes[0].security, is_new),
    )
    await supervisor.run()
    return Exit.FAILED if supervisor.failed else Exit.OK


def _report_serving(addresses: str, directory: str, security: LocalSecurity, is_new: bool) -> None:
    """Print where clients connect, and with which configuration. Its passwords are printed once, by the first start."""
    print_line(f"kraft: all nodes serve clients, at {addresses}; data in {directory}", flush=True)
    if security is LocalSecurity.PLAINTEXT:
        return
    for path, content in read_client_files(directory):
        if is_new:
            print_line(f"kraft: {path}")
            print_text(content)
    print_line(f"kraft: configurations of clients, with keys and passwords: {directory}/security", flush=True)


def _task(node: LocalNode, options: Sequence[str]) -> Task:
    return Task(f"node {node.node_id}", ["start", node.properties_path, *options], ["--stop-at-eof"])
