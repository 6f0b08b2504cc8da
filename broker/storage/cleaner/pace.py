"""The pace of compaction, which shares the event loop with the tasks that serve clients."""

from typing import Final

import trio

# The work done before other tasks run, which takes a millisecond. A record costs about as much as this many bytes.
SLICE_BYTES: Final = 512 * 1024
RECORD_BYTES: Final = 1024

# The cleaner rests as long as it has worked, which leaves that time to other tasks.
REST_PER_WORK: Final = 1.0


class Throttle:
    """Bytes per second that all cleanings together may read and write; see `log.cleaner.io.max.bytes.per.second`."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_at = 0.0

    def spend(self, size_bytes: int) -> float:
        """How long to wait, in seconds, after these bytes."""
        now = trio.current_time()
        self._free_at = max(self._free_at, now) + size_bytes / self._bytes_per_second
        return self._free_at - now


class Pace:
    """One cleaning's."""

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        self._began = trio.current_time()
        self._work = 0
        self._io_bytes = 0

    def is_tired(self, io_bytes: int, records: int) -> bool:
        """Say what was done; whether it is time to rest."""
        self._io_bytes += io_bytes
        self._work += io_bytes + records * RECORD_BYTES
        return self._work >= SLICE_BYTES

    async def rest(self) -> None:
        """Let others run, and return when it is time for more."""
        worked = trio.current_time() - self._began
        delay = max(self._throttle.spend(self._io_bytes), worked * REST_PER_WORK)
        self._work = self._io_bytes = 0
        await trio.sleep(delay)
        self._began = trio.current_time()
