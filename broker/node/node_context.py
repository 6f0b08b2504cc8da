"""The objects that both roles of a node use."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.config import KafkaConfig
from broker.config.effective import EffectiveConfig
from broker.config.endpoints import Listener
from broker.log_levels import LogLevels
from broker.net.acceptor import Acceptor
from broker.node.listeners import BoundListener
from broker.node.request_logging import RequestLogging
from broker.node.sasl_listeners import SaslListeners
from broker.node.transport_security import TransportSecurity
from broker.server import ControllerDispatcher, Dispatcher, Services
from broker.server.authorizer import Authorizer
from kraft import lazy_attrs
from kraft.env import Env
from kraft.raft_node import RaftNode
from metadata.image import MetadataLoader

if TYPE_CHECKING:
    from broker.node.node_metrics import NodeMetrics


@lazy_attrs.frozen
class Dispatchers:
    """Make the dispatchers of the listeners for clients and brokers, and of those for controllers.

    A node of a test cluster has dispatchers that pass each request through its faults.
    """

    broker: Callable[..., Dispatcher[Services]] = Dispatcher
    controller: Callable[..., ControllerDispatcher] = ControllerDispatcher


@lazy_attrs.frozen
class NodeContext:
    """The configuration, the metadata log's replica with its latest image, the acceptor of connections, the SASL
    mechanisms of listeners, and the log.

    `metrics` is None without an HTTP listener.
    """

    env: Env
    config: KafkaConfig
    cluster_id: str
    bound: Sequence[BoundListener]
    quorum: RaftNode
    loader: MetadataLoader
    effective: EffectiveConfig
    acceptor: Acceptor
    log_levels: LogLevels
    request_logging: RequestLogging
    sasl: SaslListeners
    security: TransportSecurity
    dispatchers: Dispatchers
    authorizer: Authorizer | None = None
    metrics: "NodeMetrics | None" = None

    def bound_for(self, listeners: Sequence[Listener]) -> list[BoundListener]:
        names = [listener.name for listener in listeners]
        return [bound for bound in self.bound if bound.listener.name in names]
