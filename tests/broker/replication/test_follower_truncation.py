"""Where a follower truncates its log, by what the leader answers about epochs (KIP-101, KIP-595)."""

from pathlib import Path

import pytest

from broker.replication.follower_role import FollowerRole
from broker.wire.records import Record, encode_batch
from tests.support.logs import NOW_MS
from tests.support.partition_harness import A, Harness

EPOCH = 5


@pytest.fixture
def follower(tmp_path: Path) -> FollowerRole:
    """Its log has offsets 0 to 4 of epoch 1, and 5 to 9 of epoch 3."""
    harness = Harness(tmp_path)
    harness.become(leader=A, epoch=EPOCH)
    for offset in range(10):
        harness.follower.append_fetched(
            memoryview(encode_batch([Record(offset, NOW_MS, b"k", b"v")], leader_epoch=1 if offset < 5 else 3)),
            leader_high_watermark=0,
            leader_log_start_offset=0,
            now_ms=NOW_MS,
        )
    return harness.follower


@pytest.mark.parametrize(
    ("diverging_epoch", "end_offset", "keeps"),
    [
        pytest.param(3, 8, 8, id="the leader has fewer records of the last epoch"),
        pytest.param(1, 3, 3, id="the leader has fewer records of an earlier epoch"),
        pytest.param(1, 7, 5, id="the leader has more records of an earlier epoch: the others differ from ours"),
        pytest.param(2, 7, 5, id="an epoch that the follower lacks begins after the records of the epoch before it"),
        pytest.param(0, 2, 0, id="an epoch before all of the follower's: nothing is common"),
    ],
)
def test_follower_keeps_the_records_of_the_diverging_epoch_that_both_logs_have_kip_101(
    follower: FollowerRole, diverging_epoch: int, end_offset: int, keeps: int
) -> None:
    assert follower.truncate(diverging_epoch, end_offset) == keeps
