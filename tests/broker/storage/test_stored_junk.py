"""Stored batches with a correct checksum and malformed records, written by an older version or another broker.

A leader refuses such a batch today. A batch that is in a log already is still replicated, read, searched and dumped,
and must only cause an error for the batch itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.storage.cleaner.segment_reader import records_in_portions
from broker.storage.log import Log
from broker.storage.timestamp_search import find_max_timestamp
from broker.wire.errors import KafkaError, WireError
from broker.wire.records import iter_records, read_header
from broker.wire.records.batch import CONTROL_FLAG, HEADER, TRANSACTIONAL_FLAG, seal
from tests.support.logs import NOW_MS, batch, find_timestamp, open_log, slice_bytes

LONG_MAX = 2**63 - 1


def junk_batch(data: bytes, *, attributes: int = 0, count: int = 1, max_timestamp: int = NOW_MS) -> bytes:
    """A batch with these bytes as records, at offset 0, which a follower accepts from its leader."""
    header = (0, 49 + len(data), 0, 2, 0, attributes, max(count, 1) - 1, NOW_MS, max_timestamp, 7, 0, 0, count)
    stored = bytearray(HEADER.pack(*header) + data)
    seal(stored, 0, len(stored))
    return bytes(stored)


@contextmanager
def log_with(stored: bytes) -> Iterator[Log]:
    with TemporaryDirectory() as directory:
        log = open_log(Path(directory) / "topic-0")
        log.append_as_follower(memoryview(stored), 0, NOW_MS)
        yield log
        log.close()


@given(
    data=st.binary(max_size=80),
    attributes=st.integers(0, 7) | st.just(CONTROL_FLAG | TRANSACTIONAL_FLAG),
    count=st.integers(0, 3) | st.just(2**31 - 1),
    max_timestamp=st.sampled_from([-1, 0, NOW_MS, LONG_MAX, -LONG_MAX]),
)
@example(b"", 0, 2**31 - 1, LONG_MAX)
@example(b"\x0e\0\0\0\x04\0\0\0", CONTROL_FLAG, 1, NOW_MS)
def test_junk_in_a_log_is_replicated_searched_and_reopened_without_failure(
    data: bytes, attributes: int, count: int, max_timestamp: int
) -> None:
    stored = junk_batch(data, attributes=attributes, count=count, max_timestamp=max_timestamp)
    with log_with(stored) as log:
        end = log.log_end_offset
        for timestamp in (0, NOW_MS, LONG_MAX):
            find_timestamp(log, timestamp)
        find_max_timestamp(log)
        assert slice_bytes(log.read(0, 1 << 20, upper_bound=end, min_one_batch=True)) == stored
        again = open_log(Path(log.directory))
        assert again.log_end_offset in (0, end)
        again.close()


@given(data=st.binary(max_size=80), attributes=st.integers(0, 7), count=st.integers(0, 3) | st.just(2**31 - 1))
def test_cleaner_and_record_readers_raise_the_same_error_for_junk(data: bytes, attributes: int, count: int) -> None:
    """All callers catch this error; there is no IndexError, and no memory is allocated for 2^31 records."""
    stored = junk_batch(data, attributes=attributes, count=count)
    header = read_header(stored)
    try:
        for _ in iter_records(stored, 0, header):
            pass
    except WireError:
        pass
    try:
        _, portions = records_in_portions(header, stored, 0)
        for _ in portions:
            pass
    except WireError:
        pass


def test_leader_refuses_batches_that_a_follower_must_accept(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    with pytest.raises(KafkaError):
        log.append(memoryview(bytearray(junk_batch(b"junk"))), 0, NOW_MS)
    log.append_as_follower(memoryview(junk_batch(b"junk")), 0, NOW_MS)
    assert log.append(batch(b"value"), 0, NOW_MS).first_offset == 1
