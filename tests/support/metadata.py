"""Fixtures for tests of the controller: its controls on an image without a log, and a node on a simulated disk."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

import attrs
import trio

from kraft.core import QuorumConfig, ReplicaKey, Voter, VoterSet
from kraft.env import Disk, Env, Tracer
from kraft.raft_node import RaftNode, RaftNodeConfig
from metadata.configuration import BROKER_CONFIGS, ConfigSchema
from metadata.controller import (
    REGISTERED_FEATURES,
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    BrokerRegistration,
    Controller,
    ControllerConfig,
    Decision,
    DelegationTokenConfig,
)
from metadata.controller.alter_partition import AlterPartitionControl, IsrChange, IsrMember, TopicIsrChanges
from metadata.controller.broker_partitions import BrokerPartitions
from metadata.controller.brokers import BrokersControl
from metadata.controller.configs import ConfigsControl
from metadata.controller.features import bootstrap
from metadata.controller.heartbeats import HeartbeatsControl
from metadata.controller.sessions import NOT_KNOWN, BrokerSessions
from metadata.controller.topics import TopicsControl
from metadata.ids import random_uuid
from metadata.image import MetadataDelta, MetadataImage, MetadataLoader
from metadata.protocol import KafkaError
from metadata.records import BrokerEndpoint, MetadataRecord
from metadata.snapshot_generator import SnapshotGenerator
from tests.support.directory_ids import directory_id

T = TypeVar("T")

CLUSTER_ID = "abcdefghijklmnopqrstuv"
METADATA_DIRECTORY = "/data/__cluster_metadata-0"


def schema(**settings: str) -> ConfigSchema:
    """The config of a node with these settings; `_` in a name stands for `.`."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return ConfigSchema(BROKER_CONFIGS.parse({"node.id": "1", "process.roles": "broker,controller", **named}))


def registration(broker_id: int, rng: Random, **changes: Any) -> BrokerRegistration:
    """A new process of broker `broker_id`, whose one log directory is always the same."""
    asked = BrokerRegistration(
        cluster_id=CLUSTER_ID,
        broker_id=broker_id,
        incarnation_id=random_uuid(rng),
        end_points=[BrokerEndpoint("PLAINTEXT", f"host{broker_id}", 9092, 0)],
        features=REGISTERED_FEATURES,
        log_dirs=[random_uuid(Random(broker_id))],
    )
    return attrs.evolve(asked, **changes)


def refusal(error: KafkaError | None) -> tuple[str, str] | None:
    """The error of a response: the code's name and the message."""
    return None if error is None else (error.code.name, error.message)


