"""Fetches from one other broker the partitions of this broker that the other one leads.

One task, one connection, one request at a time. The records of a response are appended at once, with one write per
partition; the fetch offsets of the next request acknowledge them to the leader. If the topic's config requires it
(`flush.messages`), they are flushed before that request.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from broker.client import Connection, ConnectionLost
from broker.client.connection_security import PLAINTEXT, ConnectionSecurity
from broker.replication.disconnected_brokers import DisconnectedBrokers
from broker.replication.fetch_plan import (
    BACKOFF_MIN_MS,
    FETCH_VERSION,
    Diverging,
    FetchPlan,
    FetchSettings,
    Outcome,
    OutOfRange,
    PartitionKey,
    Position,
    Records,
    Refused,
)
from broker.replication.follower_role import following
from broker.replication.leader_log_range import LeaderLogRange, fetch_leader_log_ranges
from broker.replication.partition import Partition
from broker.replication.throttles import Throttle
from broker.storage.fetched_batches import UnexpectedGap
from broker.wire.errors import ErrorCode, KafkaError, WireError
from kraft import lazy_attrs
from kraft.env import Env, FsyncFailed
from metadata.image import BrokerImage

CONNECT_TIMEOUT_MS: Final = 1_000
# How long a request may stay unanswered before its session is ended for the sake of a new partition. While records
# arrive, requests are answered sooner.
RESPONSE_DUE_MS: Final = 10


@lazy_attrs.frozen(kw_only=True)
class FetcherContext:
    """The settings and services that the fetchers of a broker share.

    `source` finds a broker's registration; `listener_name` names the endpoint to fetch from. `throttle` limits the
    bytes fetched for throttled replicas that are not in sync. `log_failed` is called with a partition whose disk has
    failed.
    """

    env: Env
    settings: FetchSettings
    client_id: str
    listener_name: str
    request_timeout_ms: float  # replica.socket.timeout.ms
    source: Callable[[int], BrokerImage | None]
    broker_epoch: Callable[[], int]
    throttle: Throttle
    log_failed: Callable[[Partition, OSError], None]
    disconnected_brokers: DisconnectedBrokers
    security: ConnectionSecurity = PLAINTEXT


class ReplicaFetcher:
    """See the module's docstring. `source_id` is the other broker.

    `on_truncated` is called with a partition whose log was truncated and must be settled. The partition is not fetched
    any more until `follow` is called for it again.
    """

    def __init__(self, context: FetcherContext, source_id: int, on_truncated: Callable[[Partition], None]) -> None:
        self._context = context
        self._on_truncated = on_truncated
        self._env = context.env
        self._source_id = source_id
        self._plan = FetchPlan(context.settings)
        self._partitions: dict[PartitionKey, Partition] = {}
        self._unflushed: dict[Partition, None] = {}
        self._damaged: dict[PartitionKey, tuple[int, str]] = {}  # the damage that was traced, by offset and reason
        self._changed = trio.Event()
        self._connected_to: BrokerImage | None = None
        self._connection_scope = trio.CancelScope()

    @property
    def followed(self) -> Iterable[PartitionKey]:
        """The partitions it fetches, including those that are paused."""
        return self._partitions.keys()

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its log end offset, under its current leader epoch."""
        key = partition_key(partition)
        self._partitions[key] = partition
        self._plan.follow(key, _position(partition))
        self._queue_flush(partition)
        self._wake_up()

    def forget(self, partition: Partition) -> None:
        """Stop fetching a partition. A response that is on its way is ignored for it."""
        key = partition_key(partition)
        self._partitions.pop(key, None)
        self._damaged.pop(key, None)
        self._plan.forget(key)
        self._wake_up()

    def _wake_up(self) -> None:
        """Wake the tasks that wait for work; drop a connection to a former incarnation of the source."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        connected_to, source = self._connected_to, self._source()
        if connected_to is not None and source is not None and source.broker_epoch != connected_to.broker_epoch:
            self._connection_scope.cancel()

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
        source = self._source()
        endpoint = None if source is None else source.end_points.get(self._context.listener_name)
        if endpoint is None:
            return
        self._connected_to = source
        try:
            connection = await Connection.open(
                endpoint.host,
                endpoint.port,
                self._context.client_id,
                connect_timeout_ms=CONNECT_TIMEOUT_MS,
                request_timeout_ms=self._context.request_timeout_ms,
                security=self._context.security,
            )
            self._context.disconnected_brokers.discard(self._source_id)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run_connection, connection, nursery.cancel_scope)
                nursery.start_soon(self._end_waiting_requests, connection)
                await self._fetch_until_lost(connection)
                nursery.cancel_scope.cancel()
        except ConnectionLost as error:
            self._disconnected(error)

    async def _run_connection(self, connection: Connection, scope: trio.CancelScope) -> None:
        try:
            await connection.run()
        except ConnectionLost as error:
            self._disconnected(error)
            scope.cancel()

    async def _end_waiting_requests(self, connection: Connection) -> None:
        """End a request that waits at the leader without naming a new partition: the leader needs it to commit there.

        While records arrive the response is about to come; a full request for a new session would then cost more than
        it saves.
        """
        with suppress(ConnectionLost):
            while True:
                if self._plan.is_urgent:
                    await trio.sleep(RESPONSE_DUE_MS / 1000)
                    if self._plan.is_urgent:
                        await connection.call(self._plan.session_end(self._context.broker_epoch()), FETCH_VERSION)
                else:
                    await self._changed.wait()

    def _disconnected(self, error: ConnectionLost) -> None:
        self._context.disconnected_brokers.add(self._source_id)
        self._trace("fetcher_disconnected", reason=str(error))

    async def _fetch_until_lost(self, connection: Connection) -> None:
        """Fetch over a connection until it is lost or no partition is left to fetch."""
        self._trace("fetcher_connected")
        while self._plan:
            if self._unflushed:
                await self._flush()
            self._pause_throttled()
            request = self._plan.request(self._context.broker_epoch(), trio.current_time())
            if request is None:
                with trio.move_on_at(self._plan.ready_at()):
                    await self._changed.wait()
                continue
            try:
                response = await connection.call(request, FETCH_VERSION)
            except ConnectionLost:
                return
            out_of_range = self._apply(self._plan.handle_response(response, trio.current_time()))
            if out_of_range:
                await self._find_range(connection, out_of_range)

    def _pause_throttled(self) -> None:
        """Leave out throttled partitions while the throttle's quota is exceeded."""
        throttle = self._context.throttle
        wait_ms = throttle.wait_ms
        if wait_ms <= 0:
            return
        # Limited, as the quota may be changed meanwhile.
        until = trio.current_time() + min(wait_ms, self._context.settings.backoff_ms) / 1000
        for key in list(self._plan.lagging):
            if self._partitions[key].throttled_as_follower:
                self._plan.delay(key, until)

    # Responses

    def _apply(self, outcomes: Sequence[Outcome]) -> list[OutOfRange]:
        """Apply a response; returns the partitions whose range must be asked from the leader."""
        out_of_range = []
        for outcome in outcomes:
            match outcome:
                case Records():
                    self._attempt(outcome.key, partial(self._append, outcome))
                case Diverging():
                    self._attempt(outcome.key, partial(_truncate, outcome))
                case Refused():
                    is_damage = outcome.code is ErrorCode.CORRUPT_MESSAGE
                    self._refused(outcome.key, outcome.code.name, is_damage=is_damage)
                case OutOfRange():
                    out_of_range.append(outcome)
        return out_of_range

    def _attempt(self, key: PartitionKey, act: Callable[[Partition], None]) -> None:
        """Apply a part of a response to a partition, and continue fetching it from its new log end offset."""
        partition = self._partitions.get(key)
        if partition is None:
            return  # an earlier part of the response has taken its log directory offline
        try:
            act(partition)
        except FsyncFailed:
            raise
        except OSError as error:
            self._context.log_failed(partition, error)
            return
        except (KafkaError, WireError) as error:
            if partition.log is not None and partition.log.failure is not None:
                self._context.log_failed(partition, partition.log.failure)
                return
            self._plan.back_off(key, trio.current_time())
            self._refused(key, str(error), is_damage=_is_damage(error))
            return
        assert partition.log is not None, "it was not closed meanwhile"
        if partition.log.durability.is_unsettled:
            self.forget(partition)
            self._on_truncated(partition)
        else:
            if self._damaged and partition.log.log_end_offset != self._damaged.get(key, (-1, ""))[0]:
                self._damaged.pop(key, None)
            self._plan.set_position(key, _position(partition))
            self._queue_flush(partition)

    def _queue_flush(self, partition: Partition) -> None:
        log = partition.log
        if partition.flushes_appends and log is not None and log.needs_flush(int(self._env.wall() * 1000)):
            self._unflushed[partition] = None

    async def _flush(self) -> None:
        """Flush all logs that require it, at the same time. If this is cancelled, they stay in `_unflushed`."""
        partitions = list(self._unflushed)
        async with trio.open_nursery() as nursery:
            for partition in partitions:
                nursery.start_soon(self._flush_log, partition)
        for partition in partitions:
            del self._unflushed[partition]

    async def _flush_log(self, partition: Partition) -> None:
        if partition.log is None:
            return
        try:
            await partition.log.flush()
        except FsyncFailed:
            raise
        except OSError as error:
            self._context.log_failed(partition, error)

    def _append(self, found: Records, partition: Partition) -> None:
        data = found.data
        records = memoryview(b"") if data.records is None else data.records
        assert isinstance(records, memoryview), "decoded"
        if partition.throttled_as_follower:
            self._context.throttle.record(len(records))
        following(partition, found.leader_epoch).append_fetched(
            records,
            leader_high_watermark=data.high_watermark,
            leader_log_start_offset=data.log_start_offset,
            now_ms=int(self._env.wall() * 1000),
        )

    async def _find_range(self, connection: Connection, asked: Sequence[OutOfRange]) -> None:
        """Ask the leader for the start and end of its logs, and move this broker's log ends into that range."""
        partitions = {each.key: self._partitions[each.key] for each in asked if each.key in self._partitions}
        epochs = {each.key: each.leader_epoch for each in asked}
        try:
            ends = await fetch_leader_log_ranges(connection, self._context.settings.replica_id, partitions, epochs)
        except ConnectionLost:
            return
        for key, partition in partitions.items():
            if self._partitions.get(key) is not partition or partition.leader_epoch != epochs[key]:
                continue
            self._plan.back_off(key, trio.current_time())
            found = ends.get(key)
            if found is None:
                self._refused(key, "the leader did not return the start and end of its log")
            else:
                self._attempt(key, partial(_move_into_range, found))

    def _refused(self, key: PartitionKey, reason: str, *, is_damage: bool = False) -> None:
        partition = self._partitions.get(key)
        if partition is None:
            return
        partition.trace("replica_fetch_refused", source=self._source_id, reason=reason)
        if is_damage and partition.log is not None:
            damage = partition.log.log_end_offset, reason
            if self._damaged.get(key) != damage:
                self._damaged[key] = damage
                partition.trace(
                    "replica_fetch_damaged",
                    topic=partition.topic,
                    source=self._source_id,
                    offset=damage[0],
                    reason=reason,
                )

    def _source(self) -> BrokerImage | None:
        return self._context.source(self._source_id)

    def _trace(self, kind: str, **fields: object) -> None:
        self._env.trace(kind, node=self._context.settings.replica_id, source=self._source_id, **fields)


def partition_key(partition: Partition) -> PartitionKey:
    return partition.topic_id, partition.index


def _is_damage(error: KafkaError | WireError) -> bool:
    """Whether the leader has sent a damaged batch. A gap may be right, so it does not count the first time."""
    if isinstance(error, KafkaError):
        return error.code is ErrorCode.CORRUPT_MESSAGE and not isinstance(error, UnexpectedGap)
    return True


def _position(partition: Partition) -> Position:
    log = partition.log
    assert log is not None, "a replica without a log does not follow"
    return Position(partition.leader_epoch, log.log_end_offset, log.epochs.latest_epoch, log.log_start_offset)


def _truncate(found: Diverging, partition: Partition) -> None:
    following(partition, found.leader_epoch).truncate(found.epoch, found.end_offset)


def _move_into_range(ends: LeaderLogRange, partition: Partition) -> None:
    """Truncate to the leader's log end, or restart at its log start, by Kafka's rules."""
    follower = following(partition, ends.leader_epoch)
    if ends.end_offset < follower.log.log_end_offset:
        follower.truncate(ends.leader_epoch, ends.end_offset)
    elif ends.start_offset > follower.log.log_end_offset:
        follower.restart_at(ends.start_offset)
