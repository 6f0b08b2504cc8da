"""Limits the I/O and the event loop time of compaction, which shares the loop with the tasks that serve clients."""

from math import inf
from typing import Final

import trio

# The work done before other tasks run; it takes about a millisecond. Handling a record costs as much time as reading
# RECORD_BYTES bytes.
SLICE_BYTES: Final = 512 * 1024
RECORD_BYTES: Final = 1024

# The pause after work, as a multiple of the time worked: half of the time is left to other tasks.
PAUSE_PER_WORK: Final = 1.0


class Throttle:
    """Limits the bytes per second of all compactions together, by `log.cleaner.io.max.bytes.per.second`.

    As in Kafka, 0 stops compaction until the config changes, and a value below 0, or NaN, is no limit.
    """

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second if bytes_per_second >= 0 else inf
        self._free_at = 0.0

    def spend(self, size_bytes: int) -> float:
        """Count bytes read and written; returns the seconds to wait before the next ones."""
        now = trio.current_time()
        duration = size_bytes / self._bytes_per_second if self._bytes_per_second else inf
        self._free_at = max(self._free_at, now) + duration
        return self._free_at - now


class CleaningPacer:
    """Counts the work of one compaction, and pauses it after each slice of work."""

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        self._began = trio.current_time()
        self._work = 0
        self._io_bytes = 0

    def add_work(self, io_bytes: int, records: int) -> bool:
        """Count work that was done; returns whether a `pause` is due."""
        self._io_bytes += io_bytes
        self._work += io_bytes + records * RECORD_BYTES
        return self._work >= SLICE_BYTES

    async def pause(self) -> None:
        """Let other tasks run, for as long as the work took or longer if the throttle requires it."""
        worked = trio.current_time() - self._began
        delay = max(self._throttle.spend(self._io_bytes), worked * PAUSE_PER_WORK)
        self._work = self._io_bytes = 0
        await trio.sleep(delay)
        self._began = trio.current_time()
