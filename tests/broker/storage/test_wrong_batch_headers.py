"""Property: a log that took batches with wrong header fields is used consistently, whatever the fields are."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import trio
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import Compression
from tests.support.logs import NOW_MS, open_log
from tests.support.wrong_headers import REFUSALS, check_compaction, check_use, records_at, wrong_batch, wrong_values

Sent: TypeAlias = tuple[list[int], Compression, Mapping[str, int]]

times = st.integers(NOW_MS - 1000, NOW_MS + 1000) | st.sampled_from((-1, 0, NOW_MS + 2**42))
fields = st.lists(
    st.sampled_from([(name, value) for name, values in wrong_values(NOW_MS).items() for value in values]), max_size=3
).map(dict)
sent = st.tuples(st.lists(times, min_size=1, max_size=6), st.sampled_from(Compression), fields)


def append(log: Log, batch: bytes) -> ErrorCode | None:
    """Append a producer's batch; returns the error's code if it is refused."""
    try:
        log.append(memoryview(bytearray(batch)), leader_epoch=0, now_ms=NOW_MS)
    except KafkaError as error:
        return error.code
    return None


@given(st.lists(sent, min_size=1, max_size=6))
def test_log_with_wrong_headers_is_used_consistently(batches: list[Sent]) -> None:
    with TemporaryDirectory() as directory:
        log = open_log(Path(directory) / "topic-0", LogConfig(segment_ms=2**62))
        for timestamps, compression, wrong in batches:
            assert append(log, wrong_batch(records_at(*timestamps), compression, wrong)) in {None, *REFUSALS}
        log.commit()
        check_use(log, Path(directory), NOW_MS)
        trio.run(check_compaction, log, Path(directory), NOW_MS)
