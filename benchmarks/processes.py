"""Figures of the operating system about a server process: cores, CPU time and memory. Linux only."""

import contextlib
import os
import random
import socket
import sys
import time
from pathlib import Path

# The number of the clock that clock_getcpuclockid(3) finds for a process: its id, inverted, above these bits.
_CLOCK_BITS, _CPU_CLOCK_OF_PROCESS = 3, 2


def free_port() -> int:
    """A free TCP port on the loopback interface, below 32768.

    From there on, the kernel assigns ports to clients. A client that connects to such a port before its server listens
    may be assigned the same port and be connected to itself.
    """
    while True:
        port = random.randrange(12000, 32000)
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port


def environment() -> dict[str, str]:
    """The environment of a process that imports compiled modules, as an installed node does, whatever ours says."""
    variables = dict(os.environ)
    if variables.pop("PYTHONDONTWRITEBYTECODE", ""):
        variables.setdefault("PYTHONPYCACHEPREFIX", str(Path(sys.prefix) / "compiled"))
    return variables


def cores() -> tuple[set[int], set[int]]:
    """The cores of the server under test and of its load. On a machine with one core they are the same."""
    available = sorted(os.sched_getaffinity(0))
    return set(available[:1]), set(available[1:] or available)


def pin(pid: int, to: set[int]) -> None:
    """Bind every thread of a process to some cores. Threads that it starts later inherit this."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), to)


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process, to the nanosecond. Raises ProcessLookupError if there is no such process.

    This includes the threads that have ended. A node ends its idle threads, and a JVM those of its compilers: a sum
    over the present threads would become smaller at times.
    """
    try:
        return time.clock_gettime(~pid << _CLOCK_BITS | _CPU_CLOCK_OF_PROCESS)
    except OSError as error:
        raise ProcessLookupError(f"no process {pid}") from error


def family_cpu_seconds(pid: int) -> float:
    """The CPU time of a process and all its descendants, including those that have ended."""
    ticks = 0
    for each in family(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # User and system time of the process, then of its children that have ended.
            ticks += sum(map(int, Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parent = stat.read_text().rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, ())
    return found


def resident_mb(pid: int) -> float:
    """The resident memory of a process in MB (millions of bytes)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(pid)
