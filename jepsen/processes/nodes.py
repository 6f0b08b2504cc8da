"""A cluster of combined controllers and brokers as processes: formatted, started, killed, paused, started again.

    async with running_cluster(Path(directory), nodes=3, clients=["p1"]) as cluster:
        await cluster.nodes["n1"].kill()

Nodes speak to each other over `cluster.links`, and so do the clients that are named, each with listeners of its own
(`cluster.bootstrap_of`). Observers reach the nodes at `cluster.bootstrap`, which no fault affects. With `is_secured`,
nodes know each other by certificates, and clients and observers authenticate (`jepsen/processes/security.py`).
"""

import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import SystemRandom
from typing import Final

import attrs
import trio

from broker.client.connection_security import PLAINTEXT, ConnectionSecurity
from broker.wire.uuids import encode_uuid, new_uuid
from jepsen.processes.launcher import NODE, Program
from jepsen.processes.links import Links
from jepsen.processes.ports import free_ports
from jepsen.processes.security import ClusterSecurity
from jepsen.processes.server_process import ServerProcess
from jepsen.store import Uptime
from jepsen.workloads.connection import read_security

_OBSERVERS: Final = "OBSERVERS"
_REPLICATION: Final = "REPLICATION"
_CONTROLLER: Final = "CONTROLLER"
START_SECONDS: Final = 90.0
STOP_SECONDS: Final = 40.0
_LOOK_SECONDS: Final = 0.01
_DUMP_SECONDS: Final = 1.0
_NAMED: Final = Program("jepsen.processes.names", NODE.imports, NODE.preparation)


class NodeFailed(AssertionError):
    """A node does not start or stop when requested. The message contains the end of its output."""


class UnexpectedExit(NodeFailed):
    """A node has ended unexpectedly."""


@attrs.frozen
class Ports:
    """`open` is for observers, `replication` and `controller` are for nodes, `clients` has one listener for each
    client.
    """

    open: int
    replication: int
    controller: int
    clients: Mapping[str, int]


class NodeProcess(ServerProcess):
    """One node: `name`, `node_id`, its `directory` (data, config and output) and `ports`, over all its `uptimes`."""

    def __init__(
        self, name: str, node_id: int, directory: Path, ports: Ports, names: Mapping[str, str], *, is_controller: bool
    ) -> None:
        super().__init__(directory / "output")
        self.name = name
        self.node_id = node_id
        self.directory = directory
        self.ports = ports
        self.is_controller = is_controller
        self.properties_path = directory / "server.properties"
        self.uptimes: list[Uptime] = []
        # True if this process may end, because of a fault or a request.
        self.may_end = False
        self.observer_security: ConnectionSecurity = PLAINTEXT
        self._names = ",".join(f"{other}={address}" for other, address in names.items())

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def has_exited_unexpectedly(self) -> bool:
        """True if its last process has ended without a reason."""
        return bool(self.uptimes) and self.uptimes[-1].ended_at is None and not (self.is_running or self.may_end)

    async def format(self, cluster_id: str, *arguments: str) -> None:
        """Format its directory. Raises NodeFailed."""
        properties = str(self.properties_path)
        self.fork(_NAMED, [self._names, "format", "--cluster-id", cluster_id, "--config", properties, *arguments])
        if not await _holds(lambda: not self.is_running, START_SECONDS) or self.process.returncode:
            raise NodeFailed(f"{self.name} is not formatted:\n{self.output_tail()}")

    def launch(self) -> None:
        self.fork(_NAMED, [self._names, "start", str(self.properties_path)])

    async def start(self) -> None:
        """Start the process. It may not serve before other nodes run."""
        self.launch()
        self.may_end = False
        self.uptimes.append(Uptime(self.name, time.monotonic()))
        await trio.lowlevel.checkpoint()

    async def wait_serving(self) -> None:
        """Wait until the node has printed that it listens. Raises NodeFailed."""
        if not await _holds(lambda: self.is_serving or not self.is_running, START_SECONDS):
            await self._print_tasks()
            raise NodeFailed(f"{self.name} does not serve after {START_SECONDS} s:\n{self.output_tail()}")
        if not self.is_running:
            raise UnexpectedExit(f"{self.name} has ended:\n{self.output_tail()}")
        if self.uptimes[-1].serving_at is None:
            self.uptimes[-1] = attrs.evolve(self.uptimes[-1], serving_at=time.monotonic())

    async def kill(self) -> None:
        """kill -9."""
        await self._end(signal.SIGKILL, "kill -9")

    async def stop(self) -> None:
        """SIGTERM, and wait. Raises NodeFailed."""
        await self._end(signal.SIGTERM, "stopped")

    def note_end(self, how: str) -> None:
        """Record the end of the process."""
        self.uptimes[-1] = attrs.evolve(self.uptimes[-1], ended_at=time.monotonic(), end=how)

    async def _end(self, signal_number: signal.Signals, how: str) -> None:
        self.may_end = True
        self.send(signal_number)
        if not await _holds(lambda: not self.is_running, STOP_SECONDS):
            await self._print_tasks()
            self.discard()
            self.note_end(f"did not end when {how}")
            raise NodeFailed(f"{self.name} does not end within {STOP_SECONDS} s:\n{self.output_tail()}")
        code = self.process.returncode
        self.note_end(how if code in (0, -signal_number) else f"{how}, exit code {code}")

    async def _print_tasks(self) -> None:
        """Make the node print the stacks of its tasks; see `names`."""
        self.send(signal.SIGUSR1)
        await trio.sleep(_DUMP_SECONDS)


