"""Programs that do not belong into a simulation are ended with a clear error, and so are their processes."""

import contextlib
import os
import queue
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from time import sleep as sleep_by_its_name

import pytest
import trio

from broker.client import SyncProducer
from broker.client.hosted.loop import PROCESS_LOOP
from jepsen.simulation.applications.workers import WorkerEnded
from jepsen.testing import Machine, SimulationFailed, simulate
from tests.support.source_code import ROOT

# Each simulated run ends with a collection of garbage.
pytestmark = pytest.mark.usefixtures("few_objects")


def open_real_socket() -> None:
    with socket.socket() as real:
        real.connect(("127.0.0.1", 9))


def send_datagram() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as real:
        real.sendto(b"datagram", ("127.0.0.1", 9))


def open_blocking_client() -> None:
    SyncProducer("n1:9092").close()


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (lambda: time.sleep(1), "time.sleep blocks the whole simulation; use trio.sleep"),
        (lambda: sleep_by_its_name(1), "time.sleep blocks the whole simulation; use trio.sleep"),
        (lambda: threading.Event().wait(1), "waiting for a thread blocks the whole simulation; use trio.Event"),
        (lambda: queue.Queue[int]().get(timeout=1), "waiting for a thread blocks the whole simulation"),
        (lambda: select.select([], [], [], 1), "real sockets and pipes do not exist"),
        (lambda: selectors.DefaultSelector().select(1), "real sockets and pipes do not exist"),
        (lambda: socket.getaddrinfo("n1", 9092), "real names do not exist in the simulation; use trio.socket"),
        (lambda: socket.gethostbyname("localhost"), "real names do not exist"),
        (lambda: socket.create_connection(("n1", 9092)), "real names do not exist"),
        (open_real_socket, "a real socket does not exist"),
        (send_datagram, "a real socket does not exist"),
        (open_blocking_client, "threads have no order"),
        (lambda: threading.Thread(target=print).start(), "threads have no order"),
        (lambda: subprocess.run(["true"], check=True), "real processes are not simulated"),
    ],
)
def test_calls_that_reach_outside_fail_the_run(block: Callable[[], object], message: str) -> None:
    PROCESS_LOOP.get()  # a blocking client starts no thread where the process has one for them already

    async def reach(machine: Machine) -> None:
        await trio.sleep(1)
        try:
            block()
        except RuntimeError:
            await trio.sleep_forever()

    with pytest.raises(SimulationFailed, match=f"(?s){message}.*in reach"):
        simulate(reach, nodes=1, seeds=[1], faults=())


def test_calls_that_do_not_wait_work() -> None:
    async def call(machine: Machine) -> None:
        event = threading.Event()
        assert not event.wait(0)
        event.set()
        assert event.wait()
        assert (await trio.socket.getaddrinfo("127.0.0.1", 9))[0][4] == ("127.0.0.1", 9)
        assert await trio.socket.getaddrinfo("n1", 9)
        machine.observe("done", True)

    simulate(call, nodes=1, seeds=[1], faults=(), eventually=lambda cluster: cluster.observed("done")[0])
    assert (time.sleep, socket.getaddrinfo.__module__) == (sleep_by_its_name, "socket")


def test_files_and_functions_for_threads_work() -> None:
    async def use_files(machine: Machine) -> None:
        await trio.Path(machine.directory / "file").write_text("text")
        assert await trio.to_thread.run_sync((machine.directory / "file").read_text) == "text"
        machine.observe("done", True)

    simulate(use_files, nodes=1, seeds=[1], faults=(), eventually=lambda cluster: cluster.observed("done")[0])


def test_a_task_that_awaits_nothing_is_interrupted() -> None:
    async def spin(machine: Machine) -> None:
        await trio.sleep(1)
        while True:
            machine.rng.random()

    with pytest.raises(SimulationFailed, match=r"(?s)no task could run for 1 s.*in spin"):
        simulate(spin, nodes=1, seeds=[1], faults=(), step_seconds_max=1)


def test_a_task_for_which_time_stands_still_is_told() -> None:
    async def spin(machine: Machine) -> None:
        while True:
            await trio.lowlevel.checkpoint()

    with pytest.raises(SimulationFailed, match="keeps running without virtual time passing"):
        simulate(spin, nodes=1, seeds=[1], faults=())


def test_a_process_that_survives_its_end_is_told() -> None:
    async def stay(machine: Machine) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()

    async def end(machine: Machine) -> None:
        await trio.sleep(0.1)

    with pytest.raises(SimulationFailed, match="shields itself"):
        simulate(stay, nodes=1, seeds=[1], faults=(), seconds=2)
    simulate(end, nodes=1, seeds=[1], faults=())


def test_jobs_share_the_seeds_and_keep_their_order() -> None:
    async def fail_later(machine: Machine) -> None:
        await trio.sleep(1)

    one, two = (simulate(fail_later, nodes=1, seeds=range(5), faults=(), jobs=jobs) for jobs in (1, 2))
    assert [run.digest for run in one.runs] == [run.digest for run in two.runs]


def test_the_first_failed_seed_ends_all_jobs() -> None:
    async def fail_at_times(machine: Machine) -> None:
        await trio.sleep(1)
        assert machine.rng.random() > 0.3

    with pytest.raises(SimulationFailed) as alone:
        simulate(fail_at_times, nodes=1, seeds=range(20), faults=())
    with pytest.raises(SimulationFailed) as shared:
        simulate(fail_at_times, nodes=1, seeds=range(20), faults=(), jobs=3)
    assert alone.value.run.digest == shared.value.run.digest


def test_a_process_of_seeds_that_ends_is_told() -> None:
    async def leave(machine: Machine) -> None:
        os._exit(3)

    with pytest.raises(WorkerEnded, match="process of seed 7 has ended with status 3"):
        simulate(leave, nodes=1, seeds=[7, 8], faults=(), jobs=2)


PROGRAM = r"""
import os
import signal
import sys
import trio
from jepsen.testing import simulate

async def tick(machine):
    if machine.starts == 1:
        os.write(2, b"running\n")  # at once: `print` writes a line's end by itself
    while True:
        await trio.sleep(0.001)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in the background
simulate(tick, nodes=1, seeds=range(100), faults=(), seconds=100_000, jobs=int(sys.argv[1]))
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_ends_all_processes(tmp_path: Path, jobs: int) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), str(jobs)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        try:
            assert [process.stderr.readline() for _ in range(jobs)] == ["running\n"] * jobs
            os.killpg(process.pid, signal.SIGINT)
            assert "KeyboardInterrupt" in process.stderr.read()
            assert process.wait() != 0
            with pytest.raises(ProcessLookupError):
                os.killpg(process.pid, 0)
            assert not list(tmp_path.glob("simulated-*"))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
