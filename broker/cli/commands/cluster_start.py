"""`kraft cluster start`: runs a cluster on this machine, for development. Each node is a process of its own.

The first run formats the nodes, later runs start the existing ones. Each line of output is shown with its node's name.
Ctrl-C, SIGTERM and SIGHUP stop all nodes cleanly, a second signal stops them at once. A node that dies is reported and
not restarted; `kraft start` with its properties file restarts it.

The command imports a node's modules once and forks the nodes, which takes less time than an import by each node. A fork
may have one thread only, so no event loop runs before. The loop that formats a new cluster runs in a process of its
own, during the import.
"""

import gc
import importlib
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import click
import trio

from broker.cli.errors import print_errors
from broker.cli.forked_process import fork, wait_for
from broker.cli.grammar import Command, Exit, Invocation
from broker.cli.grammar.arguments import Integer
from broker.cli.local_cluster import (
    FIRST_ID_DEFAULT,
    NODES_DEFAULT,
    NODES_MAX,
    LocalNode,
    NotOneCluster,
    find_cluster,
    open_cluster,
)
from broker.cli.local_security import LocalSecurity, MissingCryptography, read_client_files
from broker.cli.main import main
from broker.cli.printing import print_error, print_line, print_text
from broker.cli.start_arguments import LOG_FORMATS, LOG_LEVELS
from broker.cli.supervisor import Supervisor, Task, TaskEnd, describe_end
from broker.node.formatting import FormattingRefused
from kraft.env import real_env
from metadata.configuration import InvalidConfig

# Leaves room for the ids of the other nodes below the largest int32.
_NODE_ID_MAX: Final = 2_000_000_000
_PORT_MAX: Final = 65_535
_REFUSALS: Final = (NotOneCluster, MissingCryptography, InvalidConfig, FormattingRefused, OSError)


@click.command("start", cls=Command)
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
def start(
    invocation: Invocation,
    directory: str,
    nodes: int | None,
    first_id: int | None,
    first_port: int,
    security: str | None,
    overrides: Sequence[str],
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Run a cluster until SIGTERM or Ctrl-C; make it if it is not there."""
    given = [*(("--override", each) for each in overrides), ("--log-level", log_level), ("--log-format", log_format)]
    options = [part for option, value in given if value is not None for part in (option, value)]
    chosen = None if security is None else LocalSecurity(security)
    exit_code = Exit.FAILED
    try:
        exit_code = _run(os.path.abspath(directory), nodes, first_port, first_id, chosen, options)
    except* _REFUSALS as group:
        print_errors(group)
    invocation.exit_code = exit_code


def _run(
    directory: str,
    nodes: int | None,
    first_port: int,
    first_id: int | None,
    security: LocalSecurity | None,
    options: Sequence[str],
) -> Exit:
    env = real_env(lambda kind, /, **fields: None)
    find = partial(find_cluster, env, directory, nodes, first_id, security)
    local_nodes = find()
    is_new = not local_nodes
    if is_new:
        maker = fork(partial(_make, partial(open_cluster, env, directory, nodes, first_port, first_id, security)))
    _import_node()
    if is_new:
        if code := wait_for(maker):
            if code < 0:  # otherwise it has printed the reason
                print_error(f"kraft: the process that makes the cluster has ended with {describe_end(code)}")
            return Exit.FAILED
        local_nodes = find()
    supervisor = Supervisor(
        [_task(node, options) for node in local_nodes],
        _print_line,
        partial(_report_serving, local_nodes, directory, is_new),
        _report_end,
    )
    supervisor.fork(main)
    trio.run(supervisor.run, restrict_keyboard_interrupt_to_checkpoints=True)
    return Exit.FAILED if supervisor.failed else Exit.OK


def _make(make: Callable[[], Awaitable[object]]) -> int:
    """Make the cluster, in a fork. Returns an exit code."""
    exit_code = Exit.OK
    try:
        trio.run(make, restrict_keyboard_interrupt_to_checkpoints=True)
    except* _REFUSALS as group:
        print_errors(group)
        exit_code = Exit.FAILED
    return exit_code


def _import_node() -> None:
    """Import all that a node needs to start. The objects are kept from collections, which would change their pages."""
    gc.disable()
    importlib.import_module("broker.cli.start")
    gc.freeze()
    gc.enable()


def _report_serving(nodes: Sequence[LocalNode], directory: str, is_new: bool) -> None:
    """Print where clients connect, and with which configuration. Its passwords are printed once, by the first start."""
    addresses = ",".join(node.address for node in nodes)
    print_line(f"kraft: all nodes serve clients, at {addresses}; data in {directory}", flush=True)
    if nodes[0].security is LocalSecurity.PLAINTEXT:
        return
    for path, content in read_client_files(directory):
        if is_new:
            print_line(f"kraft: {path}")
            print_text(content)
    print_line(f"kraft: configurations of clients, with keys and passwords: {directory}/security", flush=True)


def _print_line(name: str, line: str) -> None:
    print_line(f"{name} | {line}", flush=True)


def _report_end(end: TaskEnd) -> None:
    """Print that a node has ended. It stays down, so that the developer notices."""
    start = f"to start it again: kraft {' '.join(end.task.arguments)}"
    print_line(f"kraft: {end.task.name} has ended with {describe_end(end.code)}; {start}", flush=True)


def _task(node: LocalNode, options: Sequence[str]) -> Task:
    return Task(f"node {node.node_id}", ["start", node.properties_path, *options], ["--stop-at-eof"])
