"""Reads parts of logs again where damage is suspected, one at a time and slowly, in a thread.

Damage is suspected where a follower or a consumer fetches from the same offset again and again, and where a coordinator
cannot load. Old records are checked when they are read: nothing else reads them but the scrubber, which takes its time.

Clients cannot make a broker do much of this work: few checks of a partition wait at a time, checks take a tenth of the
time at most, and old records are not checked again for some minutes.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import attrs
import trio

from broker.replication.partition import Partition
from broker.storage.damage import Damage
from broker.storage.damage_search import SEARCH_BYTES, log_part, search
from broker.storage.log import Log
from broker.storage.scrub.pacing import ScrubPacer
from broker.wire.records import CorruptBatch
from kraft import lazy_attrs
from kraft.env import Disk, FsyncFailed

_CHECKS_PER_SECOND: Final = 10
# Partitions beyond these, and offsets of a partition, are not checked now. They are checked when they are read again.
_WAITING_MAX: Final = 1000
_OFFSETS_MAX: Final = 4
# How long old records count as checked, and for how many parts of logs that is remembered.
_CHECKED_FOR_S: Final = 600.0
_CHECKED_MAX: Final = 10_000
# A part of a segment: its path, and its number in units of a check.
_Place: TypeAlias = tuple[str, int]


@lazy_attrs.define
class _Waiting:
    """Offsets to be checked. Partitions take turns, one offset at a time."""

    _offsets: dict[Partition, dict[int, None]] = attrs.field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def add(self, partition: Partition, offset: int) -> None:
        offsets = self._offsets.get(partition)
        if offsets is None:
            if len(self._offsets) < _WAITING_MAX:
                self._offsets[partition] = {offset: None}
        elif len(offsets) < _OFFSETS_MAX:
            offsets[offset] = None

    def take(self) -> tuple[Partition, int]:
        partition = next(iter(self._offsets))
        offsets = self._offsets.pop(partition)
        offset = next(iter(offsets))
        del offsets[offset]
        if offsets:
            self._offsets[partition] = offsets
        return partition, offset


class DamageChecks:
    """`found` is called with damage."""

    def __init__(self, found: Callable[[Partition, Damage], None]) -> None:
        self._found = found
        self._suspected, self._old = _Waiting(), _Waiting()
        # When the parts of segments were checked; the oldest first.
        self._checked: dict[_Place, float] = {}
        self._work = trio.Event()

    def add(self, partition: Partition, offset: int) -> None:
        """Check the partition's log from `offset` on, soon. Does nothing if too many checks are waiting."""
        self._suspected.add(partition, offset)
        self._work.set()

    def add_old(self, partition: Partition, offset: int) -> None:
        """Check old records at `offset`, if they were not a short time ago, and after what is suspected."""
        self._old.add(partition, offset)
        self._work.set()

    async def run(self, disk: Disk) -> None:
        """Check until cancelled."""
        pacer = ScrubPacer(_CHECKS_PER_SECOND * SEARCH_BYTES)
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while waiting := self._suspected or self._old:
                partition, offset = waiting.take()
                pacer.begin()
                await pacer.pause(await self._check(disk, partition, offset, is_old=waiting is self._old))

    async def _check(self, disk: Disk, partition: Partition, offset: int, *, is_old: bool) -> int:
        """Returns how many bytes count as read: those of a whole part, or more if its index is damaged; 0 without."""
        log = partition.log
        if log is None or not log.log_start_offset <= offset < log.readable_end_offset:
            return 0
        try:
            if is_old and self._was_checked(_place(*_position(log, offset))):
                return 0
            segment, part = log_part(log, offset, partition.leader_epoch)
        except FsyncFailed:
            raise
        except (CorruptBatch, OSError):
            return 0  # an index cannot be read; reads fail, too
        truncations = log.durability.truncations
        result = await disk.run_apart(partial(search, disk, part))
        is_same_log = partition.log is log and log.durability.truncations == truncations
        if not result.bytes_read:
            return 0  # the file could not be opened
        is_current = is_same_log and log.segments.index(segment) is not None
        if is_current or not result.damage:
            self._note_checked(_place(part.path, part.position))
        if is_current:
            for damage in result.damage:
                self._found(partition, damage)
        return max(result.bytes_read, SEARCH_BYTES)

    def _was_checked(self, place: _Place) -> bool:
        return trio.current_time() - self._checked.get(place, -_CHECKED_FOR_S) < _CHECKED_FOR_S

    def _note_checked(self, place: _Place) -> None:
        self._checked.pop(place, None)
        self._checked[place] = trio.current_time()
        if len(self._checked) > _CHECKED_MAX:
            del self._checked[next(iter(self._checked))]


def _position(log: Log, offset: int) -> tuple[str, int]:
    """The path of the segment with `offset`, and where a check of it begins. Raises OSError."""
    segment = log.segments[log.segments.floor_index(offset)]
    return segment.path, segment.loaded_index().lookup(offset)


def _place(path: str, position: int) -> _Place:
    return path, position // SEARCH_BYTES
