"""Batches of dead letters (KIP-1191), of a source partition without a node."""

import time
from collections.abc import Sequence
from pathlib import Path

from broker.share_partitions.dead_letter_batch import Source, build_batch
from broker.share_partitions.in_flight import DeadLetterCause, DeadLetters
from tests.support.partition_harness import LOCAL, Harness

RECORDS = 50_000
LETTERS = 200
COPIES_BYTES_MAX = 1 << 20


def single_letters(first: int) -> list[DeadLetters]:
    """Letters of every second record from `first` on."""
    offsets = range(first, first + 2 * LETTERS, 2)
    return [DeadLetters(offset, offset, 1, DeadLetterCause.REJECTED) for offset in offsets]


def source(directory: Path) -> Source:
    """A partition with one batch."""
    harness = Harness(directory)
    harness.become(replicas=(LOCAL,), isr=(LOCAL,))
    harness.append(RECORDS)
    return Source("group", harness.partition, 0)


async def cpu_time_s(source: Source, letters: Sequence[DeadLetters]) -> float:
    """The least CPU time of several runs: it includes what other threads of the process use."""
    times = []
    for _ in range(5):
        begin = time.process_time()
        built = await build_batch(source, letters, COPIES_BYTES_MAX, copies=True, wall_ms=1)
        times.append(time.process_time() - begin)
        assert built.count == LETTERS
        assert list(built.letters) == list(letters)
    return min(times)


async def test_cpu_time_for_single_records_of_a_large_batch_is_that_for_a_range(tmp_path: Path) -> None:
    """Each single record took a walk over all records of the batch, while the event loop was held."""
    found = source(tmp_path)
    first = RECORDS - 2 * LETTERS
    range_s = await cpu_time_s(found, [DeadLetters(first, first + LETTERS - 1, 1, DeadLetterCause.REJECTED)])
    assert await cpu_time_s(found, single_letters(first)) < 2 * range_s
