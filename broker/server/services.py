"""The packages that a handler may call. Handlers keep no state of their own; the composition root makes these."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from broker.config import KafkaConfig
from broker.config.effective import EffectiveConfig
from broker.controller_client.channel import ControllerChannel
from broker.controller_client.image_waits import ImageWaits
from broker.controller_client.producer_ids import ProducerIds
from broker.log_levels import LogLevels
from broker.net.deadlines import Deadlines
from broker.net.heartbeat_connections import HeartbeatConnections
from broker.replication.disconnected_brokers import DisconnectedBrokers
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_selector import ReplicaSelector
from broker.replication.throttles import ReplicationThrottles
from broker.server.lost_brokers import LostBrokers
from broker.server.sasl import SaslListeners
from broker.server.topic_encodings import TopicEncodings
from broker.storage.log_manager import LogManager
from broker.storage.scrub.statistics import ScrubStatistics
from kraft import lazy_attrs
from kraft.env import Env
from kraft.raft_node import RaftNode
from metadata.controller import Controller
from metadata.image import MetadataLoader

if TYPE_CHECKING:  # imported when a node first needs them
    from broker.coordinator.group.coordinator import GroupCoordinator
    from broker.coordinator.group.share_groups import ShareGroups
    from broker.coordinator.runtime.runtime import CoordinatorRuntime
    from broker.coordinator.share.coordinator import ShareCoordinator
    from broker.coordinator.transaction.coordinator import TransactionCoordinator
    from broker.coordinator.transaction.marker_writer import MarkerWriter
    from broker.coordinator.transaction.verification import TransactionVerifier
    from broker.share_partitions.manager import SharePartitionManager
    from broker.telemetry import ClientTelemetry


class NodeServices(Protocol):
    """The packages that handlers may call on every listener."""

    @property
    def env(self) -> Env: ...
    @property
    def cluster_id(self) -> str: ...
    @property
    def config(self) -> KafkaConfig: ...
    @property
    def effective(self) -> EffectiveConfig: ...
    @property
    def loader(self) -> MetadataLoader: ...
    @property
    def quorum(self) -> RaftNode: ...
    @property
    def log_levels(self) -> LogLevels: ...
    @property
    def sasl(self) -> SaslListeners: ...


@lazy_attrs.frozen
class ShareServices:
    """The services of share groups: the coordinators of states and of groups, and the leaders of share-partitions."""

    coordinator: "ShareCoordinator"
    groups: "ShareGroups"
    partitions: "SharePartitionManager"


@lazy_attrs.frozen
class CoordinatorServices:
    """The coordinators, and what this broker does for those of other brokers.

    `runtimes` has the runtimes of all coordinators by `CoordinatorKeyType`.
    """

    groups: "GroupCoordinator"
    transactions: "TransactionCoordinator"
    transaction_markers: "MarkerWriter"
    transaction_verifier: "TransactionVerifier"
    shares: ShareServices
    runtimes: "Mapping[int, CoordinatorRuntime[Any]]"


class Coordination(Protocol):
    """The coordinators, which are made when they are first needed.

    A request that a broker gets before it coordinates anything waits for `make`: `services` would hold the event loop.
    """

    @property
    def are_made(self) -> bool: ...

    async def make(self) -> None:
        """Make the coordinators, in steps."""

    def services(self) -> CoordinatorServices:
        """The coordinators, made at once if there are none."""


@lazy_attrs.frozen
class Services:
    """The services on listeners for clients and brokers. `loader` replays the metadata log, and may lag the controller.

    Without a `replica_selector`, consumers
    read from leaders only. Without an HTTP listener for metrics, there is no `telemetry`.
    """

    env: Env
    cluster_id: str
    loader: MetadataLoader
    effective: EffectiveConfig
    quorum: RaftNode
    controllers: ControllerChannel
    partitions: ReplicaManager
    log_manager: LogManager
    scrub_statistics: ScrubStatistics
    disconnected_brokers: DisconnectedBrokers
    lost_brokers: LostBrokers
    fetch_sessions: FetchSessions
    replica_selector: ReplicaSelector | None
    throttles: ReplicationThrottles
    producer_ids: ProducerIds
    coordination: Coordination
    deadlines: Deadlines
    image_waits: ImageWaits
    telemetry: "ClientTelemetry | None"
    log_levels: LogLevels
    sasl: SaslListeners
    topic_encodings: TopicEncodings = attrs.field(factory=TopicEncodings)

    @property
    def config(self) -> KafkaConfig:
        """The node's configuration in force."""
        return self.effective.config

    @property
    def groups(self) -> "GroupCoordinator":
        return self.coordination.services().groups

    @property
    def transactions(self) -> "TransactionCoordinator":
        return self.coordination.services().transactions

    @property
    def transaction_markers(self) -> "MarkerWriter":
        return self.coordination.services().transaction_markers

    @property
    def transaction_verifier(self) -> "TransactionVerifier":
        return self.coordination.services().transaction_verifier

    @property
    def shares(self) -> ShareServices:
        return self.coordination.services().shares

    @property
    def coordinators(self) -> "Mapping[int, CoordinatorRuntime[Any]]":
        """The runtimes of all coordinators by `CoordinatorKeyType`."""
        return self.coordination.services().runtimes

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970."""
        return int(self.env.wall() * 1000)


@lazy_attrs.frozen
class ControllerServices:
    """The services on controllers' listeners. The controller raises KafkaError NOT_CONTROLLER unless it is active."""

    env: Env
    cluster_id: str
    loader: MetadataLoader
    effective: EffectiveConfig
    quorum: RaftNode
    controller: Controller
    heartbeat_connections: HeartbeatConnections
    log_levels: LogLevels
    sasl: SaslListeners

    @property
    def config(self) -> KafkaConfig:
        """The node's configuration in force."""
        return self.effective.config
