"""`kraft cluster restart --rolling`: restarts the nodes of a cluster one after the other, while clients go on.

A node that is asked to stop hands its leaders over first (controlled shutdown). The command goes to the next node only
when the cluster is healthy again.
"""

import re
import shlex
import string
from collections.abc import Sequence
from typing import Final

import attrs
import click
import trio

from broker.cli.commands.cluster_health import examine_cluster
from broker.cli.commands.maintenance import change_options, confirm, resumable
from broker.cli.commands.node_restart import RestartedNode, ReturnedNode, restart_node
from broker.cli.commands.placement import describe_brokers, find_placement, lead_as_preferred
from broker.cli.grammar import ClusterCommand, CommandFailed, Exit, Invocation
from broker.cli.grammar.arguments import DURATION, IDS
from broker.cli.grammar.command import shown_item
from broker.cli.grammar.units import format_count, format_ids
from broker.cli.output import one
from broker.client.admin import Admin
from broker.client.errors import ClientError
from broker.wire.errors import KafkaError

_LOOK_S: Final = 0.5
_TIMEOUT_MS: Final = 300_000
# The fields of a node that a command may have: names without a format and a conversion.
_FIELDS: Final = [[name, "", None] for name in ("id", "host", "port")]
# Hosts come from the cluster, and become arguments of a program such as ssh: they must not be options of it.
_HOST: Final = re.compile(r"[A-Za-z0-9_:%][A-Za-z0-9_.:%-]*")


@attrs.frozen
class RestartedCluster:
    """The nodes that were restarted, in this order. With `dry_run`, none was."""

    dry_run: bool
    nodes: list[int]


@click.command("restart", cls=ClusterCommand, shape=one(RestartedCluster))
@click.option("--rolling", is_flag=True, help="One node after the other; there is no other way.")
@click.option(
    "--restart-command",
    required=True,
    metavar="COMMAND",
    help="Restarts a node: a program and its arguments, in which {id}, {host} and {port} are those of the node.",
)
@click.option("--nodes", "chosen", type=IDS, metavar="ID,...", help="Only these nodes, in this order.")
@click.option(
    "--timeout",
    "timeout_ms",
    type=DURATION,
    default=_TIMEOUT_MS,
    metavar="TIME",
    help="For each step of a node; default: 5m.",
)
@change_options
async def restart(
    invocation: Invocation,
    rolling: bool,
    restart_command: str,
    chosen: list[int] | None,
    timeout_ms: int,
    dry_run: bool,
    yes: bool,
) -> None:
    """Restart the nodes one after the other; the active controller is the last.

    Each has to stop, to return, and to have all its replicas in sync again before the next one. The command stops at
    the first problem that `kraft cluster health` names. The restart command has to stop the node by SIGTERM, so that it
    hands its leaders over.

    \b
    kraft cluster restart --rolling --restart-command 'ssh {host} systemctl restart kraft'
    """
    if not rolling:
        raise click.UsageError("Say --rolling: nodes are restarted one after the other.", click.get_current_context())
    arguments = _arguments(restart_command)
    async with invocation.admin() as admin:
        await _check_health(admin, 0)
        nodes = await _nodes(admin, chosen)
        if len(nodes) > 1 and len({tuple(_filled(arguments, node)) for node in nodes}) == 1:
            raise click.UsageError(
                "--restart-command is the same for all nodes: write {id}, {host} or {port} in it, or name one --nodes.",
                click.get_current_context(),
            )
        await _note_single_replicas(invocation, admin)
        for node in nodes:
            invocation.printer.note(f"kraft: node {node.id}: {shlex.join(_filled(arguments, node))}")
        done = [node.id for node in nodes]
        if not dry_run:
            confirm(f"Restart {format_count(len(nodes), 'node')}?", yes=yes)
            done = await _restart_all(invocation, admin, nodes, arguments, timeout_ms / 1000)
            await lead_as_preferred(admin, list((await find_placement(admin)).partitions))
    verb = "Would restart" if dry_run else "Restarted"
    invocation.printer.one(RestartedCluster(dry_run, done), [f"{verb} {format_count(len(nodes), 'node')}."])


