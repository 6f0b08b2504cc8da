"""The real disk, whose syncs are calls in the event loop instead of in threads.

A node makes 60 syncs from its start to its end. In memory they take no time, and the change to a thread and back takes
an eighth of the processor time of a test with a node. Nodes in processes of their own use threads.
"""

import os
import time
from collections.abc import Callable, Sequence

import trio

from kraft import system_calls
from kraft.env import RealDisk, RealFile


class InlineDisk(RealDisk):
    """The operating system's file systems, without threads for syncs and removals."""

    def open(self, path: str, *, create: bool = False) -> RealFile:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
        return InlineFile(path, descriptor, self._sync_times)

    async def remove(self, path: str) -> None:
        await _at_once(lambda: system_calls.remove(path))

    async def sync_dir(self, path: str) -> None:
        await _at_once(lambda: system_calls.sync_dir(path))

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        await _at_once(lambda: system_calls.sync_all(files, directories))


class InlineFile(RealFile):
    __slots__ = ()

    async def sync(self) -> None:
        began_s = time.perf_counter()
        await _at_once(lambda: system_calls.sync(self._open(), self.path))
        if self._sync_times is not None and self._sync_times.record is not None:
            self._sync_times.record(time.perf_counter() - began_s)


async def _at_once(call: Callable[[], None]) -> None:
    """Call it as `trio.to_thread.run_sync` does: not if the task is cancelled, and others run meanwhile."""
    await trio.lowlevel.checkpoint_if_cancelled()
    call()
    await trio.lowlevel.cancel_shielded_checkpoint()
