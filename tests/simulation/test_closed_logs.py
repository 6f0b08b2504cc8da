"""After a clean shutdown followed by a power cut, all logs are complete, and none is recovered."""

from collections.abc import Sequence
from functools import partial
from random import Random

import pytest
import trio

from broker.storage.log_config import LogConfig
from broker.storage.log_manager import LogManager, LogManagerConfig
from jepsen.simulation import Host, Simulation
from jepsen.simulation.disk.files import SimulatedDisk
from kraft.env import Env
from tests.support.logs import NOW_MS, batch

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)
LOGS = 70


async def open_logs(env: Env) -> LogManager:
    log_manager = await LogManager.open(env, LogManagerConfig(directories=("/data",), node_id=1), cluster_id="cluster")
    await log_manager.load(lambda topic: CONFIG)
    return log_manager


async def close_and_open_again(host: Host, rng: Random) -> tuple[dict[int, int], LogManager]:
    """The end of each log when it was closed, and the logs after a power cut."""
    log_manager = await open_logs(host.env(host.incarnation))
    logs = [log_manager.create("t", bytes(16), index, CONFIG) for index in range(LOGS)]
    for log in logs:
        for _ in range(rng.randrange(12)):
            producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": log.log_end_offset}
            log.append(batch(b"value", timestamp=NOW_MS, **producer), rng.choice((3, 4)), NOW_MS)
        if rng.random() < 0.5:
            log.commit()
        if rng.random() < 0.2:
            log.commit()
            await log.flush()
    await host.env(host.incarnation).disk.sync_dir("/data")  # as the periodic tasks do for new partitions
    ends = {index: log.log_end_offset for index, log in enumerate(logs)}
    await log_manager.close_cleanly()
    host.power_cut()
    return ends, await open_logs(host.env(host.incarnation))


def look(seed: int) -> tuple[bool | None, dict[int, int], dict[int, int], list[int]]:
    """Whether the shutdown counts as clean, the logs' ends before and after, and the logs that lost their producer
    state.
    """
    found = []

    async def main(host: Host, rng: Random) -> None:
        ends, log_manager = await close_and_open_again(host, rng)
        logs = {index: log for (_, index), log in log_manager.logs.items()}
        forgetful = [index for index, log in logs.items() if log.log_end_offset and log.producers.get(7) is None]
        left = {index: log.log_end_offset for index, log in logs.items()}
        found.append((log_manager.directories["/data"].was_clean, ends, left, forgetful))

    simulation = Simulation(str(seed))
    host = simulation.add_host("one")
    simulation.run(partial(main, host, Random(seed)))
    return found[0]


@pytest.mark.seeds(10)
def test_cleanly_closed_log_survives_a_power_cut(seed: int) -> None:
    was_clean, ends, left, forgetful = look(seed)
    assert was_clean
    assert left == ends
    assert forgetful == []


def test_without_the_syncs_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pretend(disk: SimulatedDisk, files: Sequence[str], directories: Sequence[str]) -> None:
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(SimulatedDisk, "sync_all", pretend)
    _, ends, left, _ = look(0)
    assert left != ends