async def _restart_all(
    invocation: Invocation, admin: Admin, nodes: Sequence[RestartedNode], arguments: Sequence[str], timeout_s: float
) -> list[int]:
    """Restart the nodes one after the other, and say after each what is left. Returns their ids."""
    done: list[int] = []
    command = shlex.quote(shlex.join(arguments))
    for index, node in enumerate(nodes):
        advice = (
            f"Restarted: {format_ids(done) if done else 'none'}. Once `kraft cluster health` shows no problem, "
            f"`kraft cluster restart --rolling --nodes {format_ids(each.id for each in nodes[index:])} "
            f"--restart-command {command}` goes on."
        )
        with resumable(invocation, advice):
            await _restart(admin, node, _filled(arguments, node), timeout_s)
        done.append(node.id)
        invocation.printer.note(f"kraft: node {node.id} is restarted and in sync, {len(done)} of {len(nodes)}.")
    return done


def _arguments(command: str) -> list[str]:
    """The parts of the restart command. Raises UsageError."""
    try:
        arguments = shlex.split(command)
        fields = [field for part in arguments for _, *field in string.Formatter().parse(part) if field[0] is not None]
        if any(field not in _FIELDS for field in fields):
            raise ValueError("a field that a node does not have, or one with a format")
    except ValueError as error:
        raise click.UsageError(
            f"--restart-command {command}: write a program and its arguments, with {{id}}, {{host}} and {{port}}.",
            click.get_current_context(),
        ) from error
    if not arguments:
        raise click.UsageError("--restart-command is empty.", click.get_current_context())
    return arguments


def _filled(arguments: Sequence[str], node: RestartedNode) -> list[str]:
    return [part.format(id=node.id, host=node.host, port=node.port) for part in arguments]


async def _nodes(admin: Admin, chosen: Sequence[int] | None) -> list[RestartedNode]:
    """The nodes in the order of their restarts: brokers, controllers, the active one. Raises CommandFailed."""
    brokers = {node.id: RestartedNode(node.id, node.host, node.port) for node in (await describe_brokers(admin)).nodes}
    quorum = await admin.describe_metadata_quorum()
    voters = {voter.id for voter in quorum.voters}
    controllers = {
        node_id: RestartedNode(node_id, endpoints[0].host, endpoints[0].port)
        for node_id, endpoints in quorum.endpoints.items()
        if node_id in voters and endpoints
    }
    nodes = controllers | brokers
    if chosen is None:
        chosen = sorted(nodes, key=lambda each: (each == quorum.leader_id, each in voters, each))
    if unknown := [each for each in chosen if each not in nodes]:
        raise CommandFailed(
            f"No node {unknown[0]} is known; the nodes are {format_ids(sorted(nodes))}.", Exit.NOT_FOUND
        )
    for each in chosen:
        if not _HOST.fullmatch(nodes[each].host):
            raise CommandFailed(f"Node {each} has a host that no command can be given: {nodes[each].host!r}.")
    return [nodes[each] for each in chosen]


async def _note_single_replicas(invocation: Invocation, admin: Admin) -> None:
    partitions = (await find_placement(admin)).partitions
    alone = [each for each, placed in partitions.items() if len(placed.replicas) == 1]
    if alone:
        invocation.printer.note(
            f"kraft: {format_count(len(alone), 'partition')} with a single replica, such as {shown_item(alone[0])}, "
            "cannot be read or written while their broker restarts."
        )


async def _check_health(admin: Admin, timeout_s: float, returned: ReturnedNode | None = None) -> None:
    """Wait until the cluster is healthy, with the node that has returned.

    Raises CommandFailed with a problem that stays, KafkaError, ClientError.
    """
    deadline = trio.current_time() + timeout_s
    while True:
        began = trio.current_time()
        problem: Exception | str | None
        try:
            health = await examine_cluster(admin)
        except (KafkaError, ClientError) as error:
            problem = error
        else:
            problem = None if returned is None else returned.lacks(health.controllers, began)
            if health.is_healthy and problem is None:
                return
            problem = problem or health.problems[0]
        if trio.current_time() >= deadline:
            waited = f" after {timeout_s:.0f} s" if timeout_s else ""
            raise CommandFailed(f"The cluster is not healthy{waited}: {problem}")
        await trio.sleep(_LOOK_S)


async def _restart(admin: Admin, node: RestartedNode, command: Sequence[str], timeout_s: float) -> None:
    """Restart a node, and wait until the cluster is healthy with it. Raises CommandFailed."""
    await _check_health(admin, timeout_s)
    returned = await restart_node(node, command, timeout_s)
    await _check_health(admin, timeout_s, returned)
