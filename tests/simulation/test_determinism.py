"""A seed determines a run completely, in every process and with every hash seed."""

import gc
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import trio
from trio import _highlevel_socket
from trio._core import _run, _thread_cache

from jepsen.simulation.command import parse_faults
from jepsen.simulation.faults import FAULTS
from jepsen.simulation.scenario import Scenario
from jepsen.simulation.shapes import Shape
from tests.support.source_code import ROOT

QUORUM = Shape(["quorum-3"])


def run_in_a_process(hash_seed: str, seed: int) -> str:
    """The command's output, without the CPU time."""
    command = [sys.executable, "-m", "jepsen", "sim", "--seed", str(seed), "--time", "6", "--nodes", "nodes-3"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return re.sub(r"[\d.]+ CPU seconds", "", done.stdout)


def with_a_busy_loop(function: Callable[[], str]) -> str:
    """Return the value of the function, called while another thread runs a loop of two tasks and starts others."""
    has_ended, is_busy = threading.Event(), threading.Event()

    async def turn() -> None:
        while not has_ended.is_set():
            await trio.lowlevel.checkpoint()

    async def busy() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(turn)
            nursery.start_soon(turn)
            while not has_ended.is_set():
                await trio.to_thread.run_sync(trio.run, trio.sleep, 0.001)
                is_busy.set()

    with ThreadPoolExecutor(1) as threads:
        loop = threads.submit(trio.run, busy)
        try:
            assert is_busy.wait(10)
            return function()
        finally:
            has_ended.set()
            loop.result(10)


def replaced_functions() -> list[object]:
    """The functions and attributes that a simulation replaces, as they are now."""
    private: Any = _run
    logger = logging.getLogger("broker.client")
    return [
        private.unrolled_run,
        private.cancel_shielded_checkpoint,
        trio.lowlevel.cancel_shielded_checkpoint,
        private.CancelScope._might_change_registered_deadline,
        _highlevel_socket._translate_socket_errors_to_stream_errors,
        type(trio.Cancelled).__instancecheck__,
        _thread_cache.ThreadCache.start_thread_soon,
        gc.isenabled(),
        (list(logger.handlers), logger.level, logger.propagate),
    ]


def test_processes_with_different_hash_seeds_run_the_same() -> None:
    first, *others = [run_in_a_process(hash_seed, 3) for hash_seed in ("0", "1", "4242")]
    assert re.search(r"trace hash [0-9a-f]{16}", first)
    assert others == [first, first]


def test_a_second_run_in_one_process_is_the_same_and_another_seed_is_another_run() -> None:
    digests = [Scenario(seed, 5, shape=QUORUM).run().digest for seed in (8, 8, 9)]
    assert digests[0] == digests[1] != digests[2]


def test_loops_of_other_threads_do_not_change_a_run() -> None:
    """Blocking clients have a loop of Trio on a thread of its own, and all loops share Trio's random generator."""
    alone = Scenario(8, 2, shape=QUORUM).run().digest
    assert with_a_busy_loop(lambda: Scenario(8, 2, shape=QUORUM).run().digest) == alone


def test_simulations_of_two_threads_run_one_after_the_other() -> None:
    """They replace functions of Trio and of the client library's logger for the whole process."""
    seeds = (8, 9)
    alone = [Scenario(seed, 5, shape=QUORUM).run().digest for seed in seeds]
    before = replaced_functions()
    both_run = threading.Barrier(2)

    def run(seed: int) -> str:
        both_run.wait(10)
        return Scenario(seed, 5, shape=QUORUM).run().digest

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(run, seeds)) == alone
    assert replaced_functions() == before


def test_the_faults_that_may_occur_are_a_part_of_the_run() -> None:
    assert parse_faults("all") == tuple(FAULTS)
    assert parse_faults("none") == []
    assert parse_faults("kill,power") == ["kill", "power"]
    assert Scenario(8, 5, [], QUORUM).run().digest != Scenario(8, 5, shape=QUORUM).run().digest
