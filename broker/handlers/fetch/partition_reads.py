"""The reads of a fetch: from each partition that is due, as much as the limits of the request allow."""

from collections.abc import Sequence
from typing import Final

from broker.handlers.fetch.readers import Reader
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
# Clients of these versions do not know KAFKA_STORAGE_ERROR, but refresh their metadata on this one.
_STORAGE_ERROR_FROM: Final = 6
# Clients of these versions cannot read zstd; a topic that is known to be stored so is refused to them (KIP-110).
ZSTD_FROM: Final = 10


class Reading:
    """One fetch request's plan, which may be carried out more than once while it waits; touches no record (KIP-74).

    `found` has what was found by target, in turn.
    """

    __slots__ = (
        "_absent",
        "_absent_before",
        "_context",
        "_is_noted",
        "_size",
        "_urgent",
        "fetch",
        "found",
        "max_bytes",
        "reader",
    )

    def __init__(self, context: RequestContext, fetch: Fetch, reader: Reader, max_bytes: int) -> None:
        self._context = context
        self.max_bytes = max_bytes
        self._is_noted = False
        self._size = 0
        self._absent = 0
        self._absent_before = -1
        self._urgent = 0
        self.fetch = fetch
        self.reader = reader
        self.found: dict[FetchTarget, FetchedPartition] = {}

    @property
    def size(self) -> int:
        """The bytes of the records that were found."""
        return self._size

    def read(self) -> None:
        """Look at whatever is due, or was held back by a throttle that lets something through now."""
        self._begin()
        for target in self.fetch.targets:
            self._take_back(target)
        for target in self.fetch.targets:
            self.read_one(target)
        self._is_noted = True

    def read_in_steps(self) -> Steps[None]:
        """As `read`. Each target is watched once it was looked at. Ends early if a later request comes."""
        self._begin()
        targets = self.fetch.targets
        if self.found:
            yield from each(self._take_back, targets)
        for number, target in enumerate(targets):
            self.read_one(target)
            self.watch(target)
            if number % STEP_ITEMS == STEP_ITEMS - 1:
                yield
                if not self.fetch.is_current:
                    return
        self._is_noted = True

    def read_one(self, target: FetchTarget) -> None:
        """Look at one target, alone or in its turn: the others are what they were."""
        self._take_back(target)
        found = self._look_at(target, max(self.max_bytes - self._size, 0), is_first=not self._size)
        self.found[target] = found
        self._weigh(found, 1)

    def is_enough(self, min_bytes: int) -> bool:
        """Whether to answer now: enough data, nothing to wait for, or an error the client should hear of.

        Partitions that were unknown from the first do not cut the wait short for the others: a client that keeps asking
        for a deleted topic would otherwise do so without a pause. A follower knows better when to ask again.
        """
        if self._absent_before < 0:
            self._absent_before = self._absent
        is_alone = self._absent == len(self.fetch.session)
        return self._urgent > 0 or self._size >= min_bytes or is_alone or self._absent > self._absent_before

    def watch(self, target: FetchTarget) -> None:
        """Have the target hear of it when there may be more."""
        if target.partition is not None:
            self.reader.wait(target.partition, target)

    def _begin(self) -> None:
        self.reader.begin()
        if self.fetch.session.held and self.reader.may_go_on:
            self.fetch.session.release()

    def _take_back(self, target: FetchTarget) -> None:
        """Forget what was found before; it keeps its place among what is found."""
        before = self.found.get(target)
        if before is not None:
            self._weigh(before, -1)
            self.found[target] = FetchedPartition(target)

    def _weigh(self, found: FetchedPartition, sign: int) -> None:
        if found.diverging is not None or found.read_replica is not None:
            self._urgent += sign
        elif found.error is not ErrorCode.NONE:
            if found.error in _ABSENT and not self.reader.is_follower:
                self._absent += sign
            else:
                self._urgent += sign
        elif found.records is not None:
            self._size += sign * len(found.records)
        elif self.reader.is_news(found):
            self._urgent += sign

    def _look_at(self, target: FetchTarget, left: int, *, is_first: bool) -> FetchedPartition:
        topics = self._context.services.partitions
        if not self._may_read(target):
            target.partition = None
            return FetchedPartition(target, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = topics.topic(target.topic)
        partition = target.partition = None if topic is None else topic.partitions.get(target.index)
        if partition is None:
            return FetchedPartition(target, topics.absent(target.topic, target.index).code)
        try:
            log = self.reader.log(partition, target)
            read_replica = self.reader.read_replica(partition, target)
            if read_replica is not None:
                return _told(partition, log, target, read_replica=read_replica)
            if self._context.api_version < ZSTD_FROM and log.config.compression_type == "zstd":
                raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Fetch version {ZSTD_FROM}")
            return self._read_log(partition, log, target, left, is_first=is_first)
        except KafkaError as error:
            return FetchedPartition(target, self._error_for_version(error.code))

    def _may_read(self, target: FetchTarget) -> bool:
        """True if the client may read the topic; a follower has to be allowed to act for the cluster instead."""
        context = self._context
        if context.server.authorizer is None:
            return True
        if self.reader.is_follower:
            return context.allows(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME)
        name = topic_name(context, target.topic)
        return name is None or context.allows(AclOperation.READ, AclResourceType.TOPIC, name)

    def _read_log(
        self, partition: Partition, log: Log, target: FetchTarget, left: int, *, is_first: bool
    ) -> FetchedPartition:
        diverging = diverging_epoch(log, target.last_fetched_epoch, target.fetch_offset)
        if diverging is not None:
            return _told(partition, log, target, diverging=diverging)
        end, allowance = self.reader.end(partition, log), self.reader.allowance(partition)
        max_bytes = int(min(target.max_bytes, left, max(allowance, 0)))
        found = log.read(target.fetch_offset, max_bytes, upper_bound=end, min_one_batch=is_first and allowance > 0)
        if not self._is_noted:
            self.reader.note(partition, log, target)
        if found.size:
            self.reader.reads(partition, found.size)
            aborted = _aborted(log, found, target, end) if self.reader.is_read_committed else ()
            records = FileRange(found.file, found.position, found.size)
            return _told(partition, log, target, records=records, aborted=aborted)
        if allowance <= 0 and target.fetch_offset < end:
            self.fetch.session.hold(target)
            self.reader.wait(partition, target)
            return _told(partition, log, target)
        if self.reader.is_settled(partition, log, target):
            self.fetch.session.settle(target)
            self.reader.wait(partition, target)
        return _told(partition, log, target)

    def _error_for_version(self, code: ErrorCode) -> ErrorCode:
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self._context.api_version < _STORAGE_ERROR_FROM:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return code


def _aborted(log: Log, found: LogSlice, target: FetchTarget, end_offset: int) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in aborted_transactions(log, found, target.fetch_offset, end_offset)
    ]


def _told(
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
