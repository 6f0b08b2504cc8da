"""The test server of this process: started by the first cluster, and shared with other processes of a session."""

import atexit
import fcntl
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

from jepsen.testing.control_client import ControlClient, Lease

# Finds the package where this process has found it. It comes last, so that no package there hides the standard library.
_PROGRAM: Final = """
import sys
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
        client = ControlClient(_spawn(keep_in)["control"])
        return cls(client, client.take_lease())

    @classmethod
    def shared(cls, directory: Path, keep_in: str | None = None) -> "ServerLease":
        """The server of all processes that have the same `directory`: the first of them starts it.

        A file has the address, and another one is locked while a process starts the server.
        """
        address = directory / "kraft-test-server.address"
        with (directory / "kraft-test-server.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if address.exists():
                client = ControlClient(address.read_text())
                try:
                    return cls(client, client.take_lease())
                except OSError:
                    pass  # the last lease has ended, and the server with it
            server = cls.start(keep_in)
            address.write_text(server.client.address)
        return server

    def release(self) -> None:
        """End this process's clusters, and the server if no other process uses it."""
        self.lease.release()


@cache
def own_server() -> ServerLease:
    """The server of this process alone, which ends with it."""
    server = ServerLease.start()
    atexit.register(server.release)
    return server


def _spawn(keep_in: str | None) -> Any:
    """Start a server, and return the line that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, str(Path(__file__).parents[2]), *([] if keep_in is None else [keep_in])],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the tests
    )
    assert process.stdout is not None, "the process was started with a pipe"
    with process.stdout:
        line = process.stdout.readline()
    if not line:
        raise OSError(f"the test server has ended with exit code {process.wait()}")
    _detach(process)
    return json.loads(line)


def _detach(process: "subprocess.Popen[bytes]") -> None:
    """The server ends with its leases. It is no child to be waited for, whose Popen would warn at the end."""
    process.returncode = 0
