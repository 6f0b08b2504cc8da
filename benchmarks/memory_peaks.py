"""The peak memory of Spark's processes on this machine. Linux only."""

import os
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from benchmarks.processes import family, resident_mb

_INTERVAL_S: Final = 0.5
_DRIVER: Final = "the driver"
_JVM: Final = "the JVM"
_WORKER: Final = "a Python worker"
_ALL: Final = "all together"


class MemoryPeaks:
    """Watches this process and its descendants within the block: the driver, its JVM, and Python workers.

    Memory that forked workers share with their parent process counts for each of them.
    """

    def __init__(self) -> None:
        self._peaks: dict[str, float] = defaultdict(float)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "MemoryPeaks":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def peaks_mb(self) -> dict[str, float]:
        """The peaks in MB (millions of bytes), by kind of process."""
        return {what: self._peaks[what] for what in (_DRIVER, _JVM, _WORKER, _ALL)}

    def _watch(self) -> None:
        while not self._is_over.wait(_INTERVAL_S):
            together = 0.0
            for pid in family(os.getpid()):
                with suppress(FileNotFoundError, ProcessLookupError):
                    together += self._measure(pid)
            self._peaks[_ALL] = max(self._peaks[_ALL], together)

    def _measure(self, pid: int) -> float:
        memory = resident_mb(pid)
        is_java = Path(f"/proc/{pid}/comm").read_text().strip() == "java"
        what = _DRIVER if pid == os.getpid() else _JVM if is_java else _WORKER
        self._peaks[what] = max(self._peaks[what], memory)
        return memory
