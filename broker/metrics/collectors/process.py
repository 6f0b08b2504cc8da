"""The process: memory, garbage collection, and the delay of the event loop."""

import gc
import os
import resource
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from math import inf
from typing import Final

import trio

from broker.metrics.catalogue import process
from broker.metrics.histogram import Histogram
from broker.metrics.metric import Family, Sample

# How often the delay of the loop is sampled. It costs some 20 us a time.
_INTERVAL_S: Final = 0.1
# The open descriptors of this process, by their numbers: on Linux and on macOS.
_DESCRIPTOR_DIRECTORIES: Final = ("/proc/self/fd", "/dev/fd")
_LAG_BOUNDS_MS: Final = (0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500)


class ProcessCollector:
    """Reads the counters of the kernel and of Python. `run` has to run: it samples the event loop.

    `info` are the labels of the node's description; `is_ready` says whether it serves its clients.
    """

    def __init__(self, info: Callable[[], tuple[str, ...]], is_ready: Callable[[], bool]) -> None:
        self._info = info
        self._is_ready = is_ready
        self._lag = Histogram(_LAG_BOUNDS_MS)
        self._collecting_since_s = self._collected_s = 0.0
        self._began_s = time.time()

    async def run(self) -> None:
        """Sample the loop, and take the time of garbage collections, until cancelled."""
        gc.callbacks.append(self._on_collection)
        try:
            while True:
                due_s = trio.current_time() + _INTERVAL_S
                await trio.sleep_until(due_s)
                self._lag.record((trio.current_time() - due_s) * 1000)
        finally:
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: object) -> None:
        now_s = time.perf_counter()
        if phase == "start":
            self._collecting_since_s = now_s
        elif self._collecting_since_s:
            self._collected_s += now_s - self._collecting_since_s

    def collect(self) -> Iterable[Family]:
        yield process.NODE_INFO, [Sample(self._info(), 1)]
        yield process.IS_READY.single(int(self._is_ready()))
        yield process.LOOP_LAG.single(self._lag.distribution)
        generations = list(enumerate(gc.get_stats()))
        for metric, name in (
            (process.GC_COLLECTIONS, "collections"),
            (process.GC_COLLECTED, "collected"),
            (process.GC_UNCOLLECTABLE, "uncollectable"),
        ):
            yield metric, [Sample((str(generation),), stats[name]) for generation, stats in generations]
        yield process.GC_TIME.single(self._collected_s)
        yield process.CPU_SECONDS.single(time.process_time())
        yield from _memory()
        descriptors_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        for directory in _DESCRIPTOR_DIRECTORIES:
            with suppress(OSError):
                yield process.OPEN_DESCRIPTORS.single(len(os.listdir(directory)))
                break
        yield process.MAX_DESCRIPTORS.single(inf if descriptors_max == resource.RLIM_INFINITY else descriptors_max)
        yield process.START_TIME.single(_start_time_s(self._began_s))
        yield process.WALL_CLOCK.single(time.time())


def _memory() -> Iterable[Family]:
    """Resident and virtual memory; see proc(5), statm. Systems without it have no metrics of memory."""
    try:
        with open("/proc/self/statm") as file:
            pages = list(map(int, file.read().split()))
    except FileNotFoundError:
        return
    size = resource.getpagesize()
    yield process.RESIDENT_MEMORY.single(pages[1] * size)
    yield process.VIRTUAL_MEMORY.single(pages[0] * size)


def _start_time_s(began_s: float) -> float:
    """When the process started, since 1970; see proc(5), stat. The name in the second field may have spaces.

    Other systems do not tell. There it is `began_s`, when the node began to count.
    """
    try:
        with open("/proc/self/stat") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
    except FileNotFoundError:
        return round(began_s, 2)
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return round(time.time() - age_s, 2)
