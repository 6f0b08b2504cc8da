"""How far moves of replicas are, in bytes, how fast they are, and how long the rest will take."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

import attrs
import trio

from broker.cli.grammar import Invocation
from broker.cli.grammar.units import format_count, format_duration_ms, format_size
from broker.cli.output.progress import StatusLine
from broker.client.admin import Admin, LogDir
from broker.client.errors import ClientError
from broker.client.types import TopicPartition
from broker.wire.errors import KafkaError

# The rate is that of this time. A shorter one follows each pause of a throttle, a longer one lags a change of the rate.
_WINDOW_S: Final = 30.0
# There is no rate before this time has passed.
_RATE_AFTER_S: Final = 2.0
# Sizes are requested at this interval, and never for more than a tenth of the time.
_SIZES_S: Final = 1.0
_SHARE_MAX: Final = 0.1
_SIZES_TIMEOUT_MS: Final = 5_000
# An estimate beyond this time says nothing.
_LONGEST_S: Final = 30 * 86_400.0


class Copy(NamedTuple):
    """A new replica of a partition."""

    partition: TopicPartition
    broker: int


class Copied(NamedTuple):
    """The size of a new replica, and of the replica that it is copied from."""

    size_bytes: int
    wanted_bytes: int


@attrs.frozen
class _Sample:
    at_s: float
    done_bytes: int
    left_bytes: int


class CopyEstimate:
    """Bytes that are copied and left, the rate, and the remaining time. Pure: times are arguments.

    New records of a leader count as bytes to copy, so `total_bytes` grows while clients write. The remaining time is
    computed from how fast the bytes that are left become fewer, and not from how fast they are copied.
    """

    def __init__(self) -> None:
        self._copies: dict[Copy, Copied] = {}
        self._samples: deque[_Sample] = deque()

    def observe(self, now_s: float, sizes: Mapping[Copy, Copied], ended: Collection[Copy] = ()) -> None:
        """Take in the sizes at a time. Copies without a size keep their last one; `ended` ones are complete."""
        is_new = any(each not in self._copies for each in sizes)
        self._copies.update(sizes)
        for each in ended:
            wanted = self._copies.get(each, Copied(0, 0)).wanted_bytes
            self._copies[each] = Copied(wanted, wanted)
        if is_new:
            self._samples.clear()  # a copy that was not counted before is no step back of the others
        self._samples.append(_Sample(now_s, self.done_bytes, self.total_bytes - self.done_bytes))
        while len(self._samples) > 2 and self._samples[1].at_s <= now_s - _WINDOW_S:
            self._samples.popleft()

    @property
    def total_bytes(self) -> int:
        return sum(each.wanted_bytes for each in self._copies.values())

    @property
    def done_bytes(self) -> int:
        # A copy with other segments may be larger for a while than what it is copied from.
        return sum(min(each) for each in self._copies.values())

    @property
    def rate(self) -> float | None:
        """Bytes per second that are copied; None as long as it is unknown."""
        if self._span_s < _RATE_AFTER_S:
            return None
        return max(0.0, (self._samples[-1].done_bytes - self._samples[0].done_bytes) / self._span_s)

    @property
    def remaining_s(self) -> float | None:
        """The time until all is copied; None if it is unknown, as while clients write at the rate of the copies."""
        if self._span_s < _RATE_AFTER_S:
            return None
        fewer = (self._samples[0].left_bytes - self._samples[-1].left_bytes) / self._span_s
        remaining_s = self._samples[-1].left_bytes / fewer if fewer > 0 else _LONGEST_S
        return remaining_s if remaining_s < _LONGEST_S else None

    @property
    def _span_s(self) -> float:
        return self._samples[-1].at_s - self._samples[0].at_s if self._samples else 0.0

    def describe(self) -> str:
        """The bytes, the rate and the remaining time, as far as they are known, for people."""
        sizes = f"{format_size(self.done_bytes)} of {format_size(self.total_bytes)}"
        rate = self.rate
        if rate is None or self.done_bytes == self.total_bytes:
            return sizes
        moving = f"{sizes}, {format_size(int(rate))}/s"
        if self.remaining_s is not None:
            return f"{moving}, about {format_duration_ms(max(1, round(self.remaining_s)) * 1000)} left"
        return f"{moving}, and new records come as fast: no end in sight" if rate else f"{moving}: nothing is copied"


class MoveProgress:
    """Shows how far the moves of some partitions are, within a `with` block."""

    def __init__(self, invocation: Invocation, admin: Admin, total: int) -> None:
        """`total` partitions move."""
        self._admin = admin
        self._total = total
        self._estimate = CopyEstimate()
        self._copies: dict[Copy, None] = {}
        self._sizes_at = -float("inf")
        self._line = StatusLine("Moving", lambda text: invocation.printer.note(f"kraft: {text}"))

    def __enter__(self) -> Self:
        self._line.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._line.__exit__(kind, error, traceback)

    async def show(self, done: int, replicas: Mapping[TopicPartition, Sequence[int]], copies: Iterable[Copy]) -> None:
        """Show the state: `done` partitions have moved, `copies` are under way or wait.

        `replicas` are the present replicas of the partitions that move.
        """
        now, left = trio.current_time(), dict.fromkeys(copies)
        self._copies.update(left)
        if now >= self._sizes_at or not left:
            sizes = await self._request_sizes(replicas, left)
            answered = trio.current_time()
            self._estimate.observe(answered, sizes, [each for each in self._copies if each not in left])
            self._sizes_at = answered + max(_SIZES_S, (answered - now) / _SHARE_MAX)
        partitions = f"{done} of {format_count(self._total, 'partition')}"
        if self._estimate.total_bytes:
            text = f"{partitions}, {self._estimate.describe()}"
            self._line.show(now, self._estimate.done_bytes, self._estimate.total_bytes, text)
        else:
            self._line.show(now, done, self._total, partitions)

    async def _request_sizes(
        self, replicas: Mapping[TopicPartition, Sequence[int]], copies: Mapping[Copy, None]
    ) -> dict[Copy, Copied]:
        """The sizes of copies whose sources answer."""
        brokers = {broker for each in copies for broker in (each.broker, *replicas.get(each.partition, ()))}
        partitions = list(dict.fromkeys(each.partition for each in copies))
        if not partitions:
            return {}
        try:
            alive = [node.id for node in (await self._admin.describe_cluster()).nodes]
            log_dirs = await self._admin.describe_log_dirs(
                [broker for broker in alive if broker in brokers], partitions=partitions, timeout_ms=_SIZES_TIMEOUT_MS
            )
        except (KafkaError, ClientError):
            return {}
        return copied_sizes(log_dirs.succeeded, copies)


def copied_sizes(log_dirs: Mapping[int, Mapping[str, LogDir]], copies: Collection[Copy]) -> dict[Copy, Copied]:
    """The sizes of copies, from the log directories by broker. Copies of whose source nothing is known are left out."""
    found: dict[Copy, int] = {
        Copy(partition, broker): replica.size_bytes
        for broker, directories in log_dirs.items()
        for directory in directories.values()
        for partition, replica in directory.replicas.items()
        if not replica.is_future
    }
    wanted: dict[TopicPartition, int] = {}
    for each, size in found.items():
        if each not in copies:
            wanted[each.partition] = max(size, wanted.get(each.partition, 0))
    return {each: Copied(found.get(each, 0), wanted[each.partition]) for each in copies if each.partition in wanted}
