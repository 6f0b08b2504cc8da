"""Runs one shard on this broker: the state over a partition that it leads, for as long as this leader epoch lasts.

A shard is LOADING while the partition's log is replayed, and refuses requests. It is then ACTIVE, and CLOSED when the
leader epoch ends. Each leader epoch has a shard of its own; a closed one is never used again. If the state may no
longer match the log, because a replay has failed or another writer has appended, the shard is closed too, and the
runtime loads another one (`ShardServices.reload`).

A request decides on the state, its records are appended and replayed at once, and its response is deferred. The state
is therefore ahead of what is committed. A response leaves when the high watermark has reached the end of the records
that the state had replayed, also that of a read or of a refusal. Until then another broker may lead, which never had
these records. When the shard is closed, all deferred and parked responses fail with NOT_COORDINATOR, and the clients
look for the new coordinator.

Past failures:

- Another writer appended to the partition, and its records were counted as this shard's. Responses left before their
  own records were committed. `PartitionWriter.committed_end` now never passes what this writer has appended, and after
  the records of another writer the shard is loaded again.
- The metadata changed while a shard was loaded, and its state missed the change. Such changes are now kept for `begin`.
- A parked response that the state had completed waited for its commit without a deadline. It now expires as any other.
- A completed response can lead to the next request within the same call, and the stack grew with their number. Only the
  outermost call of `_complete_committed` now completes responses.
- Stored errors kept the frames of their tracebacks, and each refused request left a cycle for the garbage collector.

So never yield between a decision and its append, never change the state except by replay and `Decision.apply`, and
never complete a response before all is committed that it rests on.
"""

from collections import deque
from collections.abc import Callable, Hashable
from enum import Enum
from functools import partial
from traceback import format_exception
from typing import Any, Final, Generic, NamedTuple, TypeVar

import trio

from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.partition_writer import AppendScheduler, PartitionWriter
from broker.coordinator.runtime.shard import CoordinatorShard, OnTimer, ShardContext
from broker.coordinator.runtime.timers import ShardTimers
from broker.coordinator.runtime.transaction_marker import TransactionMarker
from broker.net.completion import Completion
from broker.net.deadlines import Deadline, Deadlines
from broker.replication.leader_role import leading
from broker.replication.partition import Partition
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from kraft.env import FsyncFailed, Tracer
from metadata.image import MetadataDelta, MetadataImage

S = TypeVar("S", bound=CoordinatorShard)
T = TypeVar("T")

# How long Kafka waits before it retries a timer whose records could not be appended.
_TIMER_RETRY_MS: Final = 500


