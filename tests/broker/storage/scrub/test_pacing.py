"""A pass is spread over most of its interval."""

from pathlib import Path

import trio
import trio.testing

from broker.storage.log_config import LogConfig
from broker.storage.scrub import ScrubConfig
from tests.support.logs import NOW_MS, append
from tests.support.scrubbed_logs import CONFIG, TOPIC_ID, ScrubbedLogs, scrubbed_logs

INTERVAL_S = 4.0
PARTITIONS = 60


def add_logs(logs: ScrubbedLogs) -> None:
    for index in range(1, PARTITIONS):
        log = logs.log_manager.create("spread", TOPIC_ID, index, CONFIG)
        for _ in range(30):
            append(log, bytes(100))


async def test_a_pass_takes_four_fifths_of_the_interval(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """Its rate is that of what is left of the logs and of the time, so it neither hurries nor is late."""
    config = ScrubConfig(interval_ms=int(INTERVAL_S * 1000), io_max_bytes_per_second=1 << 40)
    async with scrubbed_logs(
        tmp_path / "data", scrub_config=config, wall=lambda: NOW_MS / 1000 + trio.current_time()
    ) as logs:
        add_logs(logs)
        began = trio.current_time()
        await logs.scrub()
        assert 0.7 * INTERVAL_S < trio.current_time() - began < 0.9 * INTERVAL_S


async def test_a_pass_over_a_large_segment_reads_as_many_bytes_per_second_as_it_may(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    config = ScrubConfig(interval_ms=1, io_max_bytes_per_second=1 << 20)
    async with scrubbed_logs(
        tmp_path / "data", config=LogConfig(), scrub_config=config, wall=lambda: NOW_MS / 1000 + trio.current_time()
    ) as logs:
        while logs.log.segments.active.written < 4 << 20:
            append(logs.log, bytes(8 << 10))
        began = trio.current_time()
        await logs.scrub()
        assert 4 < trio.current_time() - began < 4.5
        assert 4 << 20 < logs.scrubber.statistics.bytes_read < 4.5 * (1 << 20)
