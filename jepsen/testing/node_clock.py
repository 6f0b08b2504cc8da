"""The wall clock of a node of a test cluster, which faults and the supervisor put forward and back."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from broker.node import Node
from jepsen.testing.errors import BadRequest
from jepsen.testing.node_commands import Commands
from jepsen.testing.word_types import Word
from jepsen.testing.words import Words

# Ten years. Python and Kafka have times from 1970 on; a clock beyond that could not be read.
_OFFSET_MS_MAX: Final = 10 * 365 * 24 * 3600 * 1000
CLOCK_WORDS: Final[Mapping[str, Word]] = {
    "offset_ms": Word.integer(
        "The clock is ahead by so much, or late if that is negative.", -_OFFSET_MS_MAX, _OFFSET_MS_MAX, required=True
    ),
    "every_ms": Word.number("The clock is wrong for so long, then right for as long, and so on.", 1),
}


@attrs.frozen
class ClockFault:
    """The clock is ahead by `offset_ms`, or late if that is negative.

    With `every_ms` it jumps there and back: it is ahead for so long, then right for as long, and so on.
    """

    offset_ms: int
    every_ms: float | None = None

    @classmethod
    def read(cls, words: Words) -> "ClockFault":
        """Take the words of a fault. Raises BadRequest."""
        offset_ms = words.integer("offset_ms")
        every_ms = words.number("every_ms") if "every_ms" in words else None
        if not offset_ms or abs(offset_ms) > _OFFSET_MS_MAX:
            raise BadRequest(f"offset_ms has to be from -{_OFFSET_MS_MAX} to {_OFFSET_MS_MAX}, and not 0")
        if every_ms is not None and every_ms < 1:
            raise BadRequest("every_ms has to be 1 or more")
        return cls(offset_ms, every_ms)


@attrs.frozen
class ClockFiring:
    """The begin of a fault on a node. `at` is the wall-clock time of the machine."""

    at: float
    node: int
    offset_ms: int


@attrs.define(eq=False)
class ActiveClockFault:
    """A fault that is in force since `began`, of the monotonic clock."""

    id: str
    fault: ClockFault
    began: float
    firings: deque[ClockFiring]
    fired: int = 1
    held: int = 0

    def release(self) -> None:
        """A clock holds nothing."""

    def retire(self) -> None:
        """A clock is wrong until the end."""

    def ahead_s(self, now: float) -> float:
        every_ms = self.fault.every_ms
        is_back = every_ms is not None and int((now - self.began) * 1000 / every_ms) % 2 == 1
        return 0.0 if is_back else self.fault.offset_ms / 1000


class NodeClock:
    """The wall clock of the machine, put forward and back on the node `node`."""

    def __init__(self, node: int, when_changed: Callable[[ActiveClockFault], None] = lambda active: None) -> None:
        self.faults: dict[str, ActiveClockFault] = {}
        self.commands: Commands = {"set_clock_ahead": self.set_ahead}
        self._node = node
        self._when_changed = when_changed
        self._ahead_s = 0.0

    def now(self) -> float:
        """Seconds since 1970."""
        if not self.faults:
            return time.time() + self._ahead_s
        monotonic = time.monotonic()
        return time.time() + self._ahead_s + sum(each.ahead_s(monotonic) for each in self.faults.values())

    async def set_ahead(self, node: Node, ahead_s: float) -> None:
        """Put the clock forward, besides its faults."""
        self._ahead_s = ahead_s

    def begin(self, fault_id: str, words: Mapping[str, Any]) -> None:
        """Put a fault in force."""
        fault = ClockFault(**words)
        firings = deque([ClockFiring(time.time(), self._node, fault.offset_ms)])
        self.faults[fault_id] = active = ActiveClockFault(fault_id, fault, time.monotonic(), firings)
        self._when_changed(active)

    def end(self, active: ActiveClockFault) -> None:
        """Put the clock right again."""
        self.faults.pop(active.id, None)
