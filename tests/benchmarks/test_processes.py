"""Figures of the operating system about a process."""

import errno
import io
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks import peers, processes

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


def test_memory_is_touched_with_progress(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    peers.touch_memory(8 << 20)
    assert capsys.readouterr().err.startswith("... writing 0.0078125 GiB to ")

    class FullFile(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: FullFile())
    with pytest.raises(SystemExit, match=r"cannot be written to .*: No space left on device"):
        peers.touch_memory(8 << 20)
