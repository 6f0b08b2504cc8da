"""A fault that is in force on a node: how often it has fired and for whom, and the requests that it holds."""

from collections import deque
from collections.abc import Callable
from typing import Final

import attrs
import trio

from jepsen.testing.faults.fault import ActionKind, Fault, OccurrenceCounter, RequestFacts, carries_error
from jepsen.testing.faults.shapes import Subject
from metadata.image import MetadataImage

# The latest firings that a fault remembers; all are counted.
FIRINGS_MAX: Final = 1_000


class FaultEnded(Exception):
    """The fault has ended, and cannot do any more what is waited for."""


@attrs.frozen
class Firing:
    """One request on which a fault has fired, with the parts of it that are concerned. `at` is the wall-clock time."""

    at: float
    api: str
    client_id: str
    address: str
    node: int
    subjects: tuple[Subject, ...]


class ActiveFault:
    """`fired` counts the requests on which it has fired, `held` those that wait now. `image` is the metadata as of its
    begin. `when_changed` is called after each change of these.
    """

    def __init__(
        self, fault_id: str, fault: Fault, image: MetadataImage | None, when_changed: Callable[["ActiveFault"], None]
    ) -> None:
        self.id = fault_id
        self.fault = fault
        self.image = image
        self.fired = self.held = 0
        self.firings: deque[Firing] = deque(maxlen=FIRINGS_MAX)
        self.is_ended = self._is_retired = False
        self._counter = OccurrenceCounter(fault.occurrence)
        self._when_changed = when_changed
        self._changed = trio.Event()
        self._released = trio.Event()

    def concerns(self, facts: RequestFacts, *, is_connected: bool) -> bool:
        """True if the request matches, and the action can be taken on it.

        One that has no connection can be neither dropped nor throttled. Old versions of DescribeLogDirs have no error.
        """
        needs_connection = self.fault.kind in (ActionKind.DROP, ActionKind.LOSE_ANSWER, ActionKind.THROTTLE)
        if self.fault.kind is ActionKind.ERROR and not carries_error(facts.api, facts.version):
            return False
        return (is_connected or not needs_connection) and self.fault.selection.matches(facts)

    def fires(self, facts: RequestFacts, at: float) -> bool:
        """Count a request that the fault concerns. True if the fault fires on it."""
        if self.is_ended or self._is_retired or not self._counter.fires():
            return False
        subjects = tuple(filter(self.fault.selection.matches_subject, facts.subjects))
        self.firings.append(Firing(at, facts.api.name, facts.client_id, facts.address, facts.node, subjects))
        self.fired += 1
        self._notify()
        return True

    async def wait_fired(self, times: int = 1) -> None:
        """Wait until it has fired so often. Raises FaultEnded."""
        await self._wait(lambda: self.fired >= times, f"it has fired {self.fired} times, not {times}")

    async def wait_held(self, count: int = 1) -> None:
        """Wait until it holds so many requests. Raises FaultEnded."""
        await self._wait(lambda: self.held >= count, f"it holds no {count} requests")

    async def _wait(self, holds: Callable[[], bool], reason: str) -> None:
        while not holds():
            if self.is_ended:
                raise FaultEnded(f"fault {self.id} has ended: {reason}")
            await self._changed.wait()

    async def hold(self, timeout_s: float) -> None:
        """Hold a request until it is released, or for this time."""
        self.held += 1
        self._notify()
        try:
            if not self.is_ended:
                with trio.move_on_after(timeout_s):
                    await self._released.wait()
        finally:
            self.held -= 1
            self._notify()

    def release(self) -> None:
        """Release the requests that are held now; later ones are held again."""
        self._released.set()
        self._released = trio.Event()

    def retire(self) -> None:
        """Fire no more. Requests that are held stay so."""
        self._is_retired = True

    def end(self) -> None:
        """Fire no more, and release all requests that are held. Ending it again has no effect."""
        if not self.is_ended:
            self.is_ended = True
            self._released.set()
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
        self._when_changed(self)
