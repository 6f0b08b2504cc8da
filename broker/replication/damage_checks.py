"""Reads parts of logs again where damage is suspected, one at a time and slowly, in a thread.

Damage is suspected where a follower fetches from the same offset again and again, and where a coordinator cannot load.
Records that were written long ago are suspected whenever a consumer reads them: nothing else reads them.

Clients cannot make a broker do much of this work: few checks of a partition wait at a time, and checks are paced.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from broker.replication.partition import Partition
from broker.storage.damage import Damage
from broker.storage.damage_search import log_part, search
from broker.wire.records import CorruptBatch
from kraft.env import Disk, FsyncFailed

# Each check reads 1 MiB, which takes a millisecond of a thread if the file is in the page cache.
CHECK_PAUSE_S: Final = 0.1
# Partitions beyond these, and offsets of a partition, are not checked now. They are checked when they are read again.
_WAITING_MAX: Final = 1000
_OFFSETS_MAX: Final = 4


class DamageChecks:
    """`found` is called with damage. Partitions take turns, one offset at a time."""

    def __init__(self, found: Callable[[Partition, Damage], None]) -> None:
        self._found = found
        self._waiting: dict[Partition, dict[int, None]] = {}
        self._work = trio.Event()

    def add(self, partition: Partition, offset: int) -> None:
        """Check the partition's log from `offset` on, soon. Does nothing if too many checks are waiting."""
        offsets = self._waiting.get(partition)
        if offsets is None:
            if len(self._waiting) < _WAITING_MAX:
                self._waiting[partition] = {offset: None}
                self._work.set()
        elif len(offsets) < _OFFSETS_MAX:
            offsets[offset] = None

    async def run(self, disk: Disk) -> None:
        """Check until cancelled."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._waiting:
                partition = next(iter(self._waiting))
                offsets = self._waiting.pop(partition)
                offset = next(iter(offsets))
                del offsets[offset]
                if offsets:
                    self._waiting[partition] = offsets
                await self._check(disk, partition, offset)
                await trio.sleep(CHECK_PAUSE_S)

    async def _check(self, disk: Disk, partition: Partition, offset: int) -> None:
        log = partition.log
        if log is None or not log.log_start_offset <= offset < log.readable_end_offset:
            return
        try:
            segment, part = log_part(log, offset, partition.leader_epoch)
        except FsyncFailed:
            raise
        except (CorruptBatch, OSError):
            return  # an index cannot be read; reads fail, too
        truncations = log.durability.truncations
        damage = await disk.run_apart(partial(search, disk, part))
        if damage is None or partition.log is not log or log.durability.truncations != truncations:
            return
        if log.segments.index(segment) is not None:
            self._found(partition, damage)
