"""The cost of closing many logs: little time on the event loop, and syncs of many files at a time."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from broker.storage.clean_shutdown import close_cleanly
from kraft.env import RealDisk
from tests.support.logs import append, open_log

LOGS = 200
# Closed one after the other, each with eight calls in a thread, a log took 0.9 to 1.8 ms; together 0.06 to 0.1 ms.
CPU_MS_PER_LOG_MAX = 0.5


class CountingDisk(RealDisk):
    """Counts the calls in threads for syncs of files and directories."""

    def __init__(self) -> None:
        self.ways = 0
        self.synced: list[str] = []

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        self.ways += 1
        self.synced += [*files, *directories]
        await super().sync_all(files, directories)


async def test_closing_many_logs_takes_little_time_on_the_event_loop(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    disk = CountingDisk()
    logs = [open_log(tmp_path / f"t-{index}", disk=disk) for index in range(LOGS)]
    for log in logs:
        append(log, b"value")
    began_s, began_cpu_s = time.monotonic(), time.thread_time()
    await close_cleanly(disk, logs)
    cpu_ms = (time.thread_time() - began_cpu_s) * 1000
    figure(f"{LOGS} logs in {time.monotonic() - began_s:.2f} s, {cpu_ms / LOGS:.2f} ms of the loop per log")
    assert cpu_ms / LOGS < CPU_MS_PER_LOG_MAX
    assert disk.ways < LOGS / 4
    for index in range(LOGS):
        directory = tmp_path / f"t-{index}"
        written = {str(path) for path in directory.iterdir() if path.name != "leader-epoch-checkpoint"}
        assert {*written, f"{directory}/leader-epoch-checkpoint.tmp", str(directory)} <= set(disk.synced)
        assert open_log(directory, clean=True).log_end_offset == 1


async def test_empty_log_is_closed_without_a_sync(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path / "t-0", disk=disk)
    await close_cleanly(disk, [log])
    assert disk.synced == []
