"""Scrubs one segment: its batches, its leader epochs, and its three indexes."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Final

import attrs

from broker.storage.damage import Damage
from broker.storage.leader_epochs import UNDEFINED_EPOCH
from broker.storage.log_dir import PartitionKey
from broker.storage.log_manager import LogManager
from broker.storage.offset_index import OffsetIndex
from broker.storage.scrub.index_checks import OffsetIndexCheck, TimeIndexCheck
from broker.storage.scrub.pacing import ScrubPacer
from broker.storage.scrub.segment_check import EpochRun, EpochStart, SegmentCheck, Suspect, batch_size
from broker.storage.scrub.segment_view import SegmentView
from broker.storage.scrub.statistics import ScrubStatistics
from broker.storage.scrub.transactions_check import TransactionsCheck
from broker.storage.time_index import TimeIndex
from broker.storage.transaction_index import (
    AbortedTransaction,
    damage_of_entries,
    decode_aborted_transactions,
)
from broker.storage.whole_file import FoundContent, read_whole, read_whole_from_device, try_to_read
from broker.wire.records import HEADER_SIZE, CorruptBatch, read_header
from kraft import lazy_attrs
from kraft.env import Disk, Env, File

# A check begins again if the files have changed under it.
ATTEMPTS_MAX: Final = 3

ReportDamage = Callable[[PartitionKey, Damage], None]


@lazy_attrs.frozen
class IndexFiles:
    """A segment's offset index, time index and transaction index."""

    offset: FoundContent
    time: FoundContent
    transactions: FoundContent


