"""One direction of a connection, while faults concern it: the bytes that are under way, in their order."""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, TypeAlias

import attrs
import trio

from jepsen.testing.links.active_link import ActiveLink, Effect

# The bytes under way beyond which the sender waits, as for the window of a TCP connection.
WINDOW_BYTES: Final = 1 << 20


class End(Enum):
    """The end of a direction, which comes after all bytes."""

    SHUT = "shut"
    CLOSED = "closed"


Item: TypeAlias = bytes | End | OSError


@attrs.define(eq=False)
class _Passage:
    """The part of one fault in a flow: `passed` counts bytes since its begin."""

    active: ActiveLink
    passed: int = 0
    has_fired: bool = False
    is_holding: bool = False


class Flow:
    """`is_inbound` is true for what a node receives. `has_lost` is true once a fault has lost bytes of it.

    `when_fired` records that a fault has affected the connection, `when_reset` resets it. `is_pumped` is true while a
    task carries the bytes.
    """

    def __init__(
        self,
        *,
        is_inbound: bool,
        when_fired: Callable[[ActiveLink, Effect], None],
        when_reset: Callable[[ActiveLink], None],
    ) -> None:
        self.is_pumped = False
        self.has_lost = False
        # Cancelled to interrupt a call of the kernel's socket when faults begin or end, and to end the task.
        self.direct: trio.CancelScope | None = None
        self.pump = trio.CancelScope()
        self._is_inbound = is_inbound
        self._when_fired = when_fired
        self._when_reset = when_reset
        self._passages: dict[str, _Passage] = {}
        self._items: deque[tuple[float, Item]] = deque()
        self._size = 0
        self._changed = trio.Event()

    @property
    def has_faults(self) -> bool:
        return bool(self._passages)

    @property
    def is_direct(self) -> bool:
        """True if bytes go straight to the kernel's socket, or come from it."""
        return not (self._passages or self.is_pumped or self._items)

    @property
    def is_idle(self) -> bool:
        """True if its task has nothing to do any more."""
        return not (self._passages or self._items)

    def begin(self, active: ActiveLink) -> None:
        """Put a fault in force. Bytes that the kernel's socket has taken are not concerned."""
        self._passages[active.id] = _Passage(active)
        self.interrupt()

    def end(self, active: ActiveLink) -> None:
        """All bytes that are under way arrive, unless other faults concern them."""
        passage = self._passages.pop(active.id, None)
        if passage is not None:
            self._note_holding(passage, False)
            self.interrupt()

    def clear(self) -> None:
        """Drop what is under way, and end its task: the connection is broken."""
        self.pump.cancel()
        for passage in self._passages.values():
            self._note_holding(passage, False)
        self._items.clear()
        self._size = 0
        self.interrupt()

    def interrupt(self) -> None:
        """Make waiting tasks look again, also one that waits for the kernel's socket."""
        if self.direct is not None:
            self.direct.cancel()
        self.notify()

    def notify(self) -> None:
        """Make waiting tasks look again."""
        self._changed.set()
        self._changed = trio.Event()

    async def changed(self) -> None:
        await self._changed.wait()

    async def put(self, data: bytes, check: Callable[[], None]) -> None:
        """Send bytes on their way. Returns once there is room for more. `check` is called before each wait, and raises.

        Bytes are under way also if it is cancelled.
        """
        size = min((each for p in self._passages.values() if (each := p.active.piece_bytes) is not None), default=0)
        for start in range(0, len(data), size or len(data)):
            self.put_soon(data[start : start + (size or len(data))])
        while self._size > WINDOW_BYTES and self._passages:
            check()
            await self._changed.wait()

    def put_soon(self, item: Item) -> None:
        """Send bytes, an end or a failure on their way."""
        size = len(item) if isinstance(item, bytes) else 0
        passages = list(self._passages.values())
        lost = [each for each in passages if each.active.conditions.black_hole]
        for each in lost:
            self.has_lost = True
            self._fire(each, Effect.LOST)
        if lost:
            return
        now = trio.current_time()
        due = now
        for each in passages:
            due = max(due, each.active.arrival(now, size, is_inbound=self._is_inbound))
            if due > now:
                self._fire(each, Effect.DELAYED)
        if self._items:
            due = max(due, self._items[-1][0])
        self._items.append((due, item))
        self._size += size
        self.notify()

    async def take(self, bytes_max: int, check: Callable[[], None]) -> Item | None:
        """Wait for what arrives next. None if nothing is under way, no fault is in force, and no task carries bytes in.

        `check` is called before each wait, and raises.
        """
        while True:
            check()
            if self.is_direct if self._is_inbound else self.is_idle:
                return None
            cuts = [each for each in self._passages.values() if each.active.conditions.cut]
            if self._items and not cuts:
                due_in = self._items[0][0] - trio.current_time() if self._passages else 0.0
                if due_in <= 0:
                    if (taken := self._take_now(bytes_max)) is not None:
                        return taken
                    continue
                with trio.move_on_after(due_in):
                    await self._changed.wait()
                continue
            if self._items:
                for each in cuts:
                    self._fire(each, Effect.HELD)
                    self._note_holding(each, True)
            await self._changed.wait()

    def _take_now(self, bytes_max: int) -> Item | None:
        """The next item, or the part of it that resets leave; None if the connection was reset in its place."""
        due, item = self._items[0]
        if not isinstance(item, bytes):
            self._items.popleft()
            return item
        size = min(len(item), bytes_max)
        resetting = [each for each in self._passages.values() if each.active.resets_more]
        for each in resetting:
            left = (each.active.conditions.reset_after_bytes or 0) - each.passed
            if left <= 0:
                self._fire(each, Effect.RESET)
                self._when_reset(each.active)
                return None
            size = min(size, left)
        for each in resetting:
            each.passed += size
        self._items.popleft()
        if size < len(item):
            self._items.appendleft((due, item[size:]))
        self._size -= size
        self.notify()
        return item[:size]

    def _fire(self, passage: _Passage, effect: Effect) -> None:
        if not passage.has_fired:
            passage.has_fired = True
            self._when_fired(passage.active, effect)

    def _note_holding(self, passage: _Passage, is_holding: bool) -> None:
        if passage.is_holding != is_holding:
            passage.is_holding = is_holding
            passage.active.hold(1 if is_holding else -1)
