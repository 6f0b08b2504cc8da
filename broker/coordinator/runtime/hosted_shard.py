"""One shard on this broker: the state over a partition that it leads, for as long as it leads under that epoch."""

from collections import deque
from collections.abc import Callable, Hashable
from enum import Enum
from traceback import format_exception
from typing import Any, Final, Generic, NamedTuple, TypeVar

import attrs
import trio

from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import CoordinatorError, Decision
from broker.coordinator.runtime.partition_writer import Appender, LogWriter
from broker.coordinator.runtime.shard import OnTimer, Shard, ShardContext
from broker.coordinator.runtime.timers import ShardTimers
from broker.net.deadlines import Deadline, Deadlines
from broker.replication.partition import Partition
from broker.wire.errors import ErrorCode
from kraft.env import FsyncFailed, Tracer
from metadata.image import MetadataDelta, MetadataImage

S = TypeVar("S", bound=Shard)
T = TypeVar("T")

# What Kafka waits before it repeats what a timer could not write.
_TIMER_RETRY_MS: Final = 500


class Phase(Enum):
    """LOADING until the log is replayed, GONE once this broker leads no more, or where the log could not be read."""

    LOADING = "loading"
    ACTIVE = "active"
    GONE = "gone"


@attrs.frozen(kw_only=True)
class ShardSurroundings:
    """What the shards of a coordinator share. `reload` has one that went begin anew, while its partition is led still.

    `write_timeout_ms` is what a response waits for its commit at most. `now_ms` is wall-clock time.
    """

    appender: Appender
    deadlines: Deadlines
    write_timeout_ms: int
    now_ms: Callable[[], int]
    image: Callable[[], MetadataImage]
    trace: Tracer
    reload: Callable[["HostedShard[Any]"], None]


class _Gated(NamedTuple):
    """A response that leaves when the high watermark has come to `end_offset`."""

    end_offset: int
    since: float
    completion: Completion[Any]
    outcome: Any


