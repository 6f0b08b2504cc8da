"""`kraft cluster start`: a cluster for development on this machine, each node a process of its own.

The first time it formats the nodes, later it starts those that are there. Their output is shown, each line with its
node. Ctrl-C, SIGTERM and SIGHUP stop all of them cleanly, a second one at once. A node that dies is reported, and not
started again: that can be done with `kraft start` and its properties file.
"""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import click
import trio

from broker.cli.grammar import Command, CommandGroup, Exit, Invocation
from broker.cli.local_cluster import FIRST_ID_DEFAULT, NODES_DEFAULT, LocalNode, NotOneCluster, open_cluster
from broker.cli.refusals import print_refusals
from broker.cli.supervisor import Supervisor, Task
from kraft.env import real_env
from metadata.configuration import ConfigError

# Leaves room for the ids of the other nodes below the largest int32.
_NODE_ID_MAX: Final = 2_000_000_000
_PORT_MAX: Final = 65_535


@click.group("cluster", cls=CommandGroup)
def cluster() -> None:
    """Run a cluster on this machine."""


@cluster.command("start", cls=Command)
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"How many nodes; by default those there are, or {NODES_DEFAULT}.",
)
@click.option(
    "--first-id",
    type=click.IntRange(0, _NODE_ID_MAX, max_open=True),
    metavar="ID",
    help=f"Of a new cluster: the id of its first node; default: {FIRST_ID_DEFAULT}.",
)
@click.option("--dir", "directory", default="data", metavar="DIR", help="Where the data is; default: ./data.")
@click.option(
    "--first-port",
    type=click.IntRange(0, _PORT_MAX),
    default=9092,
    metavar="PORT",
    help="Of a new cluster: clients reach the first node there, controllers at the next port, the second node at the "
    "next two and so on; 0 takes free ones; default: 9092.",
)
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="A config that wins over each node's file."
)
def start(invocation: Invocation, directory: str, **options: Any) -> None:
    """Run a cluster until SIGTERM or Ctrl-C; make it if it is not there."""
    absolute = os.path.abspath(directory)
    try:
        run = partial(_start, absolute, **options)
        invocation.exit_code = trio.run(run, restrict_keyboard_interrupt_to_checkpoints=True)
    except* (NotOneCluster, ConfigError, OSError) as group:
        print_refusals(group)
        invocation.exit_code = Exit.FAILED


async def _start(
    directory: str, *, nodes: int | None, first_port: int, first_id: int | None, overrides: Sequence[str]
) -> Exit:
    env = real_env(lambda kind, /, **fields: None)
    local_nodes = await open_cluster(env, directory, nodes, first_port, first_id)
    addresses = ",".join(node.address for node in local_nodes)
    supervisor = Supervisor(
        [_task(node, overrides) for node in local_nodes],
        _tell,
        lambda: _tell(f"kraft: all nodes serve clients, at {addresses}; data in {directory}"),
    )
    await supervisor.run()
    return Exit.FAILED if supervisor.failed else Exit.OK


def _task(node: LocalNode, overrides: Sequence[str]) -> Task:
    arguments = [part for override in overrides for part in ("--override", override)]
    return Task(f"node {node.node_id}", ["start", node.properties_path, *arguments], ["--stop-at-eof"])


def _tell(line: str) -> None:
    print(line, flush=True)
