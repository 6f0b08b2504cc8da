"""The time index of a segment: the largest timestamps up to some batches, with their offsets."""

from pathlib import Path

import pytest

from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, append, open_log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log of two segments; the first one has the offsets 0 to 2."""
    log = open_log(tmp_path / "a-0", LogConfig(index_interval_bytes=1, retention_ms=-1))
    for number in range(3):
        append(log, b"value", timestamp=NOW_MS + 10 * number)
    log.roll()
    append(log, b"value", timestamp=NOW_MS + 30)
    return log


def test_last_entry_has_the_largest_timestamp_and_the_offset_of_its_batch(log: Log) -> None:
    index = log.segments[0].time_index
    assert index.last() == (NOW_MS + 20, 2)
    index.release()
    assert index.last() == (NOW_MS + 20, 2)


def test_lookup_leads_to_the_first_batch_with_a_larger_timestamp_or_before(log: Log) -> None:
    """One entry may be wrong, so the search begins at the entry before."""
    index = log.segments[0].time_index
    assert [index.lookup(NOW_MS + at) for at in (-1, 0, 10, 20, 99)] == [0, 0, 0, 1, 1]
