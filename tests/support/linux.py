"""Marks of tests that use Linux themselves, and are skipped on systems without it (docs/portability.md); processes."""

import os
import resource
import socket
import subprocess
from pathlib import Path

import pytest


def _has_processes() -> bool:
    try:
        return bool(Path("/proc/self/stat").read_bytes())
    except OSError:
        return False


HAS_PROC = _has_processes()


def _has_addresses() -> bool:
    with socket.socket() as sock:
        try:
            sock.bind(("127.0.0.2", 0))
        except OSError:
            return False
    return True


reads_proc = pytest.mark.skipif(not HAS_PROC, reason="the test reads /proc")
limits_processes = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the test limits another process")
needs_loopback_addresses = pytest.mark.skipif(not _has_addresses(), reason="the test needs 127.0.0.2")


def process_exists(pid: int) -> bool:
    """True also for a process that has ended and that its parent has not waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def child_processes(pid: int) -> list[int]:
    """The ids of a process's children, also of those that have ended and that it has not waited for."""
    if not HAS_PROC:
        lines = subprocess.run(["ps", "-A", "-o", "ppid=,pid="], capture_output=True, text=True, check=True).stdout
        pairs = [tuple(map(int, line.split())) for line in lines.splitlines()]
        return [child for parent, child in pairs if parent == pid]
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in tasks for child in children.read_text().split()]


def command_of(pid: int) -> str:
    """The command line of a process, with a line end."""
    return subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=True
    ).stdout
