"""The durable-end file: the end of the log up to which this replica has known its entries to be durable.

A replica acknowledges entries once they are durable. If its log is found to end before, that is no torn write: entries
that it may have acknowledged are gone. (Alagappan et al., "Protocol-Aware Recovery for Consensus-Based Storage", FAST
2018, keep such identifiers of entries apart from the entries.)

The end is written after each sync of the log, and before anything is acknowledged. It is not synced then: it survives a
crash of the process, and after a power cut it may be one that was true before. It never says too much.
"""

from typing import Any, Final

from kraft.core import OffsetAndEpoch
from kraft.env import Disk
from kraft.log.slots import SlotFile

FILE_NAME: Final = "durable-end"
_BEGINNING: Final = OffsetAndEpoch(0, 0)


class DurableEndFile:
    """The open file. `end` is the end that it holds, and the beginning of the log if it holds none."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.slots = SlotFile(disk.open(f"{directory}/{FILE_NAME}", create=True), copies=1)
        self.end = _decode(self.slots.fields) or _BEGINNING

    def note(self, end: OffsetAndEpoch) -> None:
        """Write `end`, without a sync. Raises OSError."""
        self.slots.replace([end.offset, end.epoch])
        self.end = end

    async def save(self, end: OffsetAndEpoch) -> None:
        """Make `end` durable. Raises FsyncFailed, OSError."""
        self.note(end)
        await self.slots.sync()

    def close(self) -> None:
        self.slots.close()


def _decode(fields: Any) -> OffsetAndEpoch | None:
    match fields:
        case (int(offset), int(epoch)):
            return OffsetAndEpoch(offset, epoch)
    return None
