"""Fetches ahead of the application: one task per broker, each with a connection and a fetch session of its own."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Final

import trio

from broker.client.brokers import Broker
from broker.client.cluster import Cluster
from broker.client.consumer.config import ConsumerConfig
from broker.client.consumer.errors import CorruptRecords, OffsetOutOfRange
from broker.client.consumer.fetch_errors import ANOTHER_LEADER, STALE, TRANSIENT
from broker.client.consumer.fetch_sessions import FINAL_EPOCH, FetchSession, PartitionFetch, topic_ids_known
from broker.client.consumer.fetched_partition import FetchBuffer, FetchedPartition, slices_of
from broker.client.consumer.offsets import READ_COMMITTED, READ_UNCOMMITTED
from broker.client.consumer.positions import AssignedPartition, PositionSnapshot
from broker.client.consumer.subscription import SubscriptionState
from broker.client.errors import ClosedError, ConnectionLost, KafkaError, UnsupportedByBroker
from broker.client.types import Node, TopicPartition
from broker.wire.api.fetch import FetchRequest, FetchResponse, PartitionData
from broker.wire.errors import ErrorCode
from broker.wire.uuids import ZERO_UUID

_TOPIC_IDS_SINCE: Final = 13
_CLOSE_TIMEOUT_S: Final = 1.0
_NO_REPLICA: Final = -1


class Fetcher:
    """See the module's docstring.

    `arrived` is called when records or an error have come, `recheck` when a response has named a new leader or a
    position has to be reset.

    Each broker has an equal share of `fetch.buffer.bytes`, so that none waits because of another's unread records. A
    Fetch is sent when there is room for the records of a partition.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        arrived: Callable[[], None],
        recheck: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._buffer = buffer
        self._arrived = arrived
        self._recheck = recheck
        self._isolation_level = READ_COMMITTED if config.isolation_level == "read_committed" else READ_UNCOMMITTED
        self._sessions: dict[int, FetchSession] = {}
        self._changed = trio.Event()
        self._is_recheck_due = False
        self._waiting = trio.lowlevel.ParkingLot()

    async def run(self) -> None:
        """Fetches until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._changed = trio.Event()
                self._start_tasks(nursery)
                self._waiting.unpark_all()
                await self._changed.wait()

    def notify(self) -> None:
        """Notifies of a change of the assignment, a position, a leader, or of the room in the buffer.

        All partitions are looked at once, however many have changed: a user may seek in thousands of them.
        """
        self._changed.set()

    def _start_tasks(self, nursery: trio.Nursery) -> None:
        """Starts the tasks of brokers that have none yet."""
        now = trio.current_time()
        for assigned in self._subscription.partitions:
            node_id = self._source_of(assigned, now)
            if node_id is not None and node_id not in self._sessions:
                self._sessions[node_id] = FetchSession()
                nursery.start_soon(self._fetch_from, node_id)

    async def close(self) -> None:
        """Tells the brokers that the sessions end, as far as they are connected."""
        with trio.move_on_after(_CLOSE_TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                for node_id, session in self._sessions.items():
                    if session.is_open:
                        nursery.start_soon(self._close_session, node_id, session)

    async def _close_session(self, node_id: int, session: FetchSession) -> None:
        request = FetchRequest(session_id=session.session_id, session_epoch=FINAL_EPOCH)
        try:
            # Not over the connection for fetches: a request there may be waiting for records.
            broker = await self._cluster.broker(node_id)
            await broker.call(request)
        except (ConnectionLost, UnsupportedByBroker, KafkaError, ClosedError):
            return  # the broker ends sessions without requests by itself

    # Requests

    def _source_of(self, assigned: AssignedPartition, now: float) -> int | None:
        """The broker to read a partition from: the preferred replica while it is up, else the leader."""
        preferred = assigned.replica_to_read(now)
        if preferred is not None:
            known = self._cluster.metadata.partition(assigned.partition)
            if (
                known is not None
                and preferred in self._cluster.metadata.brokers
                and preferred not in known.offline_replicas
            ):
                return preferred
            assigned.clear_preferred_replica()
            self._cluster.request_refresh()
        return None if assigned.leader is None else assigned.leader.node_id

    def _wanted(self, node_id: int) -> list[AssignedPartition]:
        now = trio.current_time()
        return [
            assigned
            for assigned in self._subscription.partitions
            if assigned.may_fetch(now) and self._source_of(assigned, now) == node_id
        ]

    def _bytes_to_request(self, node_id: int) -> int:
        """The bytes to ask a broker for; 0 if its share of the buffer is in use. Makes room at paused partitions."""
        share = max(self._config.fetch_buffer_bytes // max(len(self._sessions), 1), 1)
        least = min(self._config.max_partition_fetch_bytes, (share + 1) // 2)
        if share - self._buffer.size_from(node_id) < least:
            self._buffer.drop_stale()
        if share - self._buffer.size_from(node_id) < least:
            for assigned in self._buffer.drop_paused():
                assigned.rewind()
        room = share - self._buffer.size_from(node_id)
        return min(room, max(self._config.fetch_max_bytes, 1)) if room >= least else 0

    async def _fetch_from(self, node_id: int) -> None:
        """Fetches from one broker, one request at a time, for as long as the cluster has it."""
        failures = 0
        while node_id in self._cluster.metadata.brokers or self._wanted(node_id):
            if not self._bytes_to_request(node_id) or not self._wanted(node_id):
                await self._wait_for_change()
                continue
            try:
                broker = await self._cluster.broker(node_id, "fetch")
                await self._fetch_once(broker, node_id)
                failures = 0
            except (ConnectionLost, KafkaError) as failure:
                failures += 1
                for assigned in self._wanted(node_id):
                    assigned.last_failure = failure
                self._lose(node_id)
                if isinstance(failure, KafkaError) and failures == 1:
                    continue  # a session that the broker has dropped
                await trio.sleep(self._cluster.backoff.pause_s(failures))
            except ClosedError:
                break
            except UnsupportedByBroker as failure:
                for assigned in self._wanted(node_id):
                    assigned.error = failure
                self._arrived()
        del self._sessions[node_id]

    async def _wait_for_change(self) -> None:
        now = trio.current_time()
        with trio.move_on_at(min((each.next_attempt(now) for each in self._subscription.partitions), default=inf)):
            await self._waiting.park()

    async def _fetch_once(self, broker: Broker, node_id: int) -> None:
        """One Fetch. Raises ConnectionLost, UnsupportedByBroker, and KafkaError for the request as a whole."""
        partitions, max_bytes = self._wanted(node_id), self._bytes_to_request(node_id)
        if not partitions or not max_bytes:
            return  # there was time for changes while the connection was made
        snapshots = {assigned.partition: (assigned, assigned.snapshot()) for assigned in partitions}
        session = self._sessions[node_id]
        fetches = {key: self._partition_fetch(each, snapshot) for key, (each, snapshot) in snapshots.items()}
        version = broker.version_of(
            FetchRequest, highest=None if topic_ids_known(fetches.values()) else _TOPIC_IDS_SINCE - 1
        )
        request = session.request(fetches, by_id=version >= _TOPIC_IDS_SINCE)
        response: FetchResponse = await broker.call(
            FetchRequest(
                max_wait_ms=self._config.fetch_max_wait_ms,
                min_bytes=self._config.fetch_min_bytes,
                max_bytes=max_bytes,
                isolation_level=self._isolation_level,
                session_id=request.session_id,
                session_epoch=request.epoch,
                topics=request.topics,
                forgotten_topics_data=request.forgotten,
                rack_id=self._config.client_rack,
            ),
            version=version,
            timeout_ms=self._config.request_timeout_ms + self._config.fetch_max_wait_ms,
        )
        parts = session.accept(response)
        if parts is None:
            raise KafkaError(ErrorCode.of(response.error_code), f"broker {node_id} refuses the fetch session")
        self._take_response(node_id, response, snapshots, parts)

    def _partition_fetch(self, assigned: AssignedPartition, snapshot: PositionSnapshot) -> PartitionFetch:
        topic = self._cluster.metadata.topic(assigned.partition.topic)
        return PartitionFetch(
            assigned.topic_id or (ZERO_UUID if topic is None else topic.id),
            snapshot.position.offset,
            snapshot.leader.epoch,
            self._config.max_partition_fetch_bytes,
        )

    def _lose(self, node_id: int) -> None:
        """Ends the session after a failed request, and reads from the leaders instead of this replica."""
        self._sessions[node_id].lose()
        for assigned in self._subscription.partitions:
            if assigned.preferred_replica == node_id:
                assigned.clear_preferred_replica()
        self._cluster.request_refresh()
        self.notify()

    # Responses

    def _take_response(
        self,
        node_id: int,
        response: FetchResponse,
        snapshots: Mapping[TopicPartition, tuple[AssignedPartition, PositionSnapshot]],
        parts: Mapping[TopicPartition, PartitionData],
    ) -> None:
        for endpoint in response.node_endpoints:
            self._cluster.notice_leader(Node(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack))
        # A view would keep the whole response in memory until the last of its partitions is consumed.
        is_shared = len(parts) > 1
        for key, data in parts.items():
            assigned, snapshot = snapshots[key]
            if not assigned.is_fetching or not assigned.is_current(snapshot):
                continue  # the consumer has moved elsewhere meanwhile
            if data.error_code != ErrorCode.NONE:
                self._refused(assigned, node_id, data)
                continue
            assigned.last_failure = None
            assigned.update_ends(data.high_watermark, data.last_stable_offset)
            if data.preferred_read_replica not in (node_id, _NO_REPLICA):
                self._prefer(assigned, data.preferred_read_replica)
            if data.records:
                self._take_records(assigned, node_id, snapshot, data, is_shared=is_shared)
        if not response.throttle_time_ms:
            _count_fetches(snapshots, parts)
        if self._is_recheck_due:
            self._is_recheck_due = False
            self._recheck()
        self._arrived()

    def _prefer(self, assigned: AssignedPartition, replica: int) -> None:
        assigned.prefer_replica(replica, trio.current_time() + self._config.metadata_max_age_ms / 1000)
        self.notify()

    def _take_records(
        self,
        assigned: AssignedPartition,
        node_id: int,
        snapshot: PositionSnapshot,
        data: PartitionData,
        *,
        is_shared: bool,
    ) -> None:
        assert isinstance(data.records, bytes | memoryview), "fetched records are bytes"
        slices = slices_of(data.records)
        if not slices or slices[-1].end.offset <= snapshot.position.offset:
            reason = "the broker sent bytes in which there is no whole batch with this offset or a later one"
            self._fail_after_buffer(assigned, CorruptRecords(assigned.partition, snapshot.position.offset, reason))
            return
        aborted = data.aborted_transactions or () if self._isolation_level == READ_COMMITTED else ()
        records = bytes(data.records) if is_shared else data.records
        self._buffer.add(FetchedPartition(assigned, node_id, snapshot.position, records, slices, aborted))
        assigned.fetch_from(slices[-1].end)
        self._subscription.move_to_end(assigned.partition)

    def _refused(self, assigned: AssignedPartition, node_id: int, data: PartitionData) -> None:
        code = ErrorCode.of(data.error_code)
        assigned.last_failure = KafkaError(code, f"broker {node_id}")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not assigned.clear_preferred_replica():
                self._out_of_range(assigned)
        elif code in ANOTHER_LEADER:
            assigned.clear_preferred_replica()
            self._take_leader(assigned, data)
        elif code in STALE:
            assigned.clear_preferred_replica()
            self._cluster.request_refresh()
            self._pause(assigned)
        elif code in TRANSIENT:
            self._pause(assigned)
        else:
            offset = "" if assigned.fetched is None else f" from offset {assigned.fetched.offset} on"
            place = f"{assigned.partition.topic}-{assigned.partition.partition}{offset}"
            error = KafkaError(code, f"{place}, broker {node_id}")
            self._fail_after_buffer(assigned, error)
        self._subscription.move_to_end(assigned.partition)
        self.notify()  # another broker may be the one to ask now, or later

    def _take_leader(self, assigned: AssignedPartition, data: PartitionData) -> None:
        """Takes the new leader from the response (KIP-951), or refreshes the metadata if it names none."""
        leader, metadata = data.current_leader, self._cluster.metadata
        if leader is not None and metadata.update_leader(assigned.partition, leader.leader_id, leader.leader_epoch):
            self._is_recheck_due = True
        else:
            self._cluster.request_refresh()
            self._pause(assigned)

    def _out_of_range(self, assigned: AssignedPartition) -> None:
        policy = self._subscription.policy_of(assigned)
        assert assigned.fetched is not None, "only a fetched partition can be out of range"
        if policy is not None and not self._buffer.holds(assigned.partition):
            assigned.request_reset(policy)
            self._is_recheck_due = True
        else:
            self._fail_after_buffer(assigned, OffsetOutOfRange(assigned.partition, assigned.fetched.offset))

    def _fail_after_buffer(self, assigned: AssignedPartition, error: Exception) -> None:
        """Fails the next poll; where records were fetched ahead, they come first, and then the same is tried again."""
        if self._buffer.holds(assigned.partition):
            assigned.waits_for_buffer = True
        else:
            assigned.error = error

    def _pause(self, assigned: AssignedPartition) -> None:
        assigned.retry_at = trio.current_time() + self._cluster.backoff.pause_s(1)


def _count_fetches(
    snapshots: Mapping[TopicPartition, tuple[AssignedPartition, PositionSnapshot]],
    parts: Mapping[TopicPartition, PartitionData],
) -> None:
    """Counts the Fetches that found no records. A session's response leaves out partitions without news (KIP-227)."""
    for key, (assigned, snapshot) in snapshots.items():
        data = parts.get(key)
        if data is None:
            assigned.count_fetch(is_empty=assigned.is_current(snapshot))
        elif data.error_code == ErrorCode.NONE and data.preferred_read_replica < 0:
            assigned.count_fetch(is_empty=not data.records)
