"""Limits what the scrubber, and checks of damage, take from the disk and from the process."""

from typing import Final

import trio

# The pause after work, as a multiple of the time that the work took. Python code in a thread keeps the event loop from
# running: with small batches this limits the scrubber, not its bytes per second.
PAUSE_PER_WORK: Final = 9.0
# The size for which a small file counts, so that many of them are not read at once.
FILE_BYTES_MIN: Final = 4096
# A disk that takes longer, as while it is full of other work, does not make the pauses longer.
_WORK_MAX_S: Final = 0.1


class ScrubPacer:
    """Pauses a pass so that it reads at most `bytes_per_second`, and works a tenth of the time at most."""

    def __init__(self, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._began = trio.current_time()

    def begin(self) -> None:
        """Begin work after a time without any."""
        self._began = trio.current_time()

    async def pause(self, size_bytes: int) -> None:
        """Wait after `size_bytes` were read since the last call."""
        worked = min(trio.current_time() - self._began, _WORK_MAX_S)
        read = max(size_bytes, FILE_BYTES_MIN) / self.bytes_per_second
        await trio.sleep(max(read - worked, worked * PAUSE_PER_WORK))
        self.begin()