@attrs.frozen
class ProcessCluster:
    nodes: Mapping[str, NodeProcess]
    links: Links
    clients: Sequence[str] = ()
    security: ClusterSecurity | None = None

    @property
    def client_configs(self) -> dict[str, str]:
        """The configs of clients and observers for TLS and SASL."""
        return {} if self.security is None else dict(self.security.client_configs())

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.ports.open}" for node in self.nodes.values())

    def bootstrap_of(self, client: str) -> str:
        """The bootstrap addresses for a client, which go over its own links."""
        seen = self.links.seen_from(client)
        return ",".join(f"{seen[node.name]}:{node.ports.clients[client]}" for node in self.nodes.values())

    def by_id(self, node_id: int) -> NodeProcess:
        return next(node for node in self.nodes.values() if node.node_id == node_id)


@asynccontextmanager
async def running_cluster(
    directory: Path,
    *,
    nodes: int = 3,
    late_brokers: int = 0,
    clients: Sequence[str] = (),
    overrides: Mapping[str, str] | None = None,
    is_secured: bool = False,
) -> AsyncIterator[ProcessCluster]:
    """A formatted cluster that serves; at the end of the block its processes are killed.

    `nodes` are controllers and brokers at once. `late_brokers` are brokers alone, formatted and not started.
    """
    security = ClusterSecurity(directory / "security") if is_secured else None
    cluster = _laid_out(directory, nodes, late_brokers, clients, overrides or {}, security)
    processes = list(cluster.nodes.values())
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.links.run, _carried(cluster))
        cluster_id = encode_uuid(new_uuid(SystemRandom().randbytes))
        try:
            for process in processes:
                await process.format(cluster_id, *([] if security is None else security.format_arguments()))
            started = [process for process in processes if process.is_controller]
            for process in started:
                await process.start()
            for process in started:
                await process.wait_serving()
            yield cluster
        finally:
            for process in processes:
                process.discard()
        nursery.cancel_scope.cancel()


async def _holds(condition: Callable[[], bool], seconds: float) -> bool:
    """True if the condition holds within so many seconds."""
    with trio.move_on_after(seconds):
        while not condition():
            await trio.sleep(_LOOK_SECONDS)
        return True
    return False


