"""Reads the logs of the partitions of one fetch request, within the request's limits on bytes."""

from collections.abc import Sequence
from typing import Final

from broker.handlers.fetch.policies import FetchPolicy
from broker.handlers.topic_names import topic_name
from broker.net.reply import FileRange
from broker.replication.fetch_sessions import Fetch
from broker.replication.fetch_targets import FetchedPartition, FetchTarget
from broker.replication.leader_role import DivergingEpoch, diverging_epoch
from broker.replication.partition import Partition
from broker.server.authorizer import CLUSTER_NAME, AclOperation, AclResourceType
from broker.server.context import RequestContext
from broker.server.slices import STEP_ITEMS, Steps, each
from broker.storage.aborted_transactions import aborted_transactions
from broker.storage.log import Log, LogSlice
from broker.wire.api.fetch import AbortedTransaction
from broker.wire.errors import ErrorCode, KafkaError

_ABSENT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
# Earlier versions do not know KAFKA_STORAGE_ERROR; NOT_LEADER_OR_FOLLOWER makes their clients refresh metadata.
_STORAGE_ERROR_FROM: Final = 6
# Clients of earlier versions cannot read zstd. Their fetch of a topic with compression.type=zstd is refused (KIP-110).
ZSTD_FROM: Final = 10


class LogReader:
    """Reads the targets that are due for one fetch request; a request that waits is read more than once.

    `results` holds the last result of each target, in the order of the reads. Records are not loaded: a result refers
    to a range of a file. `max_bytes` limits their total, apart from a first batch that is larger (KIP-74).
    """

    __slots__ = (
        "_absent",
        "_absent_before",
        "_context",
        "_has_updated_followers",
        "_immediate",
        "_size",
        "fetch",
        "max_bytes",
        "policy",
        "results",
    )

    def __init__(self, context: RequestContext, fetch: Fetch, policy: FetchPolicy, max_bytes: int) -> None:
        self._context = context
        self.max_bytes = max_bytes
        self._has_updated_followers = False
        self._size = 0
        self._absent = 0
        self._absent_before = -1
        self._immediate = 0
        self.fetch = fetch
        self.policy = policy
        self.results: dict[FetchTarget, FetchedPartition] = {}

    @property
    def size(self) -> int:
        """The size of the records in `results`, in bytes."""
        return self._size

    def read(self) -> None:
        """Read all targets that are due, including those that a replication throttle held back and now lets through."""
        self._begin()
        for target in self.fetch.targets:
            self._discard_result(target)
        for target in self.fetch.targets:
            self.read_one(target)
        self._has_updated_followers = True

    def read_in_steps(self) -> Steps[None]:
        """Like `read`, in steps; each target is watched after its read. Stops early when a later request arrives."""
        self._begin()
        targets = self.fetch.targets
        if self.results:
            yield from each(self._discard_result, targets)
        for number, target in enumerate(targets):
            self.read_one(target)
            self.watch(target)
            if number % STEP_ITEMS == STEP_ITEMS - 1:
                yield
                if not self.fetch.is_current:
                    return
        self._has_updated_followers = True

    def read_one(self, target: FetchTarget) -> None:
        """Read one target again; the results of the others stay."""
        self._discard_result(target)
        found = self._read_target(target, max(self.max_bytes - self._size, 0), is_first=not self._size)
        self.results[target] = found
        self._count_result(found, 1)

    def can_respond(self, min_bytes: int) -> bool:
        """True if the response need not wait: `min_bytes` are found, or a result has to be sent at once.

        An unknown partition in the first read does not end the wait for the others. Otherwise a consumer of a deleted
        topic would send one fetch after the other without a pause. Followers pause by themselves, so their errors
        are sent at once.
        """
        if self._absent_before < 0:
            self._absent_before = self._absent
        is_alone = self._absent == len(self.fetch.session)
        return self._immediate > 0 or self._size >= min_bytes or is_alone or self._absent > self._absent_before

    def watch(self, target: FetchTarget) -> None:
        """Have the target notified when its partition may have more records."""
        if target.partition is not None:
            self.policy.add_waiter(target.partition, target)

    def _begin(self) -> None:
        self.policy.reset_planned_bytes()
        if self.fetch.session.held and self.policy.throttle_has_room:
            self.fetch.session.release()

    def _discard_result(self, target: FetchTarget) -> None:
        """Replace the target's result by an empty one, which keeps its place in `results`."""
        before = self.results.get(target)
        if before is not None:
            self._count_result(before, -1)
            self.results[target] = FetchedPartition(target)

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
        elif self.policy.is_due_without_records(found):
            self._immediate += sign

    def _read_target(self, target: FetchTarget, left: int, *, is_first: bool) -> FetchedPartition:
        topics = self._context.services.partitions
        if not self._may_read(target):
            target.partition = None
            return FetchedPartition(target, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = topics.topic(target.topic)
        partition = target.partition = None if topic is None else topic.partitions.get(target.index)
        if partition is None:
            return FetchedPartition(target, topics.absent(target.topic, target.index).code)
        try:
            log = self.policy.log(partition, target)
            read_replica = self.policy.read_replica(partition, target)
            if read_replica is not None:
                return _fetched_partition(partition, log, target, read_replica=read_replica)
            if self._context.api_version < ZSTD_FROM and log.config.compression_type == "zstd":
                raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Fetch version {ZSTD_FROM}")
            return self._read_log(partition, log, target, left, is_first=is_first)
        except KafkaError as error:
            return FetchedPartition(target, self._error_for_version(error.code))

    def _may_read(self, target: FetchTarget) -> bool:
        """True if the client may read the topic, or, for a follower, if it may carry out cluster actions."""
        context = self._context
        if context.server.authorizer is None:
            return True
        if self.policy.is_follower:
            return context.allows(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME)
        name = topic_name(context, target.topic)
        return name is None or context.allows(AclOperation.READ, AclResourceType.TOPIC, name)

    def _read_log(
        self, partition: Partition, log: Log, target: FetchTarget, left: int, *, is_first: bool
    ) -> FetchedPartition:
        """Read up to `left` bytes. If `is_first`, a first batch is returned even if it is larger."""
        diverging = diverging_epoch(log, target.last_fetched_epoch, target.fetch_offset)
        if diverging is not None:
            return _fetched_partition(partition, log, target, diverging=diverging)
        end, allowance = self.policy.end_offset(partition, log), self.policy.throttle_allowance(partition)
        max_bytes = int(min(target.max_bytes, left, max(allowance, 0)))
        found = log.read(target.fetch_offset, max_bytes, upper_bound=end, min_one_batch=is_first and allowance > 0)
        if not self._has_updated_followers:
            self.policy.update_follower_state(partition, log, target)
        if found.size:
            self.policy.plan_bytes(partition, found.size)
            aborted = _aborted(log, found, target, end) if self.policy.is_read_committed else ()
            records = FileRange(found.file, found.position, found.size)
            return _fetched_partition(partition, log, target, records=records, aborted=aborted)
        if allowance <= 0 and target.fetch_offset < end:
            self.fetch.session.hold(target)
            self.policy.add_waiter(partition, target)
            return _fetched_partition(partition, log, target)
        if self.policy.is_settled(partition, log, target):
            self.fetch.session.settle(target)
            self.policy.add_waiter(partition, target)
        return _fetched_partition(partition, log, target)

    def _error_for_version(self, code: ErrorCode) -> ErrorCode:
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self._context.api_version < _STORAGE_ERROR_FROM:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return code


def _aborted(log: Log, found: LogSlice, target: FetchTarget, end_offset: int) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in aborted_transactions(log, found, target.fetch_offset, end_offset)
    ]


def _fetched_partition(
    partition: Partition,
    log: Log,
    target: FetchTarget,
    *,
    records: FileRange | None = None,
    diverging: DivergingEpoch | None = None,
    read_replica: int | None = None,
    aborted: Sequence[AbortedTransaction] = (),
) -> FetchedPartition:
    return FetchedPartition(
        target,
        ErrorCode.NONE,
        partition.commit_state.high_watermark,
        partition.commit_state.last_stable_offset(log),
        log.log_start_offset,
        records,
        diverging,
        read_replica,
        aborted,
    )
