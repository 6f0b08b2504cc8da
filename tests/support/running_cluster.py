"""Several nodes within the test's own process and event loop, over real sockets, with ports that outlive the nodes."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random, SystemRandom

import attrs
import trio

from broker.config import KafkaConfig, read_config
from broker.node import Node
from broker.node.formatting import Formatting, format_directories
from broker.wire.uuids import encode_uuid, new_uuid
from jepsen.processes.ports import free_ports
from kraft.core import ReplicaKey, Voter, VoterSet
from kraft.env import Disk, Env, real_env
from tests.support.inline_disk import InlineDisk
from tests.support.internal_topics import FEW_PARTITIONS
from tests.support.running_node import Traced

WITHIN_S = 20.0
COMBINED = "broker,controller"
# Short enough for fast tests, and long enough for busy machines.
TIMEOUTS: Mapping[str, str] = {
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "200",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}


class ClusterNode:
    """A machine, whose disk and ports outlive its nodes. `traced` has the events of all incarnations of the node."""

    def __init__(self, config: KafkaConfig, disk: Disk, port: int, controller_port: int) -> None:
        self.config = config
        self.disk = disk
        self.port = port
        self.controller_port = controller_port
        self.traced = Traced()
        self.node: Node | None = None
        self.ended = trio.Event()
        self.ended.set()
        self._scope = trio.CancelScope()

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def is_up(self) -> bool:
        return not self.ended.is_set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        env = Env(self.disk, Random(), real_env(self.traced).wall, self.traced)
        self.ended, self._scope, self.node = trio.Event(), trio.CancelScope(), Node(env, self.config)
        try:
            with self._scope:
                await self.node.run(task_status=task_status)
        finally:
            self.ended.set()

    async def stop(self) -> None:
        """Stop the node as SIGTERM does, and wait until it has ended."""
        assert self.node is not None, f"node {self.node_id} has never run"
        self.node.stop()
        with trio.fail_after(WITHIN_S):
            await self.ended.wait()

    async def crash(self) -> None:
        """Simulate kill -9: the node does not inform others, and its sockets are closed."""
        self._scope.cancel()
        await self.ended.wait()


@attrs.define
class RunningCluster:
    """`nodes` has all nodes by id, running or not; `start` starts them in `nursery`."""

    nodes: dict[int, ClusterNode]
    nursery: trio.Nursery

    async def start(self, *node_ids: int) -> None:
        """Start these nodes, or all that are down. Wait until they serve and every broker knows that they do."""
        chosen = [self.nodes[node_id] for node_id in node_ids] or [
            each for each in self.nodes.values() if not each.is_up
        ]
        with trio.fail_after(WITHIN_S):
            async with trio.open_nursery() as starting:
                for node in chosen:
                    starting.start_soon(self.nursery.start, node.run)
        await self.until_images_match()

    def start_soon(self, node_id: int) -> None:
        """Start a node without waiting for it, because it may itself wait for others."""
        self.nursery.start_soon(self.nodes[node_id].run)

    def port(self, node_id: int) -> int:
        return self.nodes[node_id].port

    @property
    def active(self) -> ClusterNode | None:
        """The node with the active controller, according to the events of running nodes."""
        leaders = [
            (int(str(event["epoch"])), node)
            for node in self.nodes.values()
            for event in node.traced.of("leader_elected")
        ]
        latest = max(leaders, key=lambda each: each[0], default=None)
        return latest[1] if latest is not None and latest[1].is_up else None

    async def active_after(self, epoch: int = 0) -> ClusterNode:
        """Wait for an active controller in a later epoch. Returns its node."""
        await self.until(lambda: self.active is not None and self.epoch > epoch)
        assert self.active is not None, "just waited for"
        return self.active

    @property
    def epoch(self) -> int:
        """The latest epoch in which a leader was elected."""
        events = [event for node in self.nodes.values() for event in node.traced.of("leader_elected")]
        return max((int(str(event["epoch"])) for event in events), default=0)

    async def until(self, holds: Callable[[], bool]) -> None:
        with trio.fail_after(WITHIN_S):
            while not holds():
                await trio.sleep(0.005)

    async def until_images_match(self) -> None:
        """Wait until every running node has all metadata that any of them has now.

        A change is acknowledged once the active controller has committed it. The other nodes follow a moment later, as
        in Kafka, so a test waits here before it reads an acknowledged change from a broker.
        """
        latest = max(self._image_offsets(), default=-1)
        await self.until(lambda: all(offset >= latest for offset in self._image_offsets()))

    def _image_offsets(self) -> list[int]:
        """The offsets of the images of the nodes that are up."""
        running = [node.node for node in self.nodes.values() if node.is_up and node.node is not None]
        return [node.loader.image.offset for node in running if node.loader is not None]


@asynccontextmanager
async def running_cluster(
    directory: Path,
    roles: Mapping[int, str] | int = 3,
    *,
    disks: Mapping[int, Disk] | None = None,
    overrides: Mapping[str, str] | None = None,
    of_nodes: Mapping[int, Mapping[str, str]] | None = None,
    is_started: bool = True,
) -> AsyncIterator[RunningCluster]:
    """Run nodes with these roles, or a number of combined nodes. All controllers are voters, and all nodes are killed
    at the end.

    `overrides` are configs of all nodes, `of_nodes` those of single ones.
    """
    if isinstance(roles, int):
        roles = dict.fromkeys(range(1, roles + 1), COMBINED)
    ports = free_ports(2 * len(roles))
    controllers = {node_id: ports[2 * i + 1] for i, (node_id, each) in enumerate(roles.items()) if "controller" in each}
    rng = SystemRandom()
    cluster_id = encode_uuid(new_uuid(rng.randbytes))
    voters = VoterSet(
        tuple(
            Voter(ReplicaKey(node_id, encode_uuid(new_uuid(rng.randbytes))), f"127.0.0.1:{port}")
            for node_id, port in controllers.items()
        )
    )
    nodes = {}
    for index, (node_id, role) in enumerate(roles.items()):
        port, controller_port = ports[2 * index : 2 * index + 2]
        listeners = {
            "broker": f"PLAINTEXT://127.0.0.1:{port}",
            "controller": f"CONTROLLER://127.0.0.1:{controller_port}",
        }
        settings = {
            **TIMEOUTS,
            **FEW_PARTITIONS,
            "process.roles": role,
            "node.id": str(node_id),
            "listeners": ",".join(text for name, text in listeners.items() if name in role),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{each}" for each in controllers.values()),
            "log.dirs": str(directory / f"node-{node_id}"),
            **(overrides or {}),
            **(of_nodes or {}).get(node_id, {}),
        }
        config = read_config("".join(f"{key}={value}\n" for key, value in settings.items()).encode())
        disk = (disks or {}).get(node_id) or InlineDisk()
        env = Env(disk, Random(), real_env(Traced()).wall, Traced())
        formatting = Formatting(cluster_id, voters if "controller" in role else None)
        await format_directories(env, config, formatting, ignore_formatted=False, report=lambda line: None)
        nodes[node_id] = ClusterNode(config, disk, port, controller_port)
    async with trio.open_nursery() as nursery:
        cluster = RunningCluster(nodes, nursery)
        if is_started:
            await cluster.start()
        yield cluster
        nursery.cancel_scope.cancel()
