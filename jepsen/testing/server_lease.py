"""The test server of this process: started by the first cluster, and shared with other processes of a session."""

import atexit
import fcntl
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

from jepsen.testing.control_client import ControlClient, Lease

_ADDRESS: Final = "kraft-test-server.address"
_LOCK: Final = "kraft-test-server.lock"
_LOOK_S: Final = 0.005
_ENDED: Final = "the test server has ended before it served; its standard error says why"
# For a server whose last lease has ended to end itself.
_END_S: Final = 60.0

# Finds the package where this process has found it. It comes last, so that no package there hides the standard library.
# The zygote collects no garbage, see `Zygote`.
_PROGRAM: Final = """
import gc, sys
gc.disable()
sys.path.append(sys.argv[1])
from jepsen.testing.server_options import ServerOptions
from jepsen.testing.server import run_server
raise SystemExit(run_server(ServerOptions(keep_in=sys.argv[2] if sys.argv[2:] else None)))
"""


class ServerLease:
    """A lease of a running server, whose requests go to `client`. The server ends with its last lease."""

    def __init__(self, client: ControlClient, lease: Lease) -> None:
        self.client = client
        self.lease = lease

    @classmethod
    def start(cls, keep_in: str | None = None) -> "ServerLease":
        """A new server, which keeps the data of clusters in `keep_in` if that is given. Raises OSError."""
        server = _spawn(keep_in, subprocess.PIPE)
        assert server.stdout is not None, "it was started with a pipe"
        with server.stdout:
            line = server.stdout.readline()
        if not line:
            raise OSError(_ENDED)
        client = ControlClient(json.loads(line)["control"])
        return cls(client, client.take_lease())

    @classmethod
    def shared(cls, directory: Path, keep_in: str | None = None) -> "ServerLease":
        """A lease of the server of all processes that have the same `directory`; see `begin_shared`. Raises OSError."""
        deadline = time.monotonic() + _END_S
        while True:
            begin_shared(directory, keep_in)
            client = ControlClient(json.loads(_first_line(directory))["control"])
            try:
                return cls(client, client.take_lease())
            except OSError:
                # The last lease has ended, and the server is about to. Another one starts when it has.
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_S)

    def release(self) -> None:
        """End this process's clusters, and the server if no other process uses it."""
        self.lease.release()


def begin_shared(directory: Path, keep_in: str | None = None) -> None:
    """Start the server of all processes that have the same `directory`, unless it runs. Does not wait until it serves.

    The server prints its address into a file, which it keeps locked as long as it runs. Another file is locked while a
    process looks.
    """
    with _locked(directory):
        if not _runs(directory):
            with (directory / _ADDRESS).open("wb") as output:
                fcntl.flock(output, fcntl.LOCK_EX)
                _spawn(keep_in, output)


def _first_line(directory: Path) -> str:
    """The line that the server has printed, or prints soon. Raises OSError if it has ended before."""
    while not (line := (directory / _ADDRESS).read_text()).endswith("\n"):
        with _locked(directory):
            if not _runs(directory):
                raise OSError(_ENDED)
        time.sleep(_LOOK_S)
    return line


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    with (directory / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _runs(directory: Path) -> bool:
    """True if a server runs, which keeps its file locked."""
    try:
        with (directory / _ADDRESS).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@cache
def own_server() -> ServerLease:
    """The server of this process alone, which ends with it."""
    server = ServerLease.start()
    atexit.register(server.release)
    return server


def _spawn(keep_in: str | None, output: BinaryIO | int) -> "subprocess.Popen[bytes]":
    """Start a server, which prints its line to `output`. It ends with its leases, and is not waited for."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, str(Path(__file__).parents[2]), *([] if keep_in is None else [keep_in])],
        stdin=subprocess.DEVNULL,
        stdout=output,
        start_new_session=True,  # Ctrl-C is for the tests
    )
    process.returncode = 0  # Popen would warn at the end of this process that its child runs
    return process
