"""Compares the leader epochs in a segment's batches with those that the log remembers.

A batch's checksum does not cover its leader epoch. A single batch that differs is damaged. If several do, and their
epochs do not fall from batch to batch, the log remembers wrong epochs, as after a start with a damaged checkpoint.

Several batches of one epoch that is later than what follows are intact, too: the metadata has lost that epoch (`kraft
accept-loss`), and leaders begin again with an earlier one. The log cannot remember both.
"""

from collections.abc import Callable
from itertools import pairwise

from broker.storage.damage import Damage
from broker.storage.leader_epochs import UNDEFINED_EPOCH
from broker.storage.scrub.segment_check import EpochRun, SegmentCheck
from broker.storage.scrub.segment_view import SegmentView
from broker.wire.records import HEADER_SIZE, CorruptBatch, read_header


def check_epochs(view: SegmentView, check: SegmentCheck, report: Callable[[Damage], None]) -> str | None:
    """Compare the epochs of the batches that were checked with those of the log; damaged batches are reported.

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
