"""Replicas of the metadata log in this process, on the real disk, with the listeners that they have in a node."""

import attrs
import trio

from kraft.core import QuorumConfig, ReplicaKey, Voter, VoterSet
from kraft.env import Env, real_env
from kraft.raft_node import RaftNode, RaftNodeConfig
from metadata.configuration import BROKER_CONFIGS, ConfigSchema
from metadata.controller import (
    SUPPORTED_FEATURES,
    BrokerHeartbeat,
    BrokerRegistration,
    Controller,
    ControllerConfig,
)
from metadata.ids import random_uuid
from metadata.image import MetadataLoader
from metadata.records import BrokerEndpoint
from metadata.snapshot_generator import SnapshotGenerator

CLUSTER_ID = "bench-metadata-cluster"
LEADER_ID = 1
HEARTBEAT_S = 2  # broker.heartbeat.interval.ms


@attrs.frozen
class Replica:
    """A replica. `address` is where other replicas reach it."""

    env: Env
    address: str
    log: RaftNode
    loader: MetadataLoader
    controller: Controller

    async def join(self, broker_id: int, nursery: trio.Nursery) -> None:
        """Register a broker, and send its heartbeats."""
        registration = BrokerRegistration(
            cluster_id=CLUSTER_ID,
            broker_id=broker_id,
            incarnation_id=random_uuid(self.env.rng),
            end_points=[BrokerEndpoint("PLAINTEXT", f"host{broker_id}", 9092, 0)],
            features=SUPPORTED_FEATURES,
            log_dirs=[random_uuid(self.env.rng)],
        )
        broker_epoch = await self.controller.register_broker(registration)
        await self.controller.broker_heartbeat(self._heartbeat(broker_id, broker_epoch))
        nursery.start_soon(self._beat, broker_id, broker_epoch)

    async def _beat(self, broker_id: int, broker_epoch: int) -> None:
        while True:
            await trio.sleep(HEARTBEAT_S)
            await self.controller.broker_heartbeat(self._heartbeat(broker_id, broker_epoch))

    def _heartbeat(self, broker_id: int, broker_epoch: int) -> BrokerHeartbeat:
        return BrokerHeartbeat(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            current_metadata_offset=self.loader.image.offset,
            want_fence=False,
            want_shut_down=False,
        )


async def run_replica(
    directory: str, node_id: int, leader_address: str, *, task_status: trio.TaskStatus[Replica]
) -> None:
    """Run the sole voter if `leader_address` is "", or else an observer of that leader. It takes no snapshots by
    itself.
    """
    env = real_env(lambda kind, /, **fields: None)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    key = ReplicaKey(node_id, f"directory{node_id}".ljust(22, "A"))
    me = Voter(key, f"127.0.0.1:{listeners[0].socket.getsockname()[1]}")
    quorum = QuorumConfig(me.key, me.address, (leader_address,) if leader_address else ())
    voters = VoterSet(() if leader_address else (me,))
    log, loader = await RaftNode.open(env, directory, RaftNodeConfig(quorum, CLUSTER_ID, voters)), MetadataLoader()
    schema = ConfigSchema(BROKER_CONFIGS.parse({"node.id": str(node_id), "process.roles": "broker,controller"}))
    controller = Controller(ControllerConfig(cluster_id=CLUSTER_ID), log, loader, schema, env)
    for listener in (loader, controller, SnapshotGenerator(log, loader, 1 << 40, 0)):
        log.register(listener)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, log.serve, listeners)
        await nursery.start(log.run)
        await nursery.start(controller.run)
        task_status.started(Replica(env, me.address, log, loader, controller))
