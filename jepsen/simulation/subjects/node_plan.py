"""The nodes of a simulated cluster, their configuration, and the arguments of their formatting."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

import attrs
import trio

from broker.config import KafkaConfig, read_config
from broker.config.properties import parse_properties
from broker.node import Node
from broker.node.formatting import Formatting, format_directories
from broker.storage.meta_properties import META_PROPERTIES
from broker.wire.uuids import encode_uuid, new_uuid
from jepsen.simulation.cluster import NodeFactory
from jepsen.simulation.disk.tree import Inode
from jepsen.simulation.hosts import Host
from jepsen.simulation.subjects.node_security import NodeSecurity
from kraft.core import ReplicaKey, Voter, VoterSet
from kraft.env import Env

KAFKA_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
METADATA_DIRECTORY: Final = "/metadata"
# The log directories, on one disk or on two.
LOG_DIRECTORIES: Final = ("/var/kafka", "/srv/kafka")
SCRUB_INTERVAL_MS: Final = 4000
# Short intervals, so that periodic storage tasks run during faults.
_OF_NODES_ALONE: Final[Mapping[str, str]] = {
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "3000",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "2000",
}
_OF_CLUSTERS: Final[Mapping[str, str]] = {
    "log.initial.task.delay.ms": "5000",
    "log.retention.check.interval.ms": "20000",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "log.flush.start.offset.checkpoint.interval.ms": "20000",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
    "log.scrub.interval.ms": str(SCRUB_INTERVAL_MS),
    # A client that was idle may use at once what its quota allows in two seconds.
    "quota.window.num": "3",
    # Short timeouts, so that groups react to the failure of a member as fast as a cluster reacts to that of a node.
    "group.initial.rebalance.delay.ms": "300",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1500",
}
# replica.lag.time.max.ms, from shorter than the detection of a fault to Kafka's default.
_LAG_MAX_MS: Final = ("1000", "3000", "30000")
_SNAPSHOT_BYTES: Final = ("2000", "20000", "20971520")


class FormattedNode:
    """A `jepsen.simulation.hosts.Process`: a node that formats its directories, if necessary, and then starts.

    `formatting` returns the cluster id and the voters with which the present disk is formatted. `node` is the node that
    runs after that.
    """

    def __init__(self, env: Env, config: KafkaConfig, formatting: Callable[[], Formatting]) -> None:
        self._env = env
        self._config = config
        self._formatting = formatting
        self.node = Node(env, config)

    def stop(self) -> None:
        self.node.stop()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        await format_directories(
            self._env, self._config, self._formatting(), ignore_formatted=True, report=lambda line: None
        )
        await self.node.run(task_status=task_status)


@attrs.frozen
class Planned:
    """One node. Its name is that of its machine."""

    name: str
    node_id: int
    is_controller: bool
    is_broker: bool

    @property
    def roles(self) -> str:
        return ",".join(["controller"] * self.is_controller + ["broker"] * self.is_broker)


class NodePlan:
    """The nodes of a cluster: `combined` ones, which are controllers and brokers, then pure `controllers` and
    `brokers`.

    Brokers have the log directories `log_directories`, and all nodes the configs `overrides`. The voters are known with
    their directory ids from the start (KIP-853) or, depending on `chance`, by their node ids alone. Nodes that are
    secured have another listener for clients, see `NodeSecurity`.
    """

    def __init__(
        self,
        combined: int,
        controllers: int,
        brokers: int,
        chance: Random,
        log_directories: Sequence[str] = LOG_DIRECTORIES[:1],
        overrides: Mapping[str, str] | None = None,
        *,
        is_secured: bool = False,
    ) -> None:
        roles = [(True, True)] * combined + [(True, False)] * controllers + [(False, True)] * brokers
        self.nodes = [Planned(f"n{at}", at, *each) for at, each in enumerate(roles, 1)]
        self.cluster_id = encode_uuid(new_uuid(chance.randbytes))
        self.log_directories = log_directories
        self._overrides = overrides or {}
        self._security = NodeSecurity(chance) if is_secured else None
        self.is_static = chance.random() < 0.3
        self._snapshot_bytes = chance.choice(_SNAPSHOT_BYTES)
        self._lag_max_ms = chance.choice(_LAG_MAX_MS)
        self._founders = VoterSet(
            tuple(
                Voter(
                    ReplicaKey(each.node_id, encode_uuid(new_uuid(chance.randbytes))), f"{each.name}:{CONTROLLER_PORT}"
                )
                for each in self.controllers
            )
        )

    @property
    def controllers(self) -> list[Planned]:
        return [each for each in self.nodes if each.is_controller]

    @property
    def configured_voters(self) -> list[str]:
        """The names of the nodes in `controller.quorum.voters`."""
        return [each.name for each in self.controllers] if self.is_static else []

    @property
    def brokers(self) -> list[Planned]:
        return [each for each in self.nodes if each.is_broker]

    def factory(self, node: Planned, disks_lost: Mapping[str, int]) -> NodeFactory:
        """The function that creates a node's process. `disks_lost` counts the losses of each node's metadata log."""
        config = self._config(node)
        if len(self.nodes) == 1:
            return lambda env: Node(env, config)  # founds its cluster by itself

        def formatting() -> Formatting:
            begins = not self.is_static and node.is_controller and not disks_lost[node.name]
            users = () if self._security is None else self._security.users
            return Formatting(self.cluster_id, self._founders if begins else None, users=users)

        return lambda env: FormattedNode(env, config, formatting)

    def _config(self, node: Planned) -> KafkaConfig:
        listeners = [f"PLAINTEXT://{node.name}:{KAFKA_PORT}"] * node.is_broker
        listeners += [f"CONTROLLER://{node.name}:{CONTROLLER_PORT}"] * node.is_controller
        settings = {
            "metadata.log.dir": METADATA_DIRECTORY,
            **(_OF_NODES_ALONE if len(self.nodes) == 1 else _OF_CLUSTERS),
            "log.dirs": ",".join(self.log_directories),
            "node.id": str(node.node_id),
            "listeners": ",".join(listeners),
            "metadata.log.max.record.bytes.between.snapshots": self._snapshot_bytes,
        }
        if len(self.nodes) > 1:
            addresses = {each.node_id: f"{each.name}:{CONTROLLER_PORT}" for each in self.controllers}
            settings |= {"process.roles": node.roles, "controller.listener.names": "CONTROLLER"}
            settings["replica.lag.time.max.ms"] = self._lag_max_ms
            if self.is_static:
                voters = ",".join(f"{node_id}@{address}" for node_id, address in addresses.items())
                settings["controller.quorum.voters"] = voters
            else:
                settings["controller.quorum.bootstrap.servers"] = ",".join(addresses.values())
        if self._security is not None:
            settings |= self._security.configs(node.name, listeners, is_broker=node.is_broker)
        settings |= self._overrides
        return read_config(None, [f"{key}={value}" for key, value in settings.items()])


def meta_property(host: Host, key: str) -> str | None:
    """A property of a machine's metadata log directory, as it is on the disk; None before it is formatted."""
    file = host.volume.find(f"{METADATA_DIRECTORY}/{META_PROPERTIES}")
    return parse_properties(bytes(file.durable)).get(key) if isinstance(file, Inode) else None
