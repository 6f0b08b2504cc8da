"""A flush is cancelled, or another one overlaps it. After a power cut, nothing that counts as durable is missing."""

from functools import partial
from random import Random

import pytest
import trio

from broker.storage.aborted_transactions import collect_aborted
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.log_manager import LogManager
from broker.storage.log_manager_config import LogManagerConfig
from jepsen.simulation import Host, Simulation
from kraft.env import Env
from tests.support.transactional_logs import append_marker, append_transactional

CONFIG = LogConfig(segment_bytes=1_000, index_interval_bytes=100)
SEEDS = 200
# The simulated disk takes about as long to sync a file. A flush syncs several.
MEAN_PAUSE_S = 0.001
# Producers that aborted a transaction, and the first offset of each such transaction.
Aborted = list[tuple[int, int]]


async def load_logs(env: Env) -> LogManager:
    config = LogManagerConfig(directories=("/data",), node_id=1)
    log_manager = await LogManager.open(env, config, cluster_id="MkU3OEVBNTcwNTJENDM2Qg")
    await log_manager.load(lambda topic: CONFIG)
    return log_manager


async def transact_some(log: Log, rng: Random) -> Aborted:
    aborted = []
    for producer_id in rng.sample(range(100), rng.randint(1, 4)):
        first_offset = append_transactional(log, producer_id, (None, b"value"))
        is_commit = rng.random() < 0.5
        append_marker(log, producer_id, is_commit=is_commit)
        if not is_commit:
            aborted.append((producer_id, first_offset))
        await trio.sleep(rng.expovariate(1 / MEAN_PAUSE_S))
    return aborted


async def run_once(host: Host, rng: Random, *, ends_cleanly: bool) -> tuple[Log, int, Aborted]:
    """The log after the power cut; its end and its aborted transactions before, all of which counted as durable."""
    log_manager = await load_logs(host.env(host.incarnation))
    log = log_manager.create("t", bytes([1] * 16), 0, CONFIG)
    aborted: Aborted = []
    for _ in range(rng.randint(1, 3)):
        aborted += await transact_some(log, rng)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.flush)
            await trio.sleep(rng.expovariate(1 / MEAN_PAUSE_S))
            if rng.random() < 0.5:
                aborted += await transact_some(log, rng)
            if rng.random() < 0.5:
                await log.flush()
            nursery.cancel_scope.cancel()
    directory = log_manager.directories["/data"]
    if ends_cleanly:
        await directory.close_cleanly(1)
    else:
        await log.flush()
        await directory.write_recovery_points()
    end_offset = log.log_end_offset
    host.power_cut("none")
    log_manager = await load_logs(host.env(host.incarnation))
    return log_manager.logs["t", 0], end_offset, aborted


@pytest.mark.parametrize("ends_cleanly", [False, True])
def test_aborted_transactions_that_count_as_durable_survive_a_power_cut(ends_cleanly: bool) -> None:
    wrong = []

    async def main(host: Host, seed: int) -> None:
        log, end_offset, aborted = await run_once(host, Random(seed), ends_cleanly=ends_cleanly)
        listed = [(each.producer_id, each.first_offset) for each in collect_aborted(log.segments, 0, end_offset)]
        if (log.log_end_offset, listed) != (end_offset, aborted):
            wrong.append(seed)

    for seed in range(SEEDS):
        simulation = Simulation(str(seed))
        simulation.run(partial(main, simulation.add_host("one"), seed))
    assert wrong == []