class Cluster:
    """An image and the controls that decide on it. `decide` applies a decision as the controller does."""

    def __init__(self, brokers: int = 1, config: ControllerConfig | None = None) -> None:
        self.config = config or ControllerConfig(cluster_id=CLUSTER_ID)
        self.rng = Random(1)
        self.image = MetadataImage()
        self.log: list[MetadataRecord] = []
        self.topics = TopicsControl(self.config, schema(), self.rng)
        self.configs = ConfigsControl(schema())
        self.partitions = BrokerPartitions(schema())
        self.brokers = BrokersControl(self.config, self.partitions)
        self.heartbeats = HeartbeatsControl(self.partitions)
        self.isrs = AlterPartitionControl(schema())
        self.sessions = BrokerSessions(self.config.broker_session_timeout_ms, self.config.connection_lost_grace_ms)
        self.now_ms = 0.0
        self.take(bootstrap(self.image, self.config, schema()))
        for broker_id in range(1, brokers + 1):
            self.join(broker_id)

    def take(self, records: Sequence[MetadataRecord]) -> None:
        delta = MetadataDelta(self.image)
        delta.replay(records)
        self.log += records
        self.image = delta.apply(len(self.log) - 1)
        self.sessions.update(self.image.cluster, delta.cluster.changed, self.image.offset, self.now_ms)

    def decide(self, decision: Decision[T]) -> T:
        self.take(decision.records)
        return decision.response

    def register(self, broker_id: int, **changes: Any) -> int:
        asked = registration(broker_id, self.rng, **changes)
        decision = self.brokers.register(self.image, self.sessions, asked, len(self.log), self.now_ms)
        broker_epoch = self.decide(decision)
        self.sessions.record_contact(broker_id, NOT_KNOWN, self.now_ms)
        return broker_epoch

    def heartbeat(self, broker_id: int, **changes: Any) -> BrokerHeartbeatReply:
        """Send a heartbeat of a broker that works and has replayed everything, with `changes`."""
        asked = attrs.evolve(
            BrokerHeartbeat(
                broker_id=broker_id,
                broker_epoch=self.image.cluster.brokers[broker_id].broker_epoch,
                current_metadata_offset=self.image.offset,
                want_fence=False,
                want_shut_down=False,
            ),
            **changes,
        )
        reply = self.decide(self.heartbeats.heartbeat(self.image, self.sessions, asked))
        self.sessions.record_contact(broker_id, asked.current_metadata_offset, self.now_ms)
        return reply

    def fence(self, broker_id: int) -> None:
        self.decide(self.brokers.fence(self.image, broker_id))

    def join(self, broker_id: int, **changes: Any) -> int:
        """Register a new process of the broker. The former process is dead, and its connections are closed."""
        self.sessions.connection_lost(broker_id, self.now_ms)
        broker_epoch = self.register(broker_id, **changes)
        self.heartbeat(broker_id)
        return broker_epoch

    def catch_up(self, broker_id: int) -> None:
        """The leaders of all partitions with a replica on this broker add it to their ISRs."""
        for topic, partition_ids in self.image.topics.replicas_on(broker_id):
            for partition_id in partition_ids:
                partition = topic.partitions[partition_id]
                leader = self.image.cluster.brokers.get(partition.leader)
                if leader is None or broker_id in partition.isr:
                    continue
                change = IsrChange(
                    partition_id=partition_id,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    new_isr=[IsrMember(member) for member in (*partition.isr, broker_id)],
                )
                changes = [TopicIsrChanges(topic.topic_id, [change])]
                decision = self.isrs.alter(self.image, leader.broker_id, leader.broker_epoch, changes)
                (altered,) = self.decide(decision)
                assert altered.partitions[0].error is None, "the leader's word counts"


@attrs.define
class MetadataNode:
    controller: Controller
    loader: MetadataLoader
    log: RaftNode
    rng: Random

    async def join(self, broker_id: int = 1) -> int:
        broker_epoch = await self.controller.register_broker(registration(broker_id, self.rng))
        await self.heartbeat(broker_id, broker_epoch)
        return broker_epoch

    async def heartbeat(self, broker_id: int, broker_epoch: int, **changes: Any) -> BrokerHeartbeatReply:
        """Send a heartbeat of a broker that works and has replayed everything, with `changes`."""
        heartbeat = BrokerHeartbeat(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            current_metadata_offset=self.loader.image.offset,
            want_fence=False,
            want_shut_down=False,
        )
        return await self.controller.broker_heartbeat(attrs.evolve(heartbeat, **changes))


@asynccontextmanager
async def metadata_node(
    disk: Disk,
    snapshot_bytes: int = 20 << 20,
    snapshot_interval_ms: int = 0,
    seed: int = 5,
    *,
    watches_brokers: bool = False,
    connection_lost_grace_ms: int = 300,
    tokens: DelegationTokenConfig | None = None,
    trace: Tracer = lambda kind, /, **fields: None,
) -> AsyncIterator[MetadataNode]:
    """One controller, the sole voter of its quorum. It fences silent brokers only with `watches_brokers`."""
    env = Env(disk=disk, rng=Random(seed), wall=lambda: 1_700_000_000.0, trace=trace)
    me = ReplicaKey(1, directory_id("d1"))
    voters = VoterSet((Voter(me, "127.0.0.1:9093"),))
    config = RaftNodeConfig(QuorumConfig(me, "127.0.0.1:9093"), CLUSTER_ID, voters)
    controller_config = ControllerConfig(
        cluster_id=CLUSTER_ID,
        connection_lost_grace_ms=connection_lost_grace_ms,
        tokens=tokens or DelegationTokenConfig(),
    )
    log, loader = await RaftNode.open(env, METADATA_DIRECTORY, config), MetadataLoader()
    controller = Controller(controller_config, log, loader, schema(), env)
    snapshots = SnapshotGenerator(log, loader, snapshot_bytes, snapshot_interval_ms)
    log.register(loader)
    log.register(controller)
    log.register(snapshots)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        await nursery.start(snapshots.run)
        if watches_brokers:
            await nursery.start(controller.run)
        yield MetadataNode(controller, loader, log, env.rng)
        nursery.cancel_scope.cancel()
