"""Starts Python programs as forks of one process that has imported what they need.

The imports of a node or a client take more processor time than everything else that it does until it is ready, and
tests start hundreds of both. A program from here differs from `python -m <module>` in nothing else: it is a process of
its own, with its own environment, working directory, standard streams and exit code.

`python -m jepsen.processes.launcher FD` serves the requests of `Launcher` on a socket.
"""

import atexit
import contextlib
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import attrs

# The length of a request, which has the arguments and the environment.
_LENGTH: Final = struct.Struct("i")
_STATUS: Final = struct.Struct("i")


@attrs.frozen
class Program:
    """A module that `python -m` runs. `imports` are the modules that it imports, and that a fork of it has already.

    The module itself is none of them, because it is run as `__main__`. `preparation` is the module of a function
    `prepare`, which makes in steps what else a fork has already.
    """

    module: str
    imports: tuple[str, ...]
    preparation: str = ""


# The commands that start a node. A node imports most handlers, and makes its attrs classes, at their first use.
NODE: Final = Program("broker.cli", ("broker.cli.start", "broker.node"), "jepsen.testing.preparation")


class LaunchedProcess:
    """A started program, with the methods of `subprocess.Popen` that its users need."""

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
                assert report, "the launcher has ended"
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
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
                selector.select(left)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Launcher:
    """The launcher's process, as its client sees it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jepsen.processes.launcher", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                pass_fds=[theirs.fileno()],
            )

    def start(
        self,
        program: Program,
        arguments: Sequence[str],
        output: int,
        *,
        errors: int | None = None,
        stdin: int | None = None,
    ) -> LaunchedProcess:
        """Start a program in this process's environment and directory.

        `output` and `errors` are the descriptors of its standard output and error; without `errors`, both are
        `output`. Without `stdin`, it reads nothing.
        """
        request = json.dumps([attrs.astuple(program), arguments, os.getcwd(), dict(os.environ)]).encode()
        status, theirs = os.pipe()
        os.set_blocking(status, False)
        try:
            with self._lock:
                given = [theirs, output, output if errors is None else errors]
                given = given if stdin is None else [*given, stdin]
                socket.send_fds(self._socket, [_LENGTH.pack(len(request))], given)
                self._socket.sendall(request)
                reply = self._socket.recv(_STATUS.size)
        finally:
            os.close(theirs)
        assert reply, "the launcher has ended"
        (pid,) = _STATUS.unpack(reply)
        return LaunchedProcess(pid, status)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def launcher() -> Launcher:
    """The launcher of this process, which is started by the first program, and ends with this process."""
    started = Launcher()
    atexit.register(started.close)
    return started


class _Requests:
    """The launcher's part: forks, and reports the ends of the children."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._statuses: dict[int, int] = {}
        self._imported: set[str] = set()
        self._woken, self._wakes = socket.socketpair()
        for each in (self._woken, self._wakes):
            each.setblocking(False)

    def serve(self) -> tuple[str, list[str]]:
        """Returns in each child, with its module and arguments. The launcher itself exits without return."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the launcher's client, which ends the programs
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
                request, status, streams = self._receive()
                (module, imports, preparation), arguments, directory, environment = json.loads(request)
                self._prepare(imports, preparation)
                pid = os.fork()
                if pid == 0:
                    with contextlib.suppress(OSError):  # the child has no kqueue of its parent
                        selector.close()
                    self._leave(status, streams)
                    os.environ.clear()
                    os.environ.update(environment)
                    os.chdir(directory)
                    return module, list(arguments)
                for each in streams:
                    os.close(each)
                self._statuses[pid] = status
                self._requests.send(_STATUS.pack(pid))

    def _receive(self) -> tuple[bytes, int, list[int]]:
        """The next request, the pipe for the exit of its process, and the process's streams."""
        length, descriptors, *_ = socket.recv_fds(self._requests, _LENGTH.size, 4)
        if not length:
            sys.exit()
        status, *streams = descriptors
        return self._requests.recv(_LENGTH.unpack(length)[0], socket.MSG_WAITALL), status, streams

    def _prepare(self, modules: Sequence[str], preparation: str) -> None:
        """Import modules that a program needs and prepare it, before its first fork.

        An error of theirs must not end the launcher: it also starts other programs.
        """
        missing = [module for module in (*modules, preparation) if module and module not in self._imported]
        self._imported.update(missing)
        for module in missing:
            with contextlib.suppress(Exception):  # the program will raise it, where it is shown
                imported = import_module(module)
                if module == preparation:
                    deque(imported.prepare(), maxlen=0)
        if missing:
            # Collections in the children examine, and so copy, none of the launcher's objects.
            gc.collect()
            gc.freeze()

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

    def _leave(self, status: int, streams: Sequence[int]) -> None:
        """Leave the launcher: its signals and its files. `streams` are standard output, error and, if given, input."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for own in (self._requests, self._woken, self._wakes):
            own.close()
        for descriptor, stream in zip(streams, (1, 2, 0), strict=False):
            os.dup2(descriptor, stream)
        for each in (status, *streams, *self._statuses.values()):
            os.close(each)


def _main() -> None:
    module, arguments = _Requests(socket.socket(fileno=int(sys.argv[1]))).serve()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
