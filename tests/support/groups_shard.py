"""A shard of groups without a node: decisions are appended to a list and replayed, as the runtime does."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from broker.coordinator.group.config import GroupConfig
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.coordinator.runtime.shard import OnTimer
from metadata.image import MetadataImage

T = TypeVar("T")
BEGINNING_MS = 1_700_000_000_000


class ListedTimers:
    """Timers in a dict; `pass_ms` of the shard runs them."""

    def __init__(self, shard: "GroupsShard") -> None:
        self._shard = shard
        self.due: dict[Hashable, tuple[float, OnTimer]] = {}

    def schedule(self, key: Hashable, delay_ms: float, decide: OnTimer) -> None:
        self.due[key] = (self._shard.now_ms + delay_ms, decide)

    def schedule_once(self, key: Hashable, delay_ms: float, decide: OnTimer) -> None:
        if key not in self.due:
            self.schedule(key, delay_ms, decide)

    def postpone(self, key: Hashable, delay_ms: float) -> None:
        if key in self.due:
            self.schedule(key, delay_ms, self.due[key][1])

    def cancel(self, key: Hashable) -> None:
        self.due.pop(key, None)


class GroupsShard:
    """The shard. `log` has records with time and producer id, and the end markers of producers' transactions."""

    def __init__(self, config: GroupConfig | None = None) -> None:
        self.config = config or GroupConfig()
        self.now_ms = BEGINNING_MS
        self.image = MetadataImage()
        self.log: list[tuple[CoordinatorRecord, int, int] | tuple[bool, int]] = []
        self.load()

    def park(self) -> Completion[Any]:
        return Completion()

    def load(self) -> None:
        """Load a new state from the log."""
        self.timers = ListedTimers(self)
        self.state = GroupCoordinatorShard(self, self.config)
        for offset, entry in enumerate(self.log):
            self._replay(offset, entry)
        self.state.loaded(self.now_ms)

    def compact(self, *, keeps_tombstones: bool) -> None:
        """Compact the log, so that only the last record of each key remains. Only for logs without transactions."""
        last = {entry[0].key: entry for entry in self.log if len(entry) == 3}
        kept = {id(entry) for entry in last.values() if keeps_tombstones or entry[0].value is not None}
        self.log = [entry for entry in self.log if id(entry) in kept]

    def write(self, decide: Callable[[GroupCoordinatorShard, int], Decision[T]], producer_id: int = -1) -> T:
        """Raises KafkaError."""
        return self._carry_out(decide(self.state, self.now_ms), producer_id)

    def append(self, *records: CoordinatorRecord, producer_id: int = -1) -> None:
        """Append records that do not come from a decision of this shard."""
        self._carry_out(Decision(records, None), producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.log.append((committed, producer_id))
        self._replay(len(self.log) - 1, self.log[-1])

    def pass_ms(self, elapsed_ms: int) -> None:
        """Advance the time, and run the timers that become due in order."""
        end_ms = self.now_ms + elapsed_ms
        while due := [(when, key) for key, (when, _) in self.timers.due.items() if when <= end_ms]:
            when, key = min(due, key=lambda each: each[0])
            self.now_ms = int(when)
            self._carry_out(self.timers.due.pop(key)[1](self.state, self.now_ms))
        self.now_ms = end_ms

    def _carry_out(self, decision: Decision[T], producer_id: int = -1) -> T:
        for record in decision.records:
            self.log.append((record, self.now_ms, producer_id))
            self._replay(len(self.log) - 1, self.log[-1])
        if decision.apply is not None:
            decision.apply()
        return decision.response

    def _replay(self, offset: int, entry: tuple[CoordinatorRecord, int, int] | tuple[bool, int]) -> None:
        if len(entry) == 2:
            self.state.replay_end_transaction(entry[1], committed=entry[0])
        else:
            record, _, producer_id = entry
            self.state.replay(record.key, record.value, offset, producer_id)