@lazy_attrs.define(eq=False)
class SegmentScrub:
    """Scrubs segments of the logs of `log_manager`. Damaged batches are passed to `report`."""

    env: Env
    log_manager: LogManager
    pacer: ScrubPacer
    statistics: ScrubStatistics
    report: ReportDamage

    async def scrub(self, view: SegmentView, opened: Mapping[int, int] | None) -> SegmentCheck | None:
        """Check the segment, and repair its indexes; None if the log has changed meanwhile.

        `opened` are the first offsets of the transactions that were open at its start, None if these are not known.
        Raises OSError, FsyncFailed.
        """
        file = self.env.disk.open(view.segment.path)
        try:
            indexes = await self._read_indexes(view)
            check = self._new_check(view, file, indexes, opened)
            if not await self._check_batches(view, check):
                return None
        finally:
            file.close()
        if check.is_whole and not (
            await self._check_epochs(view, check)
            and await self._check_indexes(view, check, indexes)
            and await self._check_transactions(view, check, indexes)
        ):
            return None
        return check

    def _new_check(
        self, view: SegmentView, file: File, indexes: IndexFiles, opened: Mapping[int, int] | None
    ) -> SegmentCheck:
        segment = view.segment
        offset, time = indexes.offset.content, indexes.time.content
        if view.is_active:  # it may have no files of its indexes yet
            offset, time = offset or b"", time or b""
        return SegmentCheck(
            file,
            segment.base_offset,
            segment.offset_max,
            view.end,
            view.allows_gaps,
            view.log.config.index_interval_bytes,
            OffsetIndexCheck(offset, segment.base_offset),
            TimeIndexCheck(time, segment.base_offset),
            TransactionsCheck(opened),
            iter([EpochStart(*each) for each in view.log.epochs.entries]),
            segment.base_offset,
        )

    # Batches

    async def _check_batches(self, view: SegmentView, check: SegmentCheck) -> bool:
        while check.position < check.end:
            before = check.bytes_read
            await self.env.disk.run_apart(check.step)
            self.statistics.bytes_read += check.bytes_read - before
            await self.pacer.pause(check.bytes_read - before)
            if not view.holds(self.log_manager):
                return False
            if check.suspect is not None and not await self._judge(view, check, check.suspect):
                return False
        if check.is_whole and not view.is_active and not view.allows_gaps and check.next_offset < view.end_offset:
            self._found(view, check.next_offset, view.end_offset, "it ends before the next segment begins")
        return True

    async def _judge(self, view: SegmentView, check: SegmentCheck, suspect: Suspect) -> bool:
        """Report a damaged batch, and go on after it. Returns False if the check has to begin again."""
        if self._read_again(view, check, suspect) is None:
            return await self._rewrite(view, check, suspect)
        intact_from = await self.env.disk.run_apart(check.skip)
        if not view.holds(self.log_manager):
            return False
        again = self._read_again(view, check, suspect)
        if again is None:
            return False
        self._found(view, suspect.next_offset, intact_from if intact_from >= 0 else view.end_offset, again.cause)
        return True

    def _read_again(self, view: SegmentView, check: SegmentCheck, suspect: Suspect) -> Suspect | None:
        """Read the batch of a suspect as readers do, and check it; None if it is intact."""
        try:
            return check.suspect_in(_batch_at(view, suspect), 0, suspect.position, suspect.next_offset)
        except OSError as error:
            return attrs.evolve(suspect, cause=str(error))

    async def _rewrite_epochs(self, view: SegmentView, check: SegmentCheck) -> None:
        """Write the batches again whose leader epochs on the device are not those of the page cache."""
        for each in check.differing:
            cause = f"byte {each.position}: leader epoch {each.epoch} is not that of offset {each.first_offset}"
            suspect = Suspect(each.position, each.first_offset, 0, cause)
            if self._read_again(view, check, suspect) is None and not await self._rewrite(view, check, suspect):
                return

    async def _rewrite(self, view: SegmentView, check: SegmentCheck, suspect: Suspect) -> bool:
        """Write the batch of a suspect again, which the page cache has, unless the device has it, too."""
        check.read_again()
        good = _batch_at(view, suspect)
        try:
            is_damaged = view.segment.file.read_from_device(suspect.position, len(good)) != good
        except OSError:
            is_damaged = True
        if is_damaged:
            view.segment.file.write(suspect.position, [good])
            await view.segment.file.sync()
            self.statistics.add_rebuilt()
            self.env.trace("storage_batch_rewritten", path=view.segment.path, error=suspect.cause)
        return view.holds(self.log_manager)

    def _found(self, view: SegmentView, first_offset: int, end_offset: int, cause: str) -> None:
        """Report damage, and count it unless it was known. Damage to records that were deleted is left out.

        Such records stay in the file while later records of the segment do.
        """
        if end_offset <= view.log.log_start_offset:
            return
        known = view.log.segments.damaged
        if known is None or not known.covers(first_offset, end_offset):
            self.statistics.add_damage()
        self.report(view.key, Damage(view.segment.path, first_offset, end_offset, cause))

    async def _check_epochs(self, view: SegmentView, check: SegmentCheck) -> bool:
        def report(damage: Damage) -> None:
            self._found(view, damage.first_offset, damage.end_offset, damage.cause)

        problem = check_epochs(view, check, report)
        if problem is None:
            await self._rewrite_epochs(view, check)
        if problem:
            await view.log.epochs.flush()
            await self._rebuilt(view, {view.log.epochs.path: problem})
        return problem is not None

    # Indexes

    async def _read_indexes(self, view: SegmentView) -> IndexFiles:
        """Read the index files from the device.

        Appends change those of the active segment, so these are read from the page cache at once, and compared then.
        """
        disk, paths = self.env.disk, _index_paths(view)
        cached = read_indexes(disk, paths, read_whole) if view.is_active else None
        on_device = await disk.run_apart(partial(read_indexes, disk, paths, read_whole_from_device))
        return on_device if cached is None else _as_on_device(cached, on_device)

    async def _check_indexes(self, view: SegmentView, check: SegmentCheck, indexes: IndexFiles) -> bool:
        check.offset_index.finish()
        check.time_index.finish(is_complete=not view.is_active)
        problems = {
            view.segment.offset_index.path: indexes.offset.error or check.offset_index.problem,
            view.segment.time_index.path: indexes.time.error or check.time_index.problem,
        }
        if view.end == 0 or not any(problems.values()):
            return True
        offsets, times = check.offset_index, check.time_index
        encoded = await self.env.disk.run_apart(
            lambda: (
                OffsetIndex.encode(offsets.offsets, offsets.positions),
                TimeIndex.encode(times.timestamps, times.offsets),
            )
        )
        if not self._is_same(view, indexes):
            return False
        segment = view.segment
        segment.offset_index.replace(offsets.offsets, offsets.positions, encoded[0], view.end)
        segment.time_index.replace(times.timestamps, times.offsets, encoded[1], check.next_offset - segment.base_offset)
        await segment.offset_index.sync()
        await segment.time_index.sync()
        await self._rebuilt(view, {path: problem for path, problem in problems.items() if problem})
        return True

    async def _check_transactions(self, view: SegmentView, check: SegmentCheck, indexes: IndexFiles) -> bool:
        problem = transactions_problem(view, check, indexes.transactions)
        if not problem:
            return True
        if not check.transactions.is_complete or not self._is_same(view, indexes):
            return False
        if indexes.transactions.error and view.segment.written > view.end:
            return False  # entries of what was appended meanwhile could not be kept
        index = view.segment.transaction_index
        rebuilt = [each for each in check.transactions.aborted if each.last_offset < check.next_offset]
        index.rebuild(rebuilt + index.intact_since(check.next_offset))
        await index.sync()
        await self._rebuilt(view, {index.path: problem})
        return True

    def _is_same(self, view: SegmentView, indexes: IndexFiles) -> bool:
        """Whether the index files are still those that were checked. Those of the active segment may have grown."""
        if not view.holds(self.log_manager):
            return False
        again = read_indexes(self.env.disk, _index_paths(view), read_whole_from_device)
        if view.is_active:
            again = _as_on_device(read_indexes(self.env.disk, _index_paths(view), read_whole), again)
        pairs = zip(attrs.astuple(again, recurse=False), attrs.astuple(indexes, recurse=False), strict=True)
        return all(now == before or (view.is_active and _has_grown(before, now)) for now, before in pairs)

    async def _rebuilt(self, view: SegmentView, problems: Mapping[str, str]) -> None:
        await self.env.disk.sync_dir(view.log.directory)
        for path, problem in problems.items():
            self.statistics.add_rebuilt()
            self.env.trace("storage_file_rebuilt", path=path, error=problem)


