"""A follower's log is truncated and grows again. After a power cut, no truncated record returns.

The same holds if the process is killed, or its disk fails, before the truncation is durable.
"""

from collections.abc import Collection, Sequence
from functools import partial
from random import Random

import pytest
import trio

import broker.storage.recovery
from broker.storage.durability import Durability
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.log_dir import LogDir
from broker.storage.log_manager import LogManager
from broker.storage.log_manager_config import LogManagerConfig
from broker.wire.records import CorruptBatch, iter_headers, patch
from jepsen.simulation import Host, Simulation
from kraft.env import Env
from tests.support.logs import NOW_MS, batch

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
SEEDS = 60
TOPIC_ID = bytes([1] * 16)
# Batches as (offset, epoch), with one record each, so that offsets count batches.
History = list[tuple[int, int]]


def records(history: Sequence[tuple[int, int]]) -> memoryview:
    whole = bytearray()
    for offset, epoch in history:
        one = batch(b"%d-%d" % (offset, epoch), timestamp=NOW_MS)
        patch(one, 0, offset, epoch)
        whole += one
    return memoryview(bytes(whole))


def history_of(log: Log) -> History:
    content = b"".join(segment.file.read(0, segment.written) for segment in log.segments)
    return [(header.base_offset, header.partition_leader_epoch) for _, header in iter_headers(content)]


async def load_logs(env: Env) -> LogManager:
    config = LogManagerConfig(directories=("/data",), node_id=1)
    log_manager = await LogManager.open(env, config, cluster_id="MkU3OEVBNTcwNTJENDM2Qg")
    await log_manager.load(lambda topic: CONFIG)
    return log_manager


async def open_log(env: Env) -> tuple[LogManager, Log]:
    log_manager = await load_logs(env)
    return log_manager, log_manager.create("t", TOPIC_ID, 0, CONFIG)


async def restart(host: Host, rng: Random) -> tuple[LogManager, Log]:
    """Kill the process, and perhaps the next one before its logs are durable. Written data remains."""
    host.kill()
    host.volume.sync_failures = rng.choice((0.0, 0.5))
    while True:
        try:
            return await open_log(host.env(host.incarnation))
        except* OSError:
            host.kill()
        finally:
            host.volume.sync_failures = 0.0


async def run_once(host: Host, rng: Random) -> tuple[History, History]:
    """The records that are certainly durable at the power cut, and the log whose prefix they must be."""
    log_manager, log = await open_log(host.env(host.incarnation))
    history: History = []
    durable = 0
    for epoch in range(1, rng.randint(2, 4)):
        kept = rng.randint(max(0, len(history) - 12), len(history))
        if kept < len(history):
            log.truncate_to(kept)
            del history[kept:]
            durable = min(durable, kept)
            if rng.random() < 0.5:
                log_manager, log = await restart(host, rng)
            else:
                await log_manager.settle([("t", 0)])
        for _ in range(rng.randint(1, 4)):
            more = [(len(history) + number, epoch) for number in range(rng.randint(1, 6))]
            log.append_as_follower(records(more), epoch, NOW_MS)
            history += more
            if rng.random() < 0.2:
                log_manager, log = await restart(host, rng)
            if rng.random() < 0.3:
                await log.flush()
                durable = len(history)
        if rng.random() < 0.5:
            await log_manager.directories["/data"].write_recovery_points()
    return history[:durable], history


def is_right(log: Log, durable: History, history: History) -> bool:
    try:
        found = history_of(log)
    except CorruptBatch:
        return False
    is_beginning = found == history[: len(found)] and len(found) >= len(durable)
    knows_epochs = all(log.epochs.epoch_for_offset(offset) == epoch for offset, epoch in found)
    return is_beginning and knows_epochs and log.log_end_offset == len(found)


