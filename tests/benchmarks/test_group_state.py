"""The measured cost of a group coordinator's state: the loaded state is that of the logs."""

import time
from pathlib import Path

import pytest

from benchmarks import group_state
from broker.coordinator.group.offsets.requests import NO_LEADER_EPOCH
from broker.coordinator.group.record_formats import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from broker.storage.log_config import LogConfig
from broker.storage.log_loader import load_log
from broker.wire.records import Record, encode_batch
from kraft.env import real_env
from metadata.configuration.vocabulary import DAY_MS


def write_commits(directory: Path, groups: int, commits: int) -> None:
    """Write a log in which each group has committed repeatedly."""
    directory.mkdir()
    now_ms = time.time_ns() // 1_000_000
    log = load_log(
        real_env(lambda kind, /, **fields: None).disk,
        str(directory),
        LogConfig(),
        recovery_point=0,
        log_start_offset=0,
        clean=True,
        now_ms=now_ms,
        producer_expiration_ms=DAY_MS,
        trace=lambda kind, /, **fields: None,
    )
    for at in range(groups * commits):
        key = encode_key(OffsetCommitKey(group=f"group-{at % groups}", topic="topic", partition=0))
        value = encode_value(OffsetCommitValue(offset=at, leader_epoch=NO_LEADER_EPOCH, commit_timestamp=now_ms))
        log.append(memoryview(bytearray(encode_batch([Record(0, now_ms, key, value)]))), 0, now_ms)
    log.commit()
    log.close()


def test_groups_in_the_logs_are_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_commits(tmp_path / "__consumer_offsets-0", groups=5, commits=3)
    write_commits(tmp_path / "__consumer_offsets-7", groups=2, commits=1)
    write_commits(tmp_path / "another-0", groups=1, commits=1)
    loading = group_state.load(tmp_path)
    assert (loading.partitions, loading.records) == (2, 17)
    assert loading.us_per_record > 0
    assert group_state.main([str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "17 records in 2 partitions" in printed
    assert "7 offsets" in printed