class HostedShard(Generic[S]):
    """See the module's docstring, and `Shard` for the state's part.

    `end_offset` is the end of what the state has taken over. Whatever is answered rests on the state, so it leaves
    when all of that is committed; in the order in which it was asked.
    """

    def __init__(
        self,
        partition: Partition,
        make_state: Callable[[ShardContext], S],
        surroundings: ShardSurroundings,
    ) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.phase = Phase.LOADING
        self.end_offset = 0
        self._around = surroundings
        self._writer = LogWriter(partition, surroundings.appender, lambda: surroundings.reload(self))
        self.timers = ShardTimers(surroundings.deadlines, self._fire)
        self.state = make_state(self)
        self._gated: deque[_Gated] = deque()
        self._parked: dict[_Parked, None] = {}
        self._unheard_of: list[tuple[MetadataDelta, MetadataImage]] = []
        self._expiry: Deadline | None = None
        self._is_releasing = False

    @property
    def image(self) -> MetadataImage:
        return self._around.image()

    def park(self) -> Completion[Any]:
        return _Parked(self)

    # Asking

    def write(self, decide: Callable[[S, int], Decision[T]]) -> Completion[T]:
        """Have it decided, written, taken over, and answered when it is committed.

        An error that is the answer loses its traceback: this very frame is in it and refers to the answer, so that each
        refused request would leave a cycle for the garbage collector.
        """
        completion: Completion[Any] = Completion()
        refusal = self._refusal()
        if refusal is not None:
            completion.fail(refusal)
            return completion
        now_ms = self._around.now_ms()
        try:
            decision = decide(self.state, now_ms)
        except CoordinatorError as error:
            self.gate(completion, error.with_traceback(None))  # it tells of the state as well
        else:
            try:
                self._carry_out(decision, now_ms)
            except CoordinatorError as error:
                completion.fail(error.with_traceback(None))
                return completion
            response: Any = decision.response
            if isinstance(response, _Parked):
                completion = response
                if not response.done:
                    self._parked[response] = None
            else:
                self.gate(completion, response)
        self._release()
        return completion

    def read(self, ask: Callable[[S, int], T]) -> Completion[T]:
        """As `write`, of what only looks at the state."""
        return self.write(lambda state, now_ms: Decision((), ask(state, now_ms)))

    def _refusal(self) -> CoordinatorError | None:
        """Why nothing can be asked now."""
        if self.phase is Phase.LOADING:
            return CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.phase is Phase.GONE or self.is_fenced:
            return not_coordinator()
        if not self._writer.is_alone:
            # Somebody else has written here.
            self._around.reload(self)
            return not_coordinator()
        return None

    def _carry_out(self, decision: Decision[Any], now_ms: int) -> None:
        """Append, replay and apply. Raises CoordinatorError where nothing could be appended; nothing has changed then.

        What is not `atomic` may have been appended in part. Then the state is loaded anew.
        """
        records = decision.records
        if not records and decision.apply is None:
            return
        if records:
            self._append(decision, now_ms)
        try:
            replay = self.state.replay
            for record in records:
                replay(record.key, record.value, self.end_offset, now_ms)
                self.end_offset += 1
            if decision.apply is not None:
                decision.apply()
        except BaseException:
            self._around.reload(self)  # the state is neither what it was nor what the log says
            raise

    def _append(self, decision: Decision[Any], now_ms: int) -> None:
        try:
            self._writer.append(decision.records, now_ms, atomic=decision.atomic)
        except CoordinatorError:
            if self._writer.decided_end != self.end_offset:
                self._around.reload(self)
            raise

    def _fire(self, key: Hashable, decide: OnTimer) -> None:
        """A timer is due: a turn of its own."""
        if self._refusal() is not None:
            return  # the shard is gone, or has to begin anew
        now_ms = self._around.now_ms()
        try:
            self._carry_out(decide(self.state, now_ms), now_ms)
        except CoordinatorError as error:
            self._around.trace("coordinator_timer_repeated", partition=str(self.partition), error=str(error))
            if self.phase is Phase.ACTIVE:
                self.timers.schedule(key, _TIMER_RETRY_MS, decide)
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - the shard begins anew, and everybody else is served
            self._around.trace(
                "coordinator_timer_failed", partition=str(self.partition), error="".join(format_exception(error))
            )
            self._around.reload(self)
        self._around.appender.commit()
        if self.phase is Phase.ACTIVE:
            self._release()

    # Answering

    def gate(self, completion: Completion[T], outcome: T | CoordinatorError) -> None:
        """Settle `completion` when all that the state rests on now is committed; `_release` is to follow."""
        self._gated.append(_Gated(self.end_offset, trio.current_time(), completion, outcome))

    def poke(self, partition: Partition) -> None:
        """The partition has moved; see `broker.replication.partition.Waiter`."""
        if self.phase is Phase.ACTIVE:
            self._release()

    def _release(self) -> None:
        """Answer what is committed. An answer may lead to the next request, which is answered after those before it."""
        if self._is_releasing:
            return  # by whoever called this first, so that the stack does not grow with the number of answers
        gated, partition, writer = self._gated, self.partition, self._writer
        self._is_releasing = True
        try:
            while gated and gated[0].end_offset <= writer.committed_end and not self.is_fenced:
                _, _, completion, outcome = gated.popleft()
                completion.settle(outcome)
        finally:
            self._is_releasing = False
        writer.moved()
        if gated and self.phase is Phase.ACTIVE:
            partition.waiting[self] = None
            if self._expiry is None:
                self._expiry = self._around.deadlines.add(gated[0].since + self._timeout_s, self._expire)

    @property
    def _timeout_s(self) -> float:
        return self._around.write_timeout_ms / 1000

    def _expire(self) -> None:
        self._expiry = None
        gated, now = self._gated, trio.current_time()
        while gated and gated[0].since + self._timeout_s <= now:
            error = CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not committed in time")
            gated.popleft().completion.settle(error)
        self._release()

    def unpark(self, parked: "_Parked") -> None:
        """It is done."""
        self._parked.pop(parked, None)

    # Coming and going

    @property
    def is_fenced(self) -> bool:
        """Whether the epoch is over in which this shard was begun."""
        partition = self.partition
        return partition.leader_epoch != self.epoch or not partition.leads

    def begin(self) -> None:
        """The log is replayed."""
        self.phase = Phase.ACTIVE
        self._writer.begin(self.end_offset)
        self.state.loaded(self._around.now_ms())
        changes, self._unheard_of = self._unheard_of, []
        for delta, image in changes:
            self.state.metadata_changed(delta, image)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Tell the state, once it is loaded: there are few changes in that time."""
        if self.phase is Phase.LOADING:
            self._unheard_of.append((delta, image))
        elif self.phase is Phase.ACTIVE:
            self.state.metadata_changed(delta, image)

    def go(self) -> None:
        """Answer nothing any more: whoever waits is told to look for the coordinator anew."""
        self.phase = Phase.GONE
        self._writer.end()
        self.timers.cancel_all()
        if self._expiry is not None:
            self._expiry.cancel()
        self.partition.waiting.pop(self, None)
        waiting: list[Completion[Any]] = [each.completion for each in self._gated]
        waiting += self._parked
        self._gated.clear()
        self._parked.clear()
        for completion in waiting:
            completion.settle(not_coordinator())


class _Parked(Completion[Any]):
    """A response that the state gives out later, when what it rests on then is committed."""

    __slots__ = ("_is_given", "_shard")

    def __init__(self, shard: HostedShard[Any]) -> None:
        super().__init__()
        self._shard = shard
        self._is_given = False

    def complete(self, value: object) -> None:
        self._give(value)

    def fail(self, error: CoordinatorError) -> None:
        self._give(error)

    def settle(self, outcome: Any) -> None:
        self._shard.unpark(self)
        super().settle(outcome)

    def _give(self, outcome: Any) -> None:
        if not self._is_given and not self.done:
            self._is_given = True
            self._shard.gate(self, outcome)


def not_coordinator() -> CoordinatorError:
    """Told to those whose coordinator is, or may be, another broker."""
    return CoordinatorError(ErrorCode.NOT_COORDINATOR)
