"""The controller role of a node: active while this node leads the quorum, and idle otherwise."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import trio

from broker.controller_client.channel import ControllerChannel
from broker.controller_client.controller_registrar import ControllerRegistrar
from broker.handlers import CONTROLLER_HANDLERS
from broker.net.connection import Connection
from broker.net.deadlines import Deadlines
from broker.net.heartbeat_connections import HeartbeatConnections
from broker.node.broker_probes import BrokerProbes
from broker.node.listeners import reachable
from broker.node.node_context import NodeContext
from broker.quota import MutationQuotas, QuotaWindows
from broker.server import ControllerDispatcher, ControllerServices
from broker.server.quotas import MutationCharging
from broker.wire.uuids import new_uuid
from kraft.replicated_log import Batch, Leadership
from metadata.configuration.settings import settings_from
from metadata.controller import (
    REGISTERED_FEATURES,
    Controller,
    ControllerConfig,
    ControllerRegistration,
    DelegationTokenConfig,
)
from metadata.protocol import KafkaError
from metadata.records import BrokerEndpoint


class ControllerRole:
    """Registers the controller and itself as listeners of the quorum. Requests to the controller run in `nursery`.

    When the controller is deposed, the role closes the connections to it. A request that is still unread in a
    connection could otherwise run when this node leads again, long after its retry ran on another controller.
    Requests that were already decided get their responses first. A leader that removed itself from the voters, for
    example, has committed that change; the next leader would answer the retry with VOTER_NOT_FOUND.
    """

    def __init__(self, shared: NodeContext, nursery: trio.Nursery) -> None:
        self._shared, config = shared, shared.config
        self.controller = Controller(
            settings_from(
                ControllerConfig,
                config,
                cluster_id=shared.cluster_id,
                tokens=settings_from(DelegationTokenConfig, config),
            ),
            shared.quorum,
            shared.loader,
            config.schema(),
            shared.env,
        )
        self._heartbeat_connections = HeartbeatConnections()
        self.dispatcher = self._make_dispatcher(nursery)
        self._deadlines = self._limit_mutations()
        self._probes = BrokerProbes(self.controller, config.endpoints.inter_broker_listener_name, nursery)
        self._nursery, self._was_active = nursery, False
        self._observe_requests()
        shared.quorum.register(self.controller)
        shared.quorum.register(self)

    def _observe_requests(self) -> None:
        """Include the requests to this role in the log, and in the metrics if there are any."""
        shared = self._shared
        shared.request_logging.add(self.dispatcher)
        if shared.metrics is not None:
            shared.metrics.add_controller(
                shared.loader, lambda: self.controller.is_active, self.dispatcher.request_counts
            )

    def _make_dispatcher(self, nursery: trio.Nursery) -> ControllerDispatcher:
        shared = self._shared
        services = ControllerServices(
            env=shared.env,
            cluster_id=shared.cluster_id,
            loader=shared.loader,
            effective=shared.effective,
            quorum=shared.quorum,
            controller=self.controller,
            heartbeat_connections=self._heartbeat_connections,
            log_levels=shared.log_levels,
            sasl=shared.sasl,
        )
        dispatcher = shared.dispatchers.controller(services, CONTROLLER_HANDLERS, nursery)
        dispatcher.authorize(shared.authorizer)
        return dispatcher

    def _limit_mutations(self) -> Deadlines:
        """Charge clients for changes of metadata (KIP-599). Returns the deadlines at which muted clients go on."""
        deadlines = Deadlines()
        config = self._shared.config
        windows = QuotaWindows(config.controller_quota_window_num, config.controller_quota_window_size_seconds)
        quotas = MutationQuotas(windows, lambda: trio.current_time() * 1000, config.dynamic_configs_ignored)
        self._shared.loader.add_publisher(quotas.publish)
        self.dispatcher.mutation_charging = MutationCharging(quotas, deadlines)
        return deadlines

    async def start(self) -> None:
        """Accept connections of other replicas and of brokers. Called before the quorum runs, which needs them."""
        shared = self._shared
        for bound in shared.bound_for(shared.config.endpoints.controller_listeners):
            security = shared.security.of_listener(bound.listener.name)
            self._nursery.start_soon(
                partial(shared.acceptor.serve_controllers, security=security),
                bound.listener.name,
                bound.sockets,
                self.dispatcher,
                self._serve_replica,
            )
        self._nursery.start_soon(self._deadlines.run)
        await self._nursery.start(self.controller.run)
        if (secret_key := shared.config.delegation_token_secret_key) is not None and secret_key.value:
            self._nursery.start_soon(self._remove_expired_tokens)

    async def _serve_replica(self, stream: trio.abc.Stream, principal: str, host: str) -> None:
        refusal = self.dispatcher.refusal_of_replica(principal, host)
        if refusal:
            self._shared.env.trace("quorum_replica_refused", principal=principal, host=host, reason=refusal)
        await self._shared.quorum.serve(stream, refusal)

    async def _remove_expired_tokens(self) -> None:
        """Look for delegation tokens that have expired, until cancelled."""
        interval_s = self._shared.config.delegation_token_expiry_check_interval_ms / 1000
        while True:
            await trio.sleep(interval_s)
            with suppress(KafkaError):  # this node is not the active controller
                await self.controller.security.remove_expired_tokens()

    def registrar(self, channel: ControllerChannel) -> ControllerRegistrar:
        """The task that registers this process as a controller, over `channel`.

        The requests by which this controller adds itself to the voters take the same channel.
        """
        shared = self._shared
        registration = ControllerRegistration(
            controller_id=shared.config.node_id,
            incarnation_id=new_uuid(shared.env.rng.randbytes),
            end_points=[
                BrokerEndpoint(listener.name, *reachable(listener, shared.bound), listener.security_protocol)
                for listener in shared.config.endpoints.advertised_controller_listeners
            ],
            features=REGISTERED_FEATURES,
        )
        if shared.config.controller_quorum_auto_join_enable:
            from broker.controller_client.join_requests import JoinRequests  # other nodes start faster without it

            shared.quorum.join_by(JoinRequests(channel, shared.cluster_id, registration, shared.env.trace).send)
        return ControllerRegistrar(registration, channel, shared.loader, shared.env.trace)

    def connection_closed(self, connection: Connection) -> None:
        """Check the broker that sent its heartbeats over this connection: it may have ended."""
        for broker_id, broker_epoch in self._heartbeat_connections.closed(connection):
            self.controller.broker_connection_lost(broker_id, broker_epoch)
            self._probes.probe(broker_id)

    def handle_connection_reset(self, node_id: int) -> None:
        """Check the broker on that node, too. The controller was notified before."""
        self._probes.probe(node_id)

    def handle_leader_change(self, leadership: Leadership) -> None:
        was_active, self._was_active = self._was_active, self.controller.is_active
        if was_active:
            for listener in self._shared.config.endpoints.controller_listeners:
                self._shared.acceptor.finish_all(listener.name, "this node is not the active controller any more")

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        """The role ignores committed records and snapshots."""

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        """The role ignores committed records and snapshots."""
