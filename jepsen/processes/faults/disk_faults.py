"""A disk that is full, as far as one process can tell."""

import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from jepsen.processes.faults.fault_context import FaultContext
from jepsen.processes.faults.process_faults import start_together
from jepsen.processes.nodes import NodeProcess

# The bytes that a log may still grow by; the write that fails is torn.
_ROOM: Final = 3_000
_LOOK_SECONDS: Final = 0.05


class DiskFull:
    """Limits the size of all files to the present size of one of the node's logs, and a little more.

    A full file system would need root, and would affect other nodes too. The kernel's limit on the size of a process's
    files has the same effects on a log: writes come back short, and then fail, with EFBIG instead of ENOSPC. Smaller
    files still grow, as with a quota.
    """

    async def inject(self, context: FaultContext, seconds: float) -> None:
        healthy = context.healthy()
        victim = context.rng.choice(healthy) if healthy else None
        lengths = _log_lengths(victim) if victim else []
        if victim is None or not lengths:
            return
        limit = context.rng.choice(lengths) + context.rng.randint(0, _ROOM)
        detail = f"no file grows beyond {limit} bytes"
        with context.claimed([victim]), context.recorded("disk-full", [victim.name], detail):
            victim.may_end = True
            _limit(victim, limit)
            until = context.now() + seconds
            while victim.is_running and context.now() < until:
                await trio.sleep(_LOOK_SECONDS)
            if victim.is_running:
                _limit(victim, resource.RLIM_INFINITY)
            else:
                victim.note_end("its disk was full")
                await trio.sleep(max(0.0, until - context.now()))
                await start_together([victim])
            victim.may_end = False


def _limit(node: NodeProcess, size: int) -> None:
    with suppress(ProcessLookupError):
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _log_lengths(node: NodeProcess) -> list[int]:
    """A segment that is being written, including the metadata log's."""
    logs = [sorted(directory.glob("*.log"))[-1:] for directory in Path(node.data).iterdir() if directory.is_dir()]
    return sorted(path.stat().st_size for paths in logs for path in paths)
