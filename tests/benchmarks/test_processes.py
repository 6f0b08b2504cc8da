"""Figures of the operating system about a process."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import processes

# Prints its CPU time after a thread with most of it has ended.
_BURN = """
import threading, time
def burn():
    while time.thread_time() < 0.05:
        pass
thread = threading.Thread(target=burn)
thread.start()
thread.join()
print(time.process_time(), flush=True)
input()
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="benchmarks run on Linux")
def test_cpu_time_includes_threads_that_have_ended() -> None:
    command = [sys.executable, "-c", _BURN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        used_s = float(process.stdout.readline())
        assert processes.cpu_seconds(process.pid) >= used_s
        process.communicate("\n")
    with pytest.raises(ProcessLookupError):
        processes.cpu_seconds(process.pid)