def transactions_problem(view: SegmentView, check: SegmentCheck, found: FoundContent) -> str:
    """The damage to the transaction index, as text; "" if it is right."""
    entries: list[AbortedTransaction] = []
    if found.error:
        return found.error
    if found.content is not None:
        problem = damage_of_entries(found.content, view.segment.base_offset)
        if problem:
            return problem
        entries = decode_aborted_transactions(found.content)
    return check.transactions.problem_of(entries, is_compacted=view.allows_gaps, end_offset=check.next_offset)


def read_indexes(disk: Disk, paths: tuple[str, str, str], read: Callable[[Disk, str], bytes]) -> IndexFiles:
    """Read the index files at `paths` with `read`. Raises OSError."""
    return IndexFiles(*[try_to_read(disk, path, read) for path in paths])


def _has_grown(before: FoundContent, now: FoundContent) -> bool:
    return before.content is not None and now.content is not None and now.content.startswith(before.content)


def _as_on_device(cached: IndexFiles, on_device: IndexFiles) -> IndexFiles:
    """The device's bytes in place of those that the page cache had; files may have grown since."""
    found = []
    pairs = zip(attrs.astuple(cached, recurse=False), attrs.astuple(on_device, recurse=False), strict=True)
    for before, now in pairs:
        if before.content is None or now.content is None:
            found.append(now if now.error else before)
        else:
            found.append(FoundContent(now.content[: len(before.content)], ""))
    return IndexFiles(*found)


def _index_paths(view: SegmentView) -> tuple[str, str, str]:
    segment = view.segment
    return segment.offset_index.path, segment.time_index.path, segment.transaction_index.path


def _batch_at(view: SegmentView, suspect: Suspect) -> bytes:
    """The bytes of the batch of a suspect, through the page cache. Raises OSError."""
    file = view.segment.file
    size = batch_size(file.read(suspect.position, HEADER_SIZE))
    return file.read(suspect.position, size if suspect.position + size <= view.end and size else HEADER_SIZE)


def check_epochs(view: SegmentView, check: SegmentCheck, report: Callable[[Damage], None]) -> str | None:
    """Compare the epochs of the batches that were checked with those of the log; damaged batches are reported.

    A batch's checksum does not cover its leader epoch. A single batch that differs is damaged. If several do, and their
    epochs do not fall from batch to batch, the log remembers wrong epochs, as after a start with a damaged checkpoint.

    Several batches of one epoch that is later than what follows are intact, too: the metadata has lost that epoch
    (`kraft accept-loss`), and leaders begin again with an earlier one. The log cannot remember both.

    Returns what was wrong with the epochs that the log remembers, which are corrected then, "" if nothing was; None if
    the check has to begin again, because a batch has changed meanwhile. Raises OSError.
    """
    log = view.log
    differing = [each for each in check.differing if not _is_remembered(view, each)]
    if not differing:
        return ""
    if any(_epoch_at(view, each.position) != each.epoch for each in differing):
        return None
    first_offset = differing[0].first_offset
    has_lost_epochs = UNDEFINED_EPOCH < log.epochs.latest_epoch < max(each.epoch for each in check.epochs)
    if has_lost_epochs:
        single = set(check.epochs)  # runs of one batch are equal to it
        differing = [each for each in differing if each in single]
    elif len(differing) > 1 and all(before.epoch <= after.epoch for before, after in pairwise(check.epochs)):
        start = max(view.segment.base_offset, log.log_start_offset)
        true = [(each.epoch, max(each.first_offset, start)) for each in check.epochs if each.last_offset >= start]
        log.epochs.correct(true, start, check.next_offset)
        return f"the batches from offset {first_offset} on have other epochs"
    for each in differing:
        cause = f"byte {each.position}: leader epoch {each.epoch} cannot be that of offset {each.first_offset}"
        report(Damage(view.segment.path, each.first_offset, each.last_offset + 1, cause))
    return ""


def _is_remembered(view: SegmentView, run: EpochRun) -> bool:
    """Whether the log remembers the epoch of a batch, or has deleted the batch meanwhile."""
    is_deleted = run.last_offset < view.log.log_start_offset
    return is_deleted or view.log.epochs.epoch_for_offset(run.last_offset) == run.epoch


def _epoch_at(view: SegmentView, position: int) -> int:
    """The epoch of the batch at `position`, read through the page cache; -1 if it cannot be read."""
    try:
        return read_header(view.segment.file.read(position, HEADER_SIZE)).partition_leader_epoch
    except (CorruptBatch, OSError):
        return -1
