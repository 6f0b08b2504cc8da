"""A node's part as a controller: active while this node leads the quorum, and idle otherwise."""

from collections.abc import Iterator, Sequence

import trio

from broker.controller_client.channel import ControllerChannel
from broker.controller_client.controller_registrar import ControllerRegistrar
from broker.handlers import CONTROLLER_HANDLERS
from broker.net.connection import Connection
from broker.net.heartbeat_connections import HeartbeatConnections
from broker.node.listeners import reachable
from broker.node.settings import controller_config
from broker.node.shared import Shared
from broker.node.suspects import Suspects
from broker.server import ControllerDispatcher, ControllerServices
from broker.wire.uuids import new_uuid
from kraft.replicated_log import Batch, Leadership
from metadata.controller import SUPPORTED_FEATURES, Controller, ControllerRegistration
from metadata.records import BrokerEndpoint


class ControllerRole:
    """Registers what it needs to hear with the quorum when it is made; its requests run in `nursery`.

    A listener of the quorum itself: whoever asked an active controller that is deposed has to connect again. What it
    left in a connection could otherwise be done when this node leads again, long after it was done elsewhere. Requests
    that were decided are answered first: that of a leader which removed itself from the voters is committed, and the
    next leader would answer its repetition with VOTER_NOT_FOUND.
    """

    def __init__(self, shared: Shared, nursery: trio.Nursery) -> None:
        self._shared = shared
        config = shared.config
        self.controller = Controller(
            controller_config(config, shared.cluster_id),
            shared.quorum,
            shared.loader,
            config.schema(),
            shared.env.rng,
        )
        self._heartbeat_connections = HeartbeatConnections()
        self.dispatcher = ControllerDispatcher(
            ControllerServices(
                env=shared.env,
                cluster_id=shared.cluster_id,
                loader=shared.loader,
                effective=shared.effective,
                quorum=shared.quorum,
                controller=self.controller,
                heartbeat_connections=self._heartbeat_connections,
            ),
            CONTROLLER_HANDLERS,
            nursery,
        )
        self._suspects = Suspects(self.controller, config.endpoints.inter_broker_listener_name, nursery)
        self._nursery = nursery
        self._was_active = False
        shared.quorum.register(self.controller)
        shared.quorum.register(self)

    async def start(self) -> None:
        """Let other replicas and brokers in. Before the quorum runs: it needs them."""
        shared = self._shared
        for bound in shared.bound_for(shared.config.endpoints.controller_listeners):
            self._nursery.start_soon(
                shared.acceptor.serve_controllers,
                bound.listener.name,
                bound.sockets,
                self.dispatcher,
                shared.quorum.serve,
            )
        await self._nursery.start(self.controller.run)

    def registrar(self, channel: ControllerChannel) -> ControllerRegistrar:
        """Who makes this process known as a controller, by way of `channel`."""
        shared = self._shared
        registration = ControllerRegistration(
            controller_id=shared.config.node_id,
            incarnation_id=new_uuid(shared.env.rng.randbytes),
            end_points=[
                BrokerEndpoint(listener.name, *reachable(listener, shared.bound), listener.security_protocol)
                for listener in shared.config.endpoints.advertised_controller_listeners
            ],
            features=SUPPORTED_FEATURES,
        )
        return ControllerRegistrar(registration, channel, shared.loader, shared.env.trace)

    def connection_closed(self, connection: Connection) -> None:
        """A broker whose heartbeats came through it may be gone."""
        for broker_id, broker_epoch in self._heartbeat_connections.closed(connection):
            self.controller.broker_connection_lost(broker_id, broker_epoch)
            self._suspects.look_at(broker_id)

    def handle_connection_reset(self, node_id: int) -> None:
        """The controller has heard of it before."""
        self._suspects.look_at(node_id)

    def handle_leader_change(self, leadership: Leadership) -> None:
        was_active, self._was_active = self._was_active, self.controller.is_active
        if was_active:
            for listener in self._shared.config.endpoints.controller_listeners:
                self._shared.acceptor.finish_all(listener.name, "this node is not the active controller any more")

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        """Of no interest here."""

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        """Of no interest here."""
