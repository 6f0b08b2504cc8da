"""`kraft cluster start`: a cluster for development on this machine, each node a process of its own.

The first time it formats the nodes, later it starts those that are there. Their output is shown, each line with its
node. Ctrl-C, SIGTERM and SIGHUP stop all of them cleanly, a second one at once. A node that dies is reported, and not
started again: that can be done with `kraft start` and its properties file.
"""

import argparse
import os
from collections.abc import Sequence
from typing import Final

import trio

from broker.cli.local_cluster import FIRST_ID_DEFAULT, NODES_DEFAULT, LocalNode, NotOneCluster, open_cluster
from broker.cli.refusals import print_refusals
from broker.cli.supervisor import Supervisor, Task
from kraft.env import real_env
from metadata.configuration import ConfigError

# Leaves room for the ids of the other nodes below the largest int32.
_NODE_ID_MAX: Final = 2_000_000_000


def main(argv: Sequence[str]) -> int:
    options = _parser().parse_args(argv)
    directory = os.path.abspath(options.dir)
    exit_code = 1
    try:
        exit_code = trio.run(_start, directory, options, restrict_keyboard_interrupt_to_checkpoints=True)
    except* (NotOneCluster, ConfigError, OSError) as group:
        print_refusals(group)
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kraft cluster", description="A cluster on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="run a cluster until SIGTERM or Ctrl-C; make it if it is not there")
    start.add_argument(
        "--nodes", type=_count, metavar="N", help=f"how many; default: those there are, or {NODES_DEFAULT}"
    )
    start.add_argument(
        "--first-id",
        type=_node_id,
        metavar="I",
        help=f"of a new cluster: the id of its first node; default: {FIRST_ID_DEFAULT}",
    )
    start.add_argument("--dir", default="data", metavar="D", help="where their data is; default: ./data")
    start.add_argument(
        "--first-port",
        type=int,
        default=9092,
        metavar="P",
        help="of a new cluster: clients reach the first node there, controllers at the next, the second node at the "
        "next two and so on; 0: free ones; default: 9092",
    )
    start.add_argument(
        "--override", action="append", default=[], metavar="key=value", help="a config that wins over each node's file"
    )
    return parser


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("a cluster has one node at least")
    return count


def _node_id(text: str) -> int:
    node_id = int(text)
    if not 0 <= node_id < _NODE_ID_MAX:
        raise argparse.ArgumentTypeError(f"the id of a node is at least 0 and below {_NODE_ID_MAX}")
    return node_id


async def _start(directory: str, options: argparse.Namespace) -> int:
    env = real_env(lambda kind, /, **fields: None)
    nodes = await open_cluster(env, directory, options.nodes, options.first_port, options.first_id)
    addresses = ",".join(node.address for node in nodes)
    supervisor = Supervisor(
        [_task(node, options.override) for node in nodes],
        _tell,
        lambda: _tell(f"kraft: all nodes serve clients, at {addresses}; data in {directory}"),
    )
    await supervisor.run()
    return 1 if supervisor.failed else 0


def _task(node: LocalNode, overrides: Sequence[str]) -> Task:
    arguments = [part for override in overrides for part in ("--override", override)]
    return Task(f"node {node.node_id}", ["start", node.properties_path, *arguments], ["--stop-at-eof"])


def _tell(line: str) -> None:
    print(line, flush=True)
