"""Interrupts a simulated process that never lets other tasks run."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

# How often the watchdog looks, as a part of its limit.
_LOOKS: Final = 4
# Not SIGALRM, which other timeouts of tests use.
_SIGNAL: Final = signal.SIGVTALRM


class NeverYields(BaseException):
    """A task has run for too long without reaching an await that lets other tasks run.

    Not an Exception, so that the task does not handle it as one of its own.
    """


class Watchdog:
    """Raises NeverYields in the running code if `steps` has not changed for `seconds` of real time.

    It works in the main thread only, because only there does Python interrupt code. In other threads it does nothing.
    """

    def __init__(self, seconds: float, steps: Callable[[], int]) -> None:
        self._is_on = True
        self._seconds = seconds
        self._steps = steps

    def switch_off(self) -> None:
        """Never interrupt again: a person has entered a debugger."""
        self._is_on = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the code of the block."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(_SIGNAL, self._interrupt)
        over, main = threading.Event(), threading.get_ident()
        thread = threading.Thread(target=self._watch, args=(over, main), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            signal.signal(_SIGNAL, before)

    def _watch(self, over: threading.Event, main: int) -> None:
        steps, unchanged = -1, 0
        while not over.wait(self._seconds / _LOOKS):
            now = self._steps()
            unchanged = unchanged + 1 if now == steps else 0
            steps = now
            if unchanged >= _LOOKS and self._is_on:
                unchanged = 0
                signal.pthread_kill(main, _SIGNAL)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        raise NeverYields(f"no task could run for {self._seconds:g} s, because this one does not await anything")
