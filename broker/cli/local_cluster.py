"""A cluster on this machine: creates and finds its nodes' data and properties files.

<directory>/node-1.properties    what `kraft start` takes; once it is there, its node is formatted
<directory>/node-1/              the node's log directory
<directory>/security/            keys, certificates and configurations of clients, see `broker.cli.local_security`

Nodes are numbered from 1 on, or from `--first-id` on.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from errno import EADDRINUSE
from types import MappingProxyType
from typing import Final

import attrs
import trio

from broker.cli.local_security import CONTROLLER, ClusterSecrets, LocalSecurity
from broker.cli.node_config import check_log_directory, read_node_config
from broker.cli.private_files import write_private
from broker.config import read_config
from broker.config.properties import escaped
from broker.node.formatting import Formatting, format_directories
from broker.wire.uuids import encode_uuid, new_uuid
from kraft.core import ReplicaKey, Voter, VoterSet
from kraft.env import Env
from metadata.controller import DEFAULT_FEATURES

NODES_DEFAULT: Final = 3
# One machine does not run more in practice. A larger number is a typing error, and would fill the disk.
NODES_MAX: Final = 100
FIRST_ID_DEFAULT: Final = 1
# A larger quorum is slower, and a failure of three controllers on one machine is not to be expected.
CONTROLLERS_MAX: Final = 5
# The range in which free ports are searched. It is below the ports that Linux gives to outgoing connections, which
# might take a node's port while the node is down.
_PORTS: Final = range(16_384, 32_768)
# The default replication factor of the coordinators' topics. With fewer nodes they could never be created.
_INTERNAL_REPLICAS: Final = 3
_PROPERTIES: Final = re.compile(r"node-(0|[1-9][0-9]{0,9})\.properties")


class NotOneCluster(Exception):
    """The directory does not hold the requested cluster; the message is for the operator."""


@attrs.frozen
class LocalNode:
    """`address` is where clients reach the node. The first nodes are controllers and brokers, the rest brokers."""

    node_id: int
    properties_path: str
    address: str
    security: LocalSecurity


async def open_cluster(
    env: Env,
    directory: str,
    nodes: int | None,
    first_port: int,
    first_id: int | None = None,
    security: LocalSecurity | None = None,
    features: Mapping[str, int] = MappingProxyType({}),
) -> list[LocalNode]:
    """Finds the nodes of the cluster in `directory` (an absolute path). Creates them if it is empty or does not exist.

    `nodes` is the required number of nodes; None means the existing ones, or three new ones. `first_id` is the id of
    the first node; None means the existing id, or 1. The k-th new node listens for clients on `first_port` + 2(k - 1),
    and for controllers on the port after that. If `first_port` is 0, a range of free ports is chosen. `security` is
    that of a new cluster, PLAINTEXT by default; an existing one must have the same. `features` are levels of a new
    cluster that differ from those of any.

    Raises NotOneCluster, MissingCryptography, InvalidConfig, OSError, FsyncFailed.
    """
    found = find_cluster(env, directory, nodes, first_id, security)
    if found:
        return found
    check_log_directory(directory)
    count = NODES_DEFAULT if nodes is None else nodes
    first_port = first_port or await _free_first_port(env, 2 * count)
    start = FIRST_ID_DEFAULT if first_id is None else first_id
    node_ids = range(start, start + count)
    await _make(env, directory, node_ids, first_port, security or LocalSecurity.PLAINTEXT, features)
    return find_cluster(env, directory, nodes, first_id, security)


def find_cluster(
    env: Env, directory: str, nodes: int | None, first_id: int | None, security: LocalSecurity | None
) -> list[LocalNode]:
    """As `open_cluster`, for a cluster that exists: returns no nodes if the directory is empty or does not exist.

    Raises NotOneCluster, InvalidConfig, OSError.
    """
    found = _find(env, directory)
    if not found:
        if env.disk.exists(directory) and env.disk.list(directory):
            raise NotOneCluster(f"{directory} is not empty, and holds no cluster that this command has made")
        return []
    if nodes not in (None, len(found)):
        raise NotOneCluster(f"{directory} holds a cluster of {len(found)} nodes, and not of {nodes}")
    if first_id not in (None, found[0].node_id):
        raise NotOneCluster(f"{directory} holds a cluster whose first node is {found[0].node_id}, and not {first_id}")
    if security not in (None, found[0].security):
        raise NotOneCluster(f"{directory} holds a cluster with --security {found[0].security}, and not {security}")
    return found


def _find(env: Env, directory: str) -> list[LocalNode]:
    """The nodes of an existing cluster; none if it is incomplete, that is, if a controller's file is missing."""
    names = env.disk.list(directory) if env.disk.exists(directory) else []
    node_ids = sorted(int(found[1]) for name in names if (found := _PROPERTIES.fullmatch(name)))
    node_ids = [node_id for index, node_id in enumerate(node_ids) if node_id == node_ids[0] + index]
    configs = {node_id: read_node_config(_properties_path(directory, node_id), ()) for node_id in node_ids}
    for config in configs.values():
        for server in config.quorum_bootstrap_servers:
            if not any(each.endpoints.is_own_controller(server) for each in configs.values()):
                return []
    listeners = {node_id: config.endpoints.broker_listeners[0] for node_id, config in configs.items()}
    return [
        LocalNode(
            node_id,
            _properties_path(directory, node_id),
            f"{listener.host}:{listener.port}",
            LocalSecurity.of(listener.security_protocol, configs[node_id].ssl_client_auth),
        )
        for node_id, listener in listeners.items()
    ]


