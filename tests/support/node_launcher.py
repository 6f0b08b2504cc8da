"""Starts nodes as forks of one process that has imported them.

The imports of a node take more processor time than everything else that it does until it serves, and the tests start
hundreds of nodes. A node from here differs from `kraft start` in nothing else: it is a process of its own, with its own
environment, working directory, output and exit code. Tests of the command itself start it in the usual way.

`python -m tests.support.node_launcher FD` serves the requests of `NodeLauncher` on a socket.
"""

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import BinaryIO, Final, Never

from tests.support.source_code import ROOT

# A request has the arguments and the environment.
_REQUEST_BYTES_MAX: Final = 1 << 18
_STATUS: Final = struct.Struct("i")
_LOOK_S: Final = 0.01


class LaunchedProcess:
    """A started node, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, status: int) -> None:
        """`status` is the end of a pipe from which the launcher's report of the exit is read."""
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def __del__(self) -> None:
        if self.returncode is None:
            os.close(self._status)

    def poll(self) -> int | None:
        """The exit code, or minus the number of the signal that ended the process; None while it runs."""
        if self.returncode is None:
            with contextlib.suppress(BlockingIOError):
                report = os.read(self._status, _STATUS.size)
                assert report, "the launcher of nodes has ended"
                (self.returncode,) = _STATUS.unpack(report)
                os.close(self._status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            if self.returncode is None:
                selector.register(self._status, selectors.EVENT_READ)
            while (code := self.poll()) is None:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise subprocess.TimeoutExpired(f"node {self.pid}", timeout or 0)
                selector.select(left)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class NodeLauncher:
    """The launcher's process, as its client sees it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.node_launcher", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                pass_fds=[theirs.fileno()],
            )

    def start(self, arguments: Sequence[str], output: BinaryIO) -> LaunchedProcess:
        """Start `kraft <arguments>`, which writes to the file `output`."""
        request = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()
        status, theirs = os.pipe()
        os.set_blocking(status, False)
        try:
            with self._lock:
                socket.send_fds(self._socket, [request], [output.fileno(), theirs])
                reply = self._socket.recv(_STATUS.size)
        finally:
            os.close(theirs)
        assert reply, "the launcher of nodes has ended"
        return LaunchedProcess(*_STATUS.unpack(reply), status)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def node_launcher() -> NodeLauncher:
    """The launcher of this process, which is started by the first node, and ends with this process."""
    launcher = NodeLauncher()
    atexit.register(launcher.close)
    return launcher


class _Requests:
    """The launcher's part: forks, and reports the ends of the children."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._statuses: dict[int, int] = {}
        self._woken, self._wakes = socket.socketpair()
        for each in (self._woken, self._wakes):
            each.setblocking(False)

    def serve(self) -> list[str]:
        """Returns in each child, with the arguments of its command. The launcher itself exits without return."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which end the nodes
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno())
        selector = selectors.DefaultSelector()
        selector.register(self._requests, selectors.EVENT_READ)
        selector.register(self._woken, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is self._woken:
                    self._report_ends()
                    continue
                request, fds, *_ = socket.recv_fds(self._requests, _REQUEST_BYTES_MAX, 2)
                if not request:
                    sys.exit()
                arguments, directory, environment = json.loads(request)
                output, status = fds
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    self._become_node(directory, environment, output, status)
                    return list(arguments)
                os.close(output)
                self._statuses[pid] = status
                self._requests.send(_STATUS.pack(pid))

    def _report_ends(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4_096):
                pass
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                pid, status = ended
                with contextlib.suppress(BrokenPipeError):
                    os.write(self._statuses[pid], _STATUS.pack(os.waitstatus_to_exitcode(status)))
                os.close(self._statuses.pop(pid))

    def _become_node(self, directory: str, environment: dict[str, str], output: int, status: int) -> None:
        """Leave the launcher: its signals, its files, its environment and its directory."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (self._requests, self._woken, self._wakes):
            each.close()
        for each in (1, 2):
            os.dup2(output, each)
        for each in (output, status, *self._statuses.values()):
            os.close(each)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(directory)


def _main() -> Never:
    import broker.cli.start
    import broker.node

    arguments = _Requests(socket.socket(fileno=int(sys.argv[1]))).serve()
    # As the script `kraft` does.
    sys.argv = ["kraft", *arguments]
    sys.exit(broker.cli.main())


if __name__ == "__main__":
    _main()