def damaged_logs(seeds: int) -> int:
    """The number of logs that are damaged after a run and a power cut."""
    bad = 0

    async def main(host: Host, rng: Random) -> None:
        nonlocal bad
        durable, history = await run_once(host, rng)
        host.power_cut()
        _, log = await open_log(host.env(host.incarnation))
        bad += not is_right(log, durable, history)

    for seed in range(seeds):
        simulation = Simulation(str(seed))
        host = simulation.add_host("one")
        simulation.run(partial(main, host, Random(seed)))
    return bad


def test_truncated_records_do_not_return() -> None:
    assert damaged_logs(SEEDS) == 0


def test_without_lower_checkpoints_logs_are_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def settle(directory: LogDir, logs: Collection[Log]) -> None:
        for log in logs:
            await log.durability.settle()

    monkeypatch.setattr(LogDir, "settle", settle)
    assert damaged_logs(10 * SEEDS) > 0


def test_without_the_marker_it_does_where_the_process_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker.storage.recovery, "is_marked_unsettled", lambda names: False)
    assert damaged_logs(SEEDS) > 0


def test_without_settling_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pretend(durability: Durability) -> None:
        await trio.lowlevel.checkpoint()
        durability.mark_settled()

    monkeypatch.setattr(Durability, "settle", pretend)
    assert damaged_logs(SEEDS) > 0


def test_a_segment_that_the_process_before_has_made_is_durable_once_it_is_flushed() -> None:
    """Its name in the directory must be durable, too."""
    ends: list[int] = []

    async def main(host: Host) -> None:
        log_manager, log = await open_log(host.env(host.incarnation))
        log.append_as_follower(records([(0, 1)]), 1, NOW_MS)
        await log.flush()
        await log_manager.directories["/data"].write_recovery_points()
        log.roll()
        log.append_as_follower(records([(1, 1)]), 1, NOW_MS)
        host.kill()
        log_manager, log = await open_log(host.env(host.incarnation))
        await log.flush()
        await log_manager.directories["/data"].write_recovery_points()
        host.power_cut("none")
        _, log = await open_log(host.env(host.incarnation))
        ends.append(log.log_end_offset)

    simulation = Simulation("1")
    simulation.run(partial(main, simulation.add_host("one")))
    assert ends == [2]


@pytest.mark.parametrize("is_closed", [False, True])
def test_log_in_a_new_directory_is_durable_once_it_is_flushed_or_closed(is_closed: bool) -> None:
    """Its directory's name must be durable, too, and the topic id: housekeeping may sync them later."""
    found: list[tuple[int, bytes | None]] = []

    async def main(host: Host) -> None:
        log_manager, log = await open_log(host.env(host.incarnation))
        log.append_as_follower(records([(0, 1)]), 1, NOW_MS)
        if is_closed:
            await log_manager.directories["/data"].close_cleanly(1)
        else:
            await log.flush()
        host.power_cut("none")
        log_manager = await load_logs(host.env(host.incarnation))
        found.extend((log.log_end_offset, log_manager.topic_ids[key]) for key, log in log_manager.logs.items())

    simulation = Simulation("1")
    simulation.run(partial(main, simulation.add_host("one")))
    assert found == [(1, TOPIC_ID)]


def test_log_that_ends_below_the_recovery_point_is_flushed_first() -> None:
    """The disk lost synced data, so later writes must not count as durable."""
    durable_ends: list[int] = []

    async def main(host: Host) -> None:
        log_manager, log = await open_log(host.env(host.incarnation))
        log.append_as_follower(records([(0, 1), (1, 1)]), 1, NOW_MS)
        log.durability.recovery_point = 2
        await log_manager.directories["/data"].write_recovery_points()
        host.power_cut("none")
        log_manager, log = await open_log(host.env(host.incarnation))
        assert log.log_end_offset == 0
        directory = log_manager.directories["/data"]
        durable_ends.append(directory.read_checkpoint(directory.recovery_points)["t", 0])

    simulation = Simulation("1")
    simulation.run(partial(main, simulation.add_host("one")))
    assert durable_ends == [0]
