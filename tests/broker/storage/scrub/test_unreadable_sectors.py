"""Parts of files that the disk cannot read are damage of that file, and no failure of the whole directory."""

from pathlib import Path

import pytest
import trio.testing

from tests.support.bad_sectors import BadDisk
from tests.support.scrubbed_logs import ScrubbedLogs, fill, scrubbed_logs


async def check_is_online(logs: ScrubbedLogs) -> None:
    assert logs.traced.of("storage_log_dir_offline") == []
    assert logs.directory.is_online
    assert logs.scrubber.statistics.passes > 0


@pytest.mark.parametrize("pattern", [
    "*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader-epoch-checkpoint", "partition.metadata",
    "../meta.properties", "../recovery-point-offset-checkpoint", "../replication-offset-checkpoint",
])  # fmt: skip
@pytest.mark.parametrize("at", [0, -1])
async def test_unreadable_file_is_made_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, pattern: str, at: int
) -> None:
    disk = BadDisk()
    async with scrubbed_logs(tmp_path / "data", disk=disk) as logs:
        await fill(logs)
        path = sorted(each.resolve() for each in logs.partition.glob(pattern) if each.stat().st_size)[at]
        content = logs.content(path)
        disk.bad[str(path)] = range(1 << 30)
        await logs.scrub()
        await check_is_online(logs)
        assert logs.rebuilt() == [path.name]
        assert logs.content(path) == content
        (event,) = logs.traced.of("storage_file_rebuilt")
        assert "Input/output error" in str(event["error"])


@pytest.mark.parametrize("number", [0, 1, -1])
async def test_unreadable_sectors_of_a_segment_are_reported(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, number: int
) -> None:
    """They cover several batches and entries of the index; the pass goes on with the next segments."""
    disk = BadDisk()
    async with scrubbed_logs(tmp_path / "data", disk=disk) as logs:
        await fill(logs)
        segment = logs.log.segments[number]
        disk.bad[segment.path] = range(segment.written // 4, segment.written * 3 // 4)
        await logs.scrub()
        await check_is_online(logs)
        assert {damage.file for _, damage in logs.reported} == {segment.path}
        assert logs.rebuilt() == []


async def test_pass_without_file_descriptors_leaves_logs_out(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    disk = BadDisk()
    async with scrubbed_logs(tmp_path / "data", disk=disk) as logs:
        await fill(logs)
        disk.no_descriptors = True
        await logs.scrub()
        disk.no_descriptors = False
        assert logs.traced.of("storage_log_dir_offline") == []
        assert (logs.reported, logs.rebuilt()) == ([], [])
        await logs.scrub()
        await check_is_online(logs)