async def _free_first_port(env: Env, count: int) -> int:
    """The first of `count` consecutive ports that no process listens on now. Raises OSError."""
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


async def _make(
    env: Env,
    directory: str,
    node_ids: Sequence[int],
    first_port: int,
    security: LocalSecurity,
    features: Mapping[str, int],
) -> None:
    """Format the nodes. Each has two ports, its clients' and its controllers'. The first node's file comes last: with
    it all controllers' files are there.
    """
    ports = {node_id: first_port + 2 * index for index, node_id in enumerate(node_ids)}
    voters = VoterSet(
        tuple(
            Voter(ReplicaKey(node_id, encode_uuid(new_uuid(env.rng.randbytes))), f"localhost:{ports[node_id] + 1}")
            for node_id in node_ids[: _controllers(len(node_ids))]
        )
    )
    secrets = ClusterSecrets.make(env, security, directory, node_ids)
    secrets.write_client_files(",".join(f"localhost:{port}" for port in ports.values()))
    levels = {**DEFAULT_FEATURES, **features}
    formatting = Formatting(encode_uuid(new_uuid(env.rng.randbytes)), voters, levels, users=secrets.users(env))
    for node_id in reversed(node_ids):
        settings = {
            **_settings(directory, node_id, ports[node_id], voters, security),
            **secrets.node_settings(node_id),
            **_internal_topics(len(node_ids)),
        }
        properties = "".join(f"{key}={escaped(value)}\n" for key, value in settings.items()).encode()
        await format_directories(
            env, read_config(properties), formatting, ignore_formatted=False, report=lambda line: None
        )
        write_private(_properties_path(directory, node_id), properties)


def _controllers(nodes: int) -> int:
    """The number of controllers: odd, since one more would not tolerate more failures."""
    return (min(nodes, CONTROLLERS_MAX) + 1) // 2 * 2 - 1


def _settings(
    directory: str, node_id: int, client_port: int, voters: VoterSet, security: LocalSecurity
) -> dict[str, str]:
    voter = voters.get(node_id)
    name = security.protocol.name
    listeners = f"{name}://localhost:{client_port}"
    return {
        "process.roles": "broker" if voter is None else "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.bootstrap.servers": ",".join(each.address for each in voters.voters),
        "listeners": listeners if voter is None else f"{listeners},{CONTROLLER}://{voter.address}",
        "inter.broker.listener.name": name,
        "controller.listener.names": CONTROLLER,
        "log.dirs": f"{directory}/node-{node_id}",
    }


def _internal_topics(nodes: int) -> dict[str, str]:
    """Replication configs of the coordinators' topics, if there are fewer nodes than the defaults require."""
    if nodes >= _INTERNAL_REPLICAS:
        return {}
    return {
        "offsets.topic.replication.factor": str(nodes),
        "transaction.state.log.replication.factor": str(nodes),
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": str(nodes),
        "share.coordinator.state.topic.min.isr": "1",
    }


def _properties_path(directory: str, node_id: int) -> str:
    return f"{directory}/node-{node_id}.properties"