def _carried(cluster: ProcessCluster) -> dict[tuple[str, str], Sequence[int]]:
    """The ports that the first of each pair uses at the second."""
    carried: dict[tuple[str, str], Sequence[int]] = {}
    for there in cluster.nodes.values():
        for here in cluster.nodes:
            if here != there.name:
                carried[here, there.name] = (there.ports.replication, there.ports.controller)
        for client in cluster.clients:
            carried[client, there.name] = (there.ports.clients[client],)
    return carried


def _laid_out(
    directory: Path,
    nodes: int,
    late_brokers: int,
    clients: Sequence[str],
    overrides: Mapping[str, str],
    security: ClusterSecurity | None,
) -> ProcessCluster:
    """A cluster with names, addresses, ports, directories and properties, which is not started."""
    names = [f"n{index}" for index in range(1, nodes + late_brokers + 1)]
    links = Links({name: f"127.0.1.{index}" for index, name in enumerate(names, 1)}, clients)
    ports = dict(zip(names, _free_ports(len(names), clients), strict=True))
    processes: dict[str, NodeProcess] = {}
    for index, name in enumerate(names, 1):
        seen = links.seen_from(name)
        process = NodeProcess(name, index, directory / name, ports[name], seen, is_controller=index <= nodes)
        process.directory.mkdir(parents=True)
        processes[name] = process
    voters = [
        f"{each.node_id}@{each.name}:{each.ports.controller}" for each in processes.values() if each.is_controller
    ]
    cluster = ProcessCluster(processes, links, clients, security)
    for process in processes.values():
        if security is not None:
            issue_certificate(cluster, process)
            process.observer_security = read_security(security.client_configs())
        settings = {**_settings(process, cluster), "controller.quorum.voters": ",".join(voters), **overrides}
        process.properties_path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return cluster


def issue_certificate(cluster: ProcessCluster, node: NodeProcess) -> None:
    """Write a new certificate of a node of a secured cluster. It names all addresses at which the node is seen."""
    assert cluster.security is not None, "the cluster has certificates"
    seen = [cluster.links.seen_from(name)[node.name] for name in (*cluster.nodes, *cluster.clients)]
    cluster.security.issue(node.name, ("127.0.0.1", node.name, *seen))


def _settings(process: NodeProcess, cluster: ProcessCluster) -> dict[str, str]:
    """Each client has a listener of its own, advertised at the address at which that client reaches the node."""
    own, address = process.ports, cluster.links.address(process.name)
    shared = [f"{_OBSERVERS}://127.0.0.1:{own.open}", f"{_REPLICATION}://{process.name}:{own.replication}"]
    listeners = [f"{client}://{address}:{port}" for client, port in own.clients.items()]
    advertised = [
        f"{client}://{cluster.links.seen_from(client)[process.name]}:{port}" for client, port in own.clients.items()
    ]
    controller = [f"{_CONTROLLER}://{process.name}:{own.controller}"] * process.is_controller
    of_clients, of_nodes = (_OBSERVERS, *own.clients), (_REPLICATION, _CONTROLLER)
    if cluster.security is None:
        security = {"listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in of_clients + of_nodes)}
    else:
        security = cluster.security.node_settings(process.name, of_clients, of_nodes)
    return {
        "process.roles": "controller,broker" if process.is_controller else "broker",
        "node.id": str(process.node_id),
        "listeners": ",".join([*shared, *listeners, *controller]),
        "advertised.listeners": ",".join([*shared, *advertised]),
        "inter.broker.listener.name": _REPLICATION,
        "controller.listener.names": _CONTROLLER,
        "log.dirs": str(process.data),
        **security,
    }


def _free_ports(nodes: int, clients: Sequence[str]) -> list[Ports]:
    free = iter(free_ports((3 + len(clients)) * nodes))
    return [Ports(next(free), next(free), next(free), {client: next(free) for client in clients}) for _ in range(nodes)]
