"""A cluster on this machine alone: where its nodes' data and properties files are, and how they come to be.

<directory>/node-1.properties    what `kraft start` takes; once it is there, its node is formatted
<directory>/node-1/              the node's log directory
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from errno import EADDRINUSE
from typing import Final

import attrs
import trio

from broker.cli.node_config import read_node_config
from broker.config import read_config
from broker.formatting import Formatting, format_directories
from broker.storage.whole_file import replace_durably
from broker.wire.uuids import encode_uuid, new_uuid
from kraft.core import ReplicaKey, Voter, VoterSet
from kraft.env import Env

NODES_DEFAULT: Final = 3
# More of them would make the quorum slower; that three of them fail is not to be expected.
CONTROLLERS_MAX: Final = 5
# Where free ports are looked for: below those that Linux gives to outgoing connections, which might take a node's while
# it is down.
_PORTS: Final = range(16_384, 32_768)


class NotOneCluster(Exception):
    """The directory holds something else than the cluster asked for; the message is for the operator."""


@attrs.frozen
class LocalNode:
    """`address` is where clients reach the node. The first nodes are controllers and brokers, the rest brokers."""

    node_id: int
    properties_path: str
    address: str


async def open_cluster(env: Env, directory: str, nodes: int | None, first_port: int) -> list[LocalNode]:
    """The nodes of the cluster in `directory` (an absolute path); they are made where it is empty or not there.

    `nodes` is how many there have to be; None for those there are, or three. A new node k listens for clients on
    `first_port` + 2(k - 1), and for controllers on the port after it. Where `first_port` is 0, it is one behind which
    all are free.

    Raises NotOneCluster, ConfigError, OSError, FsyncFailed.
    """
    found = _find(env, directory)
    if not found:
        if env.disk.exists(directory) and env.disk.list(directory):
            raise NotOneCluster(f"{directory} is not empty, and holds no cluster that this command has made")
        count = NODES_DEFAULT if nodes is None else nodes
        first_port = first_port or await _free_first_port(env, 2 * count)
        await _make(env, directory, range(first_port, first_port + 2 * count))
        found = _find(env, directory)
    if nodes not in (None, len(found)):
        raise NotOneCluster(f"{directory} holds a cluster of {len(found)} nodes, and not of {nodes}")
    return found


def _find(env: Env, directory: str) -> list[LocalNode]:
    nodes: list[LocalNode] = []
    while env.disk.exists(path := _properties_path(directory, len(nodes) + 1)):
        listeners = read_node_config(path, ()).endpoints.broker_listeners
        nodes.append(LocalNode(len(nodes) + 1, path, f"{listeners[0].host}:{listeners[0].port}"))
    return nodes


async def _free_first_port(env: Env, count: int) -> int:
    """The first of `count` ports in a row on which nobody listens now. Raises OSError."""
    while True:
        first_port = env.rng.randrange(_PORTS.start, _PORTS.stop - count)
        async with AsyncExitStack() as held:
            try:
                for port in range(first_port, first_port + count):
                    for listener in await trio.open_tcp_listeners(port, host="localhost"):
                        await held.enter_async_context(listener)
            except OSError as error:
                if error.errno != EADDRINUSE:
                    raise
            else:
                return first_port


async def _make(env: Env, directory: str, ports: Sequence[int]) -> None:
    """Format a node for each two ports, its clients' and its controllers'. The first node's file comes last: it tells
    that the cluster is whole.
    """
    nodes = len(ports) // 2
    voters = VoterSet(
        tuple(
            Voter(ReplicaKey(node_id, encode_uuid(new_uuid(env.rng.randbytes))), f"localhost:{ports[2 * node_id - 1]}")
            for node_id in range(1, _controllers(nodes) + 1)
        )
    )
    formatting = Formatting(encode_uuid(new_uuid(env.rng.randbytes)), voters)
    for node_id in range(nodes, 0, -1):
        properties = _properties(directory, node_id, ports[2 * node_id - 2], voters).encode()
        await format_directories(
            env, read_config(properties), formatting, ignore_formatted=False, tell=lambda line: None
        )
        await replace_durably(env.disk, _properties_path(directory, node_id), properties)


def _controllers(nodes: int) -> int:
    """How many of the nodes are controllers: an odd number, since one more tolerates no more failures."""
    return (min(nodes, CONTROLLERS_MAX) + 1) // 2 * 2 - 1


def _properties(directory: str, node_id: int, client_port: int, voters: VoterSet) -> str:
    voter = voters.get(node_id)
    listeners = f"PLAINTEXT://localhost:{client_port}"
    settings = {
        "process.roles": "broker" if voter is None else "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.bootstrap.servers": ",".join(each.address for each in voters.voters),
        "listeners": listeners if voter is None else f"{listeners},CONTROLLER://{voter.address}",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": _escaped(f"{directory}/node-{node_id}"),
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _properties_path(directory: str, node_id: int) -> str:
    return f"{directory}/node-{node_id}.properties"


def _escaped(path: str) -> str:
    """As a properties file has it, in which a backslash begins an escape, and only Latin-1 stands for itself."""
    units = path.encode("utf-16-be")
    codes = [units[index] << 8 | units[index + 1] for index in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 <= code < 0x7F and code != ord("\\") else f"\\u{code:04x}" for code in codes)
