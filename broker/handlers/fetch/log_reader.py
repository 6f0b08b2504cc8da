"""Reads the logs of the partitions of one fetch request, within the request's limits on bytes."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from broker.handlers.fetch.policies import FetchPolicy
from broker.handlers.topic_names import topic_name
from broker.net.reply import FileRange
from broker.replication.cached_partition import CachedPartition, FetchedPartition
from broker.replication.fetch_sessions import Fetch
from broker.replication.leader_role import DivergingEpoch, diverging_epoch
from broker.replication.partition import Partition
from broker.server.context import BrokerContext
from broker.server.slices import STEP_ITEMS, Steps, each
from broker.storage.aborted_transactions import aborted_transactions
from broker.storage.log import Log, LogSlice
from broker.wire.api.fetch import AbortedTransaction
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

_ABSENT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
# Earlier versions do not know KAFKA_STORAGE_ERROR; NOT_LEADER_OR_FOLLOWER makes their clients refresh metadata.
_STORAGE_ERROR_FROM: Final = 6
# Clients of earlier versions cannot read zstd. Their fetch of a topic with compression.type=zstd is refused (KIP-110).
ZSTD_FROM: Final = 10
# Partitions that one step reads: about 1 ms.
_STEP_PARTITIONS: Final = 64


class LogReader:
    """Reads the cached partitions that are due for one fetch request; a request that waits is read more than once.

    `results` holds the last result of each partition, in the order of the reads. Records are not loaded: a result
    refers to a range of a file. `max_bytes` limits their total, apart from a first batch that is larger (KIP-74).
    `has_updated_followers` is true if the request's positions were recorded before.
    """

    __slots__ = (
        "_absent",
        "_absent_before",
        "_available",
        "_context",
        "_has_updated_followers",
        "_immediate",
        "_moved",
        "_size",
        "_unwatched",
        "fetch",
        "max_bytes",
        "policy",
        "results",
    )

    def __init__(
        self,
        context: BrokerContext,
        fetch: Fetch,
        policy: FetchPolicy,
        max_bytes: int,
        *,
        has_updated_followers: bool = False,
    ) -> None:
        self._context = context
        self.max_bytes = max_bytes
        self._has_updated_followers = has_updated_followers
        self._size = 0
        self._absent = 0
        self._absent_before = -1
        self._available = 0
        self._immediate = 0
        self._unwatched: list[CachedPartition] = []
        self._moved: dict[CachedPartition, None] = {}
        self.fetch = fetch
        self.policy = policy
        self.results: dict[CachedPartition, FetchedPartition] = {}

    @property
    def size(self) -> int:
        """The size of the records in `results`, in bytes."""
        return self._size

    def read(self, min_bytes: int, *, is_expired: bool) -> Steps[None]:
        """Read all partitions that are due, including those that a replication throttle has released.

        Partitions that change between two steps are read again until the response need not wait, unless the wait
        `is_expired`. Stops early when a later request arrives.
        """
        session = self.fetch.session
        self.policy.reset_planned_bytes()
        if session.held and self.policy.throttle_has_room:
            session.release()
        cached_partitions = self.fetch.cached_partitions
        if self.results:
            yield from each(self._discard_result, cached_partitions)
        unwatched: list[CachedPartition] = []
        self._unwatched = unwatched
        try:
            for cached in cached_partitions:
                if len(unwatched) == _STEP_PARTITIONS:
                    session.waiter = self
                    self.watch_all()
                    yield
                    if not self.fetch.is_current:
                        return
                self.read_one(cached)
                unwatched.append(cached)
            self._has_updated_followers = True
            while self._moved and not is_expired and self.fetch.is_current and not self.can_respond(min_bytes):
                for cached in list(islice(self._moved, STEP_ITEMS)):
                    del self._moved[cached]
                    self.read_one(cached)
                    self.watch(cached)
                yield
        finally:
            if session.waiter is self:
                session.waiter = None
            self._moved.clear()

    def moved(self, cached: CachedPartition, partition: Partition) -> None:
        """See `broker.replication.fetch_sessions.Waiter`: the partition has changed between two steps."""
        self._moved[cached] = None

    def expire(self) -> None:
        """See `broker.replication.fetch_sessions.Waiter`: `read` sees before its next step that it has to stop."""

    def read_one(self, cached: CachedPartition) -> None:
        """Read one cached partition again; the results of the others stay."""
        self._discard_result(cached)
        found = self._read_partition(cached, max(self.max_bytes - self._size, 0), is_first=not self._size)
        self.results[cached] = found
        self._count_result(found, 1)

    def can_respond(self, min_bytes: int) -> bool:
        """True if the response need not wait: `min_bytes` are found, or a result has to be sent at once.

        Batches that do not fit count as far as the limits on bytes allow, even if no part of them is sent.

        An unknown partition in the first read does not end the wait for the others. Otherwise a consumer of a deleted
        topic would send one fetch after the other without a pause. Followers pause by themselves, so their errors
        are sent at once.
        """
        if self._absent_before < 0:
            self._absent_before = self._absent
        is_alone = self._absent == len(self.fetch.session)
        return self._immediate > 0 or self._available >= min_bytes or is_alone or self._absent > self._absent_before

    def watch_all(self) -> None:
        """As `watch`, for all partitions that were read since the last call and have nothing new."""
        for cached in self._unwatched:
            self.watch(cached)
        self._unwatched.clear()

    def watch(self, cached: CachedPartition) -> None:
        """Have the cached partition notified when its partition may have more records."""
        if cached.partition is not None:
            self.policy.add_waiter(cached.partition, cached)

    def _discard_result(self, cached: CachedPartition) -> None:
        """Replace the cached partition's result by an empty one, which keeps its place in `results`."""
        before = self.results.get(cached)
        if before is not None:
            self._count_result(before, -1)
            self.results[cached] = FetchedPartition(cached)

    def _count_result(self, found: FetchedPartition, sign: int) -> None:
        """Add a result to the counts with `sign` 1, or take it out of them with -1."""
        if found.diverging is not None or found.read_replica is not None:
            self._immediate += sign
        elif found.error is not ErrorCode.NONE:
            if found.error in _ABSENT and not self.policy.is_follower:
                self._absent += sign
            else:
                self._immediate += sign
        elif found.records is not None:
            self._size += sign * len(found.records)
            self._available += sign * found.available
        elif self.policy.is_due_without_records(found):
            self._immediate += sign

    def _read_partition(self, cached: CachedPartition, left: int, *, is_first: bool) -> FetchedPartition:
        partitions = self._context.services.partitions
        if not self._may_read(cached):
            cached.partition = None
            return FetchedPartition(cached, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = partitions.topic(cached.topic)
        partition = cached.partition = None if topic is None else topic.partitions.get(cached.index)
        if partition is None:
            return FetchedPartition(cached, partitions.absent(cached.topic, cached.index).code)
        try:
            log = self.policy.log(partition, cached)
            read_replica = self.policy.read_replica(partition, cached)
            if read_replica is not None:
                return _fetched_partition(partition, log, cached, read_replica=read_replica)
            if self._context.api_version < ZSTD_FROM and log.config.compression_type == "zstd":
                raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Fetch version {ZSTD_FROM}")
            return self._read_log(partition, log, cached, left, is_first=is_first)
        except KafkaError as error:
            return FetchedPartition(cached, self._error_for_version(error.code))

    def _may_read(self, cached: CachedPartition) -> bool:
        """True if the client may read the topic, or, for a follower, if it may carry out cluster actions."""
        context = self._context
        if context.server.authorizer is None:
            return True
        if self.policy.is_follower:
            return context.allows_cluster(AclOperation.CLUSTER_ACTION)
        name = topic_name(context, cached.topic)
        return name is None or context.allows(AclOperation.READ, ResourceType.TOPIC, name)

    def _read_log(
        self, partition: Partition, log: Log, cached: CachedPartition, left: int, *, is_first: bool
    ) -> FetchedPartition:
        """Read up to `left` bytes. If `is_first`, a first batch is returned even if it is larger."""
        diverging = diverging_epoch(log, cached.last_fetched_epoch, cached.fetch_offset)
        if diverging is not None:
            return _fetched_partition(partition, log, cached, diverging=diverging)
        end, allowance = self.policy.end_offset(partition, log), self.policy.throttle_allowance(partition)
        max_bytes = int(min(cached.max_bytes, left, max(allowance, 0)))
        found = log.read(cached.fetch_offset, max_bytes, upper_bound=end, min_one_batch=is_first and allowance > 0)
        if not self._has_updated_followers:
            self.policy.update_follower_state(partition, log, cached)
        if found.size:
            self.policy.plan_bytes(partition, found.size)
            if found.segment is not log.segments.active:
                partition.tasks.check_old(partition, cached.fetch_offset)
            aborted = _aborted(log, found, cached, end) if self.policy.is_read_committed else ()
            records = FileRange(found.file, found.position, found.size)
            return _fetched_partition(
                partition, log, cached, records=records, aborted=aborted, available=found.available
            )
        if allowance <= 0 and cached.fetch_offset < end:
            self.fetch.session.hold(cached)
            self.policy.add_waiter(partition, cached)
            return _fetched_partition(partition, log, cached)
        if self.policy.stays_idle(partition, log, cached):
            self.fetch.session.mark_idle(cached)
            self.policy.add_waiter(partition, cached)
        return _fetched_partition(partition, log, cached)

    def _error_for_version(self, code: ErrorCode) -> ErrorCode:
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self._context.api_version < _STORAGE_ERROR_FROM:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return code


def _aborted(log: Log, found: LogSlice, cached: CachedPartition, end_offset: int) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=transaction.producer_id, first_offset=transaction.first_offset)
        for transaction in aborted_transactions(log, found, cached.fetch_offset, end_offset)
    ]


def _fetched_partition(
    partition: Partition,
    log: Log,
    cached: CachedPartition,
    *,
    records: FileRange | None = None,
    diverging: DivergingEpoch | None = None,
    read_replica: int | None = None,
    aborted: Sequence[AbortedTransaction] = (),
    available: int = 0,
) -> FetchedPartition:
    return FetchedPartition(
        cached,
        ErrorCode.NONE,
        partition.commit_state.high_watermark,
        partition.commit_state.last_stable_offset(log),
        log.log_start_offset,
        records,
        diverging,
        read_replica,
        aborted,
        available,
    )