class Phase(Enum):
    """LOADING while the log is replayed. CLOSED when the leader epoch is over, or if the log could not be read."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


@lazy_attrs.frozen(kw_only=True)
class ShardServices:
    """The services that all shards of a coordinator share.

    `reload` loads a shard again whose state no longer matches its log, if this broker still leads the partition. A
    response waits at most `write_timeout_ms` for its commit. `now_ms` is wall-clock time.
    """

    appender: AppendScheduler
    deadlines: Deadlines
    write_timeout_ms: int
    now_ms: Callable[[], int]
    image: Callable[[], MetadataImage]
    trace: Tracer
    reload: Callable[["HostedShard[Any]"], None]


class _DeferredResponse(NamedTuple):
    """A response that leaves when the high watermark reaches `end_offset`.

    It has no deadline of its own. Responses leave in the order of their requests, so one deadline per shard, for the
    first of them, serves all.
    """

    end_offset: int
    since: float
    completion: Completion[Any]
    outcome: Any


class HostedShard(Generic[S]):
    """Decides requests on the state of a shard, and defers each response until the state it is based on is committed.

    `end_offset` is the end of the records that the state has replayed. Every response is based on that state, so it
    leaves when the high watermark has reached `end_offset`; responses leave in the order of their requests. See
    `CoordinatorShard` for the state's part.
    """

    def __init__(
        self,
        partition: Partition,
        make_state: Callable[[ShardContext], S],
        services: ShardServices,
    ) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.phase = Phase.LOADING
        self.end_offset = 0
        self._services = services
        self._leader = leading(partition)
        self._writer = PartitionWriter(self._leader, services.appender, lambda: services.reload(self))
        self.timers = ShardTimers(services.deadlines, self._fire)
        self.state = make_state(self)
        self._deferred: deque[_DeferredResponse] = deque()
        # The callbacks of `Decision.committed`, each with the end offset of its records.
        self._callbacks: deque[tuple[int, Callable[[], None]]] = deque()
        self._parked: dict[Completion[Any], None] = {}
        self._missed_changes: list[tuple[MetadataDelta, MetadataImage]] = []
        self._expiry: Deadline | None = None
        self._is_releasing = False

    @property
    def image(self) -> MetadataImage:
        return self._services.image()

    def park(self) -> Completion[Any]:
        return Completion()

    # Requests

    def write(self, decide: Callable[[S, int], Decision[T]]) -> Completion[T | KafkaError]:
        """Decides, appends, replays, and completes with the response when it is committed.

        Errors are stored without their traceback. It refers to this frame, and the frame to the error, so that each
        refused request would leave a cycle for the garbage collector.
        """
        completion: Completion[Any] = Completion()
        refusal = self._refusal()
        if refusal is not None:
            completion.complete(refusal)
            return completion
        now_ms = self._services.now_ms()
        try:
            decision = decide(self.state, now_ms)
        except KafkaError as error:
            self.defer(completion, error.with_traceback(None))  # the error is based on the state as well
        else:
            try:
                self._perform(decision, now_ms)
            except KafkaError as error:
                completion.complete(error.with_traceback(None))
                return completion
            response: Any = decision.response
            if isinstance(response, Completion):
                self._parked[completion] = None
                response.then(partial(self._give, completion))
            else:
                self.defer(completion, response)
        self._complete_committed()
        return completion

    def read(self, ask: Callable[[S, int], T]) -> Completion[T | KafkaError]:
        """As `write`, for requests that only read the state."""
        return self.write(lambda state, now_ms: Decision((), ask(state, now_ms)))

    def complete_transaction(self, marker: TransactionMarker) -> Completion[KafkaError | None]:
        """Appends the end of a transaction and replays it: its records take effect, or never will."""
        completion: Completion[KafkaError | None] = Completion()
        refusal = self._refusal()
        if refusal is not None:
            completion.complete(refusal)
            return completion
        try:
            self._writer.append_marker(marker, self._services.now_ms())
        except KafkaError as error:
            completion.complete(error.with_traceback(None))
            return completion
        try:
            self.state.replay_end_transaction(marker.producer_id, committed=marker.is_commit)
        except BaseException:
            self._services.reload(self)
            raise
        self.end_offset += 1
        self.defer(completion, None)
        self._complete_committed()
        return completion

    def _refusal(self) -> KafkaError | None:
        """The error for all requests at this moment; None if the shard can serve them."""
        if self.phase is Phase.LOADING:
            return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.phase is Phase.CLOSED or self.is_fenced:
            return not_coordinator()
        if not self._writer.is_only_writer:
            # Another writer has appended to the log.
            self._services.reload(self)
            return not_coordinator()
        return None

    def _perform(self, decision: Decision[Any], now_ms: int) -> None:
        """Appends, replays and applies a decision. Raises KafkaError if it cannot be appended; then nothing has
        changed.

        Only a decision that is not `atomic` may have been appended in part. In that case the shard is loaded again.
        """
        records, producer = decision.records, decision.producer
        if records:
            if producer is None:
                self._writer.append(records, now_ms, atomic=decision.atomic)
            else:
                self._writer.append_transactional(records, producer, now_ms)
        try:
            producer_id = -1 if producer is None else producer.producer_id
            for record in records:
                self.state.replay(record.key, record.value, self.end_offset, producer_id)
                self.end_offset += 1
            if decision.apply is not None:
                decision.apply()
        except BaseException:
            self._services.reload(self)  # the state is only partly changed
            raise
        if decision.committed is not None:
            self._callbacks.append((self.end_offset, decision.committed))

    def _fire(self, key: Hashable, decide: OnTimer) -> None:
        """Decides what a due timer has to decide, in a turn of its own."""
        if self._refusal() is not None:
            return  # the shard is closed, or is loaded again
        now_ms = self._services.now_ms()
        try:
            self._perform(decide(self.state, now_ms), now_ms)
        except KafkaError as error:
            self._services.trace("coordinator_timer_repeated", partition=str(self.partition), error=str(error))
            if self.phase is Phase.ACTIVE:
                self.timers.schedule(key, _TIMER_RETRY_MS, decide)
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - the shard is loaded again, and other shards go on
            self._services.trace(
                "coordinator_timer_failed", partition=str(self.partition), error="".join(format_exception(error))
            )
            self._services.reload(self)
        self._services.appender.commit()
        if self.phase is Phase.ACTIVE:
            self._complete_committed()

    # Responses

    def defer(self, completion: Completion[T | KafkaError], outcome: T | KafkaError) -> None:
        """Completes `completion` when all records that the state holds now are committed; the caller calls
        `_complete_committed`.
        """
        self._deferred.append(_DeferredResponse(self.end_offset, trio.current_time(), completion, outcome))

    def try_complete(self, partition: Partition) -> None:
        """Called when the partition's high watermark has advanced; see `broker.replication.waiters.Waiter`."""
        if self.phase is Phase.ACTIVE:
            self._complete_committed()
            self._writer.moved()

    def _complete_committed(self) -> None:
        """Completes the responses that are committed, and calls the callbacks of commits. Either may lead to a
        new request, whose response comes last.
        """
        if self._is_releasing:
            return  # the outer call completes them, so that the stack does not grow with their number
        deferred, callbacks, writer = self._deferred, self._callbacks, self._writer
        self._is_releasing = True
        try:
            while (deferred or callbacks) and not self.is_fenced:
                committed_end = writer.committed_end
                if deferred and deferred[0].end_offset <= committed_end:
                    _, _, completion, outcome = deferred.popleft()
                    completion.complete(outcome)
                elif callbacks and callbacks[0][0] <= committed_end:
                    callbacks.popleft()[1]()
                else:
                    break
        finally:
            self._is_releasing = False
        if (deferred or callbacks) and self.phase is Phase.ACTIVE:
            self.partition.waiters.for_high_watermark[self] = None
            if deferred and self._expiry is None:
                self._expiry = self._services.deadlines.add(deferred[0].since + self._timeout_s, self._expire)

    @property
    def _timeout_s(self) -> float:
        return self._services.write_timeout_ms / 1000

    def _expire(self) -> None:
        self._expiry = None
        deferred, now = self._deferred, trio.current_time()
        while deferred and deferred[0].since + self._timeout_s <= now:
            error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not committed in time")
            deferred.popleft().completion.complete(error)
        self._complete_committed()

    def _give(self, completion: Completion[Any], outcome: Any) -> None:
        """The state has completed a parked response, which leaves when the state of this moment is committed."""
        self._parked.pop(completion, None)
        if not completion.done:
            self.defer(completion, outcome)

    # Leadership and metadata

    @property
    def is_fenced(self) -> bool:
        """True if the leader epoch of this shard is over."""
        return self.partition.role is not self._leader

    def begin(self) -> None:
        """Starts to serve requests, after the log is replayed."""
        self.phase = Phase.ACTIVE
        self._writer.begin(self.end_offset)
        self.state.loaded(self._services.now_ms())
        changes, self._missed_changes = self._missed_changes, []
        for delta, image in changes:
            self.state.metadata_changed(delta, image)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Passes a change of the metadata to the state; while the log is loading, such changes are kept for later."""
        if self.phase is Phase.LOADING:
            self._missed_changes.append((delta, image))
        elif self.phase is Phase.ACTIVE:
            self.state.metadata_changed(delta, image)

    def close(self) -> None:
        """Stops the shard. All waiting requests fail with NOT_COORDINATOR, so that clients look for the new
        coordinator.
        """
        self.phase = Phase.CLOSED
        self._writer.end()
        self.timers.cancel_all()
        self._callbacks.clear()
        if self._expiry is not None:
            self._expiry.cancel()
        self.partition.waiters.for_high_watermark.pop(self, None)
        waiting: list[Completion[Any]] = [each.completion for each in self._deferred]
        waiting += self._parked
        self._deferred.clear()
        self._parked.clear()
        for completion in waiting:
            completion.complete(not_coordinator())


def not_coordinator() -> KafkaError:
    """The error for clients whose coordinator is another broker, or soon may be."""
    return KafkaError(ErrorCode.NOT_COORDINATOR)
