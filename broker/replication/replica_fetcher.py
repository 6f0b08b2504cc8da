"""Fetches from one other broker the partitions of this broker that the other one leads.

One connection, one request at a time. The records of a response are appended in the turn that receives it, with one
write per partition, and the next request leaves in the same turn; its fetch offsets acknowledge the records to the
leader. A task does what has to wait: it connects, authenticates again, flushes logs before the next request if the
topic's config requires it (`flush.messages`), and asks for the range of a leader's log.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import Any, Final

import trio

from broker.client import ConnectionLost, decode_response
from broker.net.tls_stream import socket_beneath
from broker.replication.fetch_plan import BACKOFF_MIN_MS, FETCH_VERSION, FetchPlan, OutOfRange, PartitionKey
from broker.replication.fetcher_context import CONNECT_TIMEOUT_MS, FetcherContext
from broker.replication.followed_partitions import FollowedPartitions
from broker.replication.leader_connection import NO_ANSWER, LeaderConnection
from broker.replication.leader_log_range import fetch_leader_log_ranges
from broker.replication.partition import Partition
from broker.replication.single_fetches import SingleFetches, single_response
from broker.wire.api.fetch import FetchRequest
from broker.wire.errors import WireError
from metadata.image import BrokerImage

# How long a request may stay unanswered before its session is ended for the sake of a new partition. While records
# arrive, requests are answered sooner.
RESPONSE_DUE_MS: Final = 10
_LINGER: Final = Struct("ii")


class ReplicaFetcher:
    """See the module's docstring. `source_id` is the other broker.

    `on_truncated` is called with a partition whose log was truncated and must be settled. The partition is not fetched
    any more until `follow` is called for it again.
    """

    def __init__(self, context: FetcherContext, source_id: int, on_truncated: Callable[[Partition], None]) -> None:
        self._context = context
        self._env = context.env
        self._source_id = source_id
        self._plan = FetchPlan(context.settings)
        self._single_fetches = SingleFetches(context.settings, context.client_id)
        self._followed = FollowedPartitions(context, source_id, self._plan, on_truncated)
        self._out_of_range: list[OutOfRange] = []
        self._due_at: float | None = None  # of the response to the fetch in flight
        self._authenticate_at = 0.0
        self._changed = trio.Event()
        self._connected_to: BrokerImage | None = None
        self._connection_scope = trio.CancelScope()

    @property
    def followed(self) -> Iterable[PartitionKey]:
        """The partitions it fetches, including those that are paused."""
        return self._followed.keys

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its log end offset, under its current leader epoch."""
        self._followed.add(partition)
        self._partitions_changed()

    def forget(self, partition: Partition) -> None:
        """Stop fetching a partition. A response that is on its way is ignored for it."""
        self._followed.remove(partition)
        self._partitions_changed()

    def _partitions_changed(self) -> None:
        """Wake the task that waits for work; drop a connection to a former incarnation of the source."""
        self._wake_up()
        connected_to, source = self._connected_to, self._source()
        if connected_to is not None and source is not None and source.broker_epoch != connected_to.broker_epoch:
            self._connection_scope.cancel()

    def _wake_up(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def run(self) -> None:
        """Fetch until cancelled."""
        failures = 0
        while True:
            while not self._plan:
                failures = 0
                await self._changed.wait()
            since = trio.current_time()
            with trio.CancelScope() as self._connection_scope:
                await self._connect_and_fetch()
            self._connected_to = None
            self._plan.request_lost()
            if trio.current_time() - since > self._context.settings.backoff_ms / 1000:
                failures = 0
            if self._plan:
                await self._pause(failures)
            failures += 1

    async def _pause(self, failures: int) -> None:
        """Wait before the next connection attempt. A change of the source's partitions ends the wait."""
        longest_ms = min(self._context.settings.backoff_ms, BACKOFF_MIN_MS * 2 ** min(failures, 20))
        with trio.move_on_after(longest_ms / 1000 * (0.5 + self._env.rng.random() / 2)):
            await self._changed.wait()

    async def _connect_and_fetch(self) -> None:
        """Connect and fetch, until the connection is lost or no partition is left to fetch."""
        context, source = self._context, self._source()
        endpoint = None if source is None else source.end_points.get(context.listener_name)
        if endpoint is None:
            return
        self._connected_to = source
        security = context.security
        try:
            stream, self._authenticate_at = await security.connect(
                endpoint.host, endpoint.port, context.client_id, CONNECT_TIMEOUT_MS
            )
        except ConnectionLost as error:
            self._disconnected(str(error))
            return
        # A reset drops the bytes that the kernel has not sent: no request may reach the leader after this connection.
        with suppress(OSError):
            socket_beneath(stream).setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, _LINGER.pack(1, 0))
        context.disconnected_brokers.discard(self._source_id)
        is_plain = security.tls is None and security.login is None
        connection = LeaderConnection(context.drivers.scheduler.run, context.client_id, is_plain=is_plain)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._carry, stream, connection, nursery.cancel_scope)
            nursery.start_soon(self._fetch_over, connection, nursery.cancel_scope)

    async def _carry(self, stream: trio.abc.Stream, connection: LeaderConnection, scope: trio.CancelScope) -> None:
        await self._context.drivers.carry(stream, connection)
        self._disconnected(connection.close_reason)
        scope.cancel()

    async def _fetch_over(self, connection: LeaderConnection, scope: trio.CancelScope) -> None:
        """Fetch over a connection; closes it if a response is late or cannot be read."""
        self._trace("fetcher_connected")
        self._due_at = None
        self._out_of_range = []
        try:
            await self._fetch_while_followed(connection)
        except ConnectionLost as error:
            connection.close(str(error))
        else:
            scope.cancel()

    async def _fetch_while_followed(self, connection: LeaderConnection) -> None:
        """Do what a round waits for, until no partition is left to fetch. Raises ConnectionLost."""
        while self._plan or self._due_at is not None:
            if self._due_at is not None:
                await self._wait_for_response(connection, self._due_at)
            elif self._followed.unflushed:
                await self._followed.flush()
            elif self._out_of_range:
                await self._find_range(connection)
            elif trio.current_time() >= self._authenticate_at:
                await self._authenticate_again(connection)
            elif not self._send_fetch(connection, trio.current_time()):
                with trio.move_on_at(self._plan.ready_at()):
                    await self._changed.wait()

    async def _wait_for_response(self, connection: LeaderConnection, due_at: float) -> None:
        """Wait for the time of the response, or for anything else to do. Raises ConnectionLost if it is late.

        Ends a request that waits at the leader without naming a new partition: the leader needs it to commit there.
        While records arrive the response is about to come; a full request for a new session would then cost more than
        it saves.
        """
        if self._plan.is_urgent:
            await trio.sleep(RESPONSE_DUE_MS / 1000)
            if self._plan.is_urgent:
                session_end = self._plan.session_end(self._context.broker_epoch())
                connection.post(session_end, FETCH_VERSION, _ignore)
        elif trio.current_time() >= due_at:
            raise ConnectionLost(NO_ANSWER)
        else:
            with trio.move_on_at(due_at):
                await self._changed.wait()

    async def _authenticate_again(self, connection: LeaderConnection) -> None:
        """Authenticate before the session ends (KIP-368). Raises ConnectionLost."""
        login = self._context.security.login
        assert login is not None, "only sessions that have authenticated end"
        self._authenticate_at = await login.converse(self._call_over(connection))

    def _call_over(self, connection: LeaderConnection) -> Any:
        return partial(connection.call, timeout_ms=self._context.request_timeout_ms)

    def _send_fetch(self, connection: LeaderConnection, now: float) -> bool:
        """Send the next fetch; False if there is nothing to fetch now."""
        self._followed.pause_throttled(now)
        broker_epoch, answered = self._context.broker_epoch(), partial(self._answered, connection)
        single = self._plan.single_request()
        request = self._plan.request(broker_epoch, now) if single is None else None
        if single is None and request is None:
            return False
        self._due_at = now + self._context.request_timeout_ms / 1000
        if single is None:
            connection.post(request, FETCH_VERSION, answered)
        else:
            correlation_id = connection.next_id
            frame = self._single_fetches.frame(*single, broker_epoch=broker_epoch, correlation_id=correlation_id)
            connection.post_frame(frame, answered)
        return True

    def _answered(self, connection: LeaderConnection, payload: memoryview) -> None:
        """Apply the response to a fetch, and send the next fetch, unless something has to be done before that."""
        now = trio.current_time()
        try:
            if single := single_response(payload):
                outcomes = self._plan.handle_single(*single, now)
            else:
                outcomes = self._plan.handle_response(decode_response(FetchRequest, FETCH_VERSION, payload), now)
        except WireError as error:
            connection.close(f"an answer that cannot be read: {error}")
            return
        self._due_at = None
        self._out_of_range = self._followed.apply(outcomes)
        has_to_wait = self._followed.unflushed or self._out_of_range or now >= self._authenticate_at
        if has_to_wait or not self._send_fetch(connection, now):
            self._wake_up()

    async def _find_range(self, connection: LeaderConnection) -> None:
        """Ask the leader for the start and end of its logs, and move this broker's log ends into that range."""
        asked, self._out_of_range = self._out_of_range, []
        partitions = self._followed.find(each.key for each in asked)
        epochs = {each.key: each.leader_epoch for each in asked}
        replica_id = self._context.settings.replica_id
        ranges = await fetch_leader_log_ranges(self._call_over(connection), replica_id, partitions, epochs)
        self._followed.move_into_range(partitions, epochs, ranges)

    def _disconnected(self, reason: str) -> None:
        self._context.disconnected_brokers.add(self._source_id)
        self._trace("fetcher_disconnected", reason=reason)

    def _source(self) -> BrokerImage | None:
        return self._context.source(self._source_id)

    def _trace(self, kind: str, **fields: object) -> None:
        self._env.trace(kind, node=self._context.settings.replica_id, source=self._source_id, **fields)


def _ignore(payload: memoryview) -> None:
    """The response to the end of a session says nothing."""
