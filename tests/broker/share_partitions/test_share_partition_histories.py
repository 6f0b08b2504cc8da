"""Random histories of a share-partition, and mistakes that they find (KIP-932)."""

import random
from collections.abc import Sequence

import pytest

from broker.share_partitions.acquisition import Acquisition, FetchedBatch
from broker.share_partitions.in_flight import DeadLetters, RecordState, StateWrite
from broker.share_partitions.share_partition import SharePartition
from tests.support.share_partition_model import SETTINGS, WITH_DEAD_LETTERS, History


@pytest.mark.seeds(40)
def test_share_partition_agrees_with_a_list_of_records(seed: int) -> None:
    for number in range(5):
        settings = WITH_DEAD_LETTERS if number % 2 else SETTINGS
        History(random.Random(f"{seed}-{number}"), settings=settings).run(120)


class UnstoredExpiry(SharePartition):
    """Forgets to store the release of records whose locks have expired."""

    def expire_locks(self, now_ms: float) -> StateWrite | None:
        super().expire_locks(now_ms)
        return None


class LostCount(SharePartition):
    """Stores a release without its delivery count, which the next leader then lacks."""

    def release(self, member_id: str) -> StateWrite | None:
        write = super().release(member_id)
        if write is not None:
            write.batches = [batch._replace(delivery_count=0) for batch in write.batches]
        return write


class SkippedRelease(SharePartition):
    """Reads on at the end while released records are available."""

    def next_fetch_offset(self) -> int:
        return self.end_offset


class HastyStart(SharePartition):
    """Moves the start offset past records that are acknowledged, before that is stored."""

    def _advance_start_offset(self) -> None:
        for records in self._records:
            if records.state is RecordState.ACKNOWLEDGED:
                records.unlock()
        super()._advance_start_offset()


class PassedRecord(SharePartition):
    """Moves the start offset past a record that is acquired."""

    def acquire(self, fetched: list[FetchedBatch], fetch_offset: int, acquisition: Acquisition, now_ms: float) -> None:
        super().acquire(fetched, fetch_offset, acquisition, now_ms)
        if len(self._records) > 5:
            self.start_offset += 1


class ForgottenDeadLetters(SharePartition):
    """Copies no dead letters that an earlier leader had yet to copy."""

    def unfinished_dead_letters(self) -> Sequence[DeadLetters]:
        return ()


class HastyDeadLetters(SharePartition):
    """Copies records to the dead-letter topic though their member has them back, because the write has failed."""

    def complete(self, write: StateWrite, *, is_stored: bool) -> Sequence[DeadLetters]:
        super().complete(write, is_stored=is_stored)
        return write.dead_letters


@pytest.mark.parametrize(
    "mistake",
    [
        UnstoredExpiry,
        LostCount,
        SkippedRelease,
        HastyStart,
        PassedRecord,
        ForgottenDeadLetters,
        HastyDeadLetters,
    ],
)
def test_histories_find_planted_mistakes(mistake: type[SharePartition]) -> None:
    with pytest.raises(AssertionError):
        _run_histories(mistake)


def _run_histories(partition_class: type[SharePartition]) -> None:
    for number in range(200):
        History(random.Random(f"planted-{number}"), partition_class, WITH_DEAD_LETTERS).run(120)
