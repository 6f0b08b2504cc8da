"""Fetches from one other broker whatever of this broker's partitions that one leads.

One task, one connection, one request at a time. What an answer brings is appended at once, in one write per partition;
the next request says by its offsets that it is there. Where the topic's config asks for it (`flush.messages`), that is
flushed before the next request says so.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from broker.client import Connection, ConnectionLost
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
from broker.replication.following import follow_append, restart_at, truncate
from broker.replication.leader_ends import LeaderEnds, ask_leader_ends
from broker.replication.lost_brokers import LostBrokers
from broker.replication.partition import Partition
from broker.replication.throttles import Throttle
from broker.wire.errors import KafkaError, WireError
from kraft.env import Env, FsyncFailed
from metadata.image import BrokerImage

CONNECT_TIMEOUT_MS: Final = 1_000
# Where records flow, a request is answered sooner.
ANSWER_IS_DUE_MS: Final = 10


@attrs.frozen(kw_only=True)
class FetcherSurroundings:
    """What the fetchers of a broker share.

    `source` finds a broker's registration; `listener_name` is that of the endpoint to fetch from. `throttle` holds back
    what is taken in of throttled replicas that are not in sync. `log_failed` hears of a partition of which the disk has
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
    lost_brokers: LostBrokers


class Fetcher:
    """See the module's docstring. `source_id` is the other broker.

    `was_cut` hears of a partition of which the log was cut: that is to be settled, and the partition is not fetched any
    more until `follow` is told of it again.
    """

    def __init__(self, surroundings: FetcherSurroundings, source_id: int, was_cut: Callable[[Partition], None]) -> None:
        self._surroundings = surroundings
        self._was_cut = was_cut
        self._env = surroundings.env
        self._source_id = source_id
        self._plan = FetchPlan(surroundings.settings)
        self._partitions: dict[PartitionKey, Partition] = {}
        self._unflushed: dict[Partition, None] = {}
        self._changed = trio.Event()
        self._connected_to: BrokerImage | None = None
        self._holding = trio.CancelScope()

    @property
    def followed(self) -> Iterable[PartitionKey]:
        """What it fetches, or would if it could."""
        return self._partitions.keys()

    def follow(self, partition: Partition) -> None:
        """Fetch a partition under its leader epoch of now, from where its log ends."""
        key = partition_key(partition)
        self._partitions[key] = partition
        self._plan.follow(key, _position(partition))
        self._flush_if_asked(partition)
        self._notice_change()

    def forget(self, partition: Partition) -> None:
        """Do not fetch it any more. An answer that is on its way is not acted upon."""
        key = partition_key(partition)
        self._partitions.pop(key, None)
        self._plan.forget(key)
        self._notice_change()

    def _notice_change(self) -> None:
        """Whoever waits for something to do looks again; a connection to a former life of the source is given up."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        connected_to, source = self._connected_to, self._source()
        if connected_to is not None and source is not None and source.broker_epoch != connected_to.broker_epoch:
            self._holding.cancel()

    async def run(self) -> None:
        """Fetch until cancelled."""
        failures = 0
        while True:
            while not self._plan:
                failures = 0
                await self._changed.wait()
            since = trio.current_time()
            with trio.CancelScope() as self._holding:
                await self._hold()
            self._connected_to = None
            self._plan.lost()
            if trio.current_time() - since > self._surroundings.settings.backoff_ms / 1000:
                failures = 0
            if self._plan:
                await self._pause(failures)
            failures += 1

    async def _pause(self, failures: int) -> None:
        """Before another attempt at a connection. Whatever is heard of the source's partitions ends it."""
        longest_ms = min(self._surroundings.settings.backoff_ms, BACKOFF_MIN_MS * 2 ** min(failures, 20))
        with trio.move_on_after(longest_ms / 1000 * (0.5 + self._env.rng.random() / 2)):
            await self._changed.wait()

    async def _hold(self) -> None:
        """Be connected and fetch, until the connection is lost or there is nothing to fetch any more."""
        source = self._source()
        endpoint = None if source is None else source.end_points.get(self._surroundings.listener_name)
        if endpoint is None:
            return
        self._connected_to = source
        try:
            connection = await Connection.open(
                endpoint.host,
                endpoint.port,
                self._surroundings.client_id,
                connect_timeout_ms=CONNECT_TIMEOUT_MS,
                request_timeout_ms=self._surroundings.request_timeout_ms,
            )
            self._surroundings.lost_brokers.find(self._source_id)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._carry, connection, nursery.cancel_scope)
                nursery.start_soon(self._hurry, connection)
                await self._fetch_over(connection)
                nursery.cancel_scope.cancel()
        except ConnectionLost as error:
            self._lost(error)

    async def _carry(self, connection: Connection, scope: trio.CancelScope) -> None:
        try:
            await connection.run()
        except ConnectionLost as error:
            self._lost(error)
            scope.cancel()

    async def _hurry(self, connection: Connection) -> None:
        """Do not let a partition wait to be fetched for an answer that waits for others: its leader needs it to commit.

        But where records flow, the answer is about to come, and naming all anew would cost more than it saves.
        """
        with suppress(ConnectionLost):
            while True:
                if self._plan.is_urgent:
                    await trio.sleep(ANSWER_IS_DUE_MS / 1000)
                    if self._plan.is_urgent:
                        await connection.call(self._plan.ending(self._surroundings.broker_epoch()), FETCH_VERSION)
                else:
                    await self._changed.wait()

    def _lost(self, error: ConnectionLost) -> None:
        self._surroundings.lost_brokers.lose(self._source_id)
        self._trace("fetcher_disconnected", reason=str(error))

    async def _fetch_over(self, connection: Connection) -> None:
        """Returns once there is nothing left to fetch, or the connection is lost."""
        self._trace("fetcher_connected")
        while self._plan:
            if self._unflushed:
                await self._flush()
            self._hold_back()
            request = self._plan.request(self._surroundings.broker_epoch(), trio.current_time())
            if request is None:
                with trio.move_on_at(self._plan.ready_at()):
                    await self._changed.wait()
                continue
            try:
                response = await connection.call(request, FETCH_VERSION)
            except ConnectionLost:
                return
            out_of_range = self._act(self._plan.answered(response, trio.current_time()))
            if out_of_range:
                await self._find_range(connection, out_of_range)

    def _hold_back(self) -> None:
        """Ask for nothing that the throttle would not have."""
        throttle = self._surroundings.throttle
        wait_ms = throttle.wait_ms
        if wait_ms <= 0:
            return
        # The quota may be another one by then.
        until = trio.current_time() + min(wait_ms, self._surroundings.settings.backoff_ms) / 1000
        for key in list(self._plan.lagging):
            if self._partitions[key].throttled_as_follower:
                self._plan.hold_back(key, until)

    # What answers bring

    def _act(self, outcomes: Sequence[Outcome]) -> list[OutOfRange]:
        """Act upon an answer; what is left to do."""
        out_of_range = []
        for outcome in outcomes:
            match outcome:
                case Records():
                    self._attempt(outcome.key, partial(self._append, outcome))
                case Diverging():
                    self._attempt(outcome.key, partial(_cut, outcome))
                case Refused():
                    self._refused(outcome.key, outcome.code.name)
                case OutOfRange():
                    out_of_range.append(outcome)
        return out_of_range

    def _attempt(self, key: PartitionKey, act: Callable[[Partition], None]) -> None:
        """Do something with a partition, and go on with it from where its log ends then."""
        partition = self._partitions.get(key)
        if partition is None:
            return  # something that was done before has put its log directory offline
        try:
            act(partition)
        except FsyncFailed:
            raise
        except OSError as error:
            self._surroundings.log_failed(partition, error)
            return
        except (KafkaError, WireError) as error:
            if partition.log is not None and partition.log.failure is not None:
                self._surroundings.log_failed(partition, partition.log.failure)
                return
            self._plan.failed(key, trio.current_time())
            self._refused(key, str(error))
            return
        assert partition.log is not None, "it was there a moment ago"
        if partition.log.is_unsettled:
            self.forget(partition)
            self._was_cut(partition)
        else:
            self._plan.moved(key, _position(partition))
            self._flush_if_asked(partition)

    def _flush_if_asked(self, partition: Partition) -> None:
        log = partition.log
        if partition.flushes_appends and log is not None and log.needs_flush(int(self._env.wall() * 1000)):
            self._unflushed[partition] = None

    async def _flush(self) -> None:
        """All that wait for it, at the same time. Whoever is cancelled on the way has to do it again."""
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
            self._surroundings.log_failed(partition, error)

    def _append(self, found: Records, partition: Partition) -> None:
        data = found.data
        records = memoryview(b"") if data.records is None else data.records
        assert isinstance(records, memoryview), "decoded"
        if partition.throttled_as_follower:
            self._surroundings.throttle.record(len(records))
        follow_append(
            partition,
            found.leader_epoch,
            records,
            leader_high_watermark=data.high_watermark,
            leader_log_start_offset=data.log_start_offset,
            now_ms=int(self._env.wall() * 1000),
        )

    async def _find_range(self, connection: Connection, asked: Sequence[OutOfRange]) -> None:
        """Ask the leader where its logs begin and end, and go on from within them."""
        partitions = {each.key: self._partitions[each.key] for each in asked if each.key in self._partitions}
        epochs = {each.key: each.leader_epoch for each in asked}
        try:
            ends = await ask_leader_ends(connection, self._surroundings.settings.replica_id, partitions, epochs)
        except ConnectionLost:
            return
        for key, partition in partitions.items():
            if self._partitions.get(key) is not partition or partition.leader_epoch != epochs[key]:
                continue
            self._plan.failed(key, trio.current_time())
            found = ends.get(key)
            if found is None:
                self._refused(key, "the leader does not tell where its log begins and ends")
            else:
                self._attempt(key, partial(_go_within, found))

    def _refused(self, key: PartitionKey, reason: str) -> None:
        partition = self._partitions.get(key)
        if partition is not None:
            partition.trace("replica_fetch_refused", source=self._source_id, reason=reason)

    def _source(self) -> BrokerImage | None:
        return self._surroundings.source(self._source_id)

    def _trace(self, kind: str, **fields: object) -> None:
        self._env.trace(kind, node=self._surroundings.settings.replica_id, source=self._source_id, **fields)


def partition_key(partition: Partition) -> PartitionKey:
    return partition.topic_id, partition.index


def _position(partition: Partition) -> Position:
    log = partition.log
    assert log is not None, "without a log there is nothing to follow"
    return Position(partition.leader_epoch, log.log_end_offset, log.epochs.latest_epoch, log.log_start_offset)


def _cut(found: Diverging, partition: Partition) -> None:
    truncate(partition, found.leader_epoch, found.epoch, found.end_offset)


def _go_within(ends: LeaderEnds, partition: Partition) -> None:
    """Cut what the leader does not have, or begin anew where its log begins; Kafka's rules."""
    log = partition.follower_log(ends.leader_epoch)
    if ends.end_offset < log.log_end_offset:
        truncate(partition, ends.leader_epoch, ends.leader_epoch, ends.end_offset)
    elif ends.start_offset > log.log_end_offset:
        restart_at(partition, ends.leader_epoch, ends.start_offset)
