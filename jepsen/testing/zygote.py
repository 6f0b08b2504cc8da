"""The process that has imported everything, and forks all others.

It has one thread and no event loop, so that a fork of it is a process like any other. Its objects are excluded from
garbage collection, which keeps their pages shared. While no request waits, it prepares what nodes need
(`jepsen.testing.preparation`). The supervisor is its first child. The nodes are its children too:
the supervisor requests them over a socket, and gets their process ids and exit codes over it, as lines of JSON.

    supervisor -> zygote   {"fork": key} with the node's end of a socket pair; {"signal": 9, "key": key}
    zygote -> supervisor   {"key": key, "pid": 123}, {"key": key, "code": -9},
                           {"key": key, "error": "..."} if the machine has no room for a process

Nothing survives the process that needs it. The zygote ends with its parent (`lifeline`), and ends the supervisor then.
If the supervisor ends first, the zygote kills the nodes. Each child has
a process group of its own: when the zygote is killed, the kernel sends SIGHUP to a group that has a stopped process, so
that a node that is paused ends, too. All other children notice that their sockets are closed.
"""

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Never

from jepsen.testing.lifeline import Lifeline

_RECEIVED_AT_ONCE: Final = 4_096
# Descriptors that come with so many bytes at most. A request has 20 bytes and more.
_ENDS_AT_ONCE: Final = 256
# For the supervisor to end its clusters, which takes milliseconds. It is killed after that.
_END_S: Final = 10.0
_LOOK_S: Final = 0.5
_FAILED: Final = 70
_HANDLED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class Zygote:
    """`run_supervisor` and `run_node` run in forks of this process, and return their exit codes. `preparation` is run
    step by step while nothing else is to do.
    """

    def __init__(
        self,
        lifeline: Lifeline,
        run_supervisor: Callable[[socket.socket], int],
        run_node: Callable[[socket.socket], int],
        preparation: Iterator[None],
    ) -> None:
        self._lifeline = lifeline
        self._run_supervisor = run_supervisor
        self._run_node = run_node
        self._preparation: Iterator[None] | None = preparation
        self._requests, self._theirs = socket.socketpair()
        self._woken, self._wakes = socket.socketpair()
        self._received = b""
        self._ends: deque[socket.socket] = deque()
        self._selector = selectors.DefaultSelector()
        self._keys: dict[int, str] = {}
        self._supervisor = 0
        self._ended_at = 0.0
        self._code = 0

    def run(self) -> int:
        """Serve until the supervisor has ended. Returns its exit code."""
        for each in (self._woken, self._wakes):
            each.setblocking(False)
        for number in _HANDLED:
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        self._supervisor = self._fork(lambda: self._run_supervisor(self._theirs))
        self._theirs.close()
        self._keys[self._supervisor] = ""
        self._selector.register(self._requests, selectors.EVENT_READ, self._take_requests)
        self._selector.register(self._woken, selectors.EVENT_READ, self._take_signals)
        if self._lifeline.descriptor is not None:
            self._selector.register(self._lifeline.descriptor, selectors.EVENT_READ, self._watch_parent)
        try:
            while self._supervisor in self._keys:
                ready = self._selector.select(self._timeout())
                for key, _ in ready:
                    key.data()
                if not ready:
                    self._prepare()
                if self._lifeline.has_lost_parent():
                    self._end_supervisor()
                is_late = self._ended_at and time.monotonic() - self._ended_at > _END_S
                if is_late and self._supervisor in self._keys:
                    os.kill(self._supervisor, signal.SIGKILL)
        finally:
            self._kill_all()
            self._selector.close()
        return self._code

    def _timeout(self) -> float | None:
        if self._preparation is not None and not self._ended_at:
            return 0.0
        return _LOOK_S if self._ended_at or self._lifeline.has_parent else None

    def _prepare(self) -> None:
        """Run one step of the preparation, if one is left."""
        try:
            if self._preparation is not None:
                next(self._preparation)
        except StopIteration:
            self._preparation = None

    def _watch_parent(self) -> None:
        assert self._lifeline.descriptor is not None, "it is watched"
        if self._lifeline.is_at_end():
            self._selector.unregister(self._lifeline.descriptor)
            self._end_supervisor()

    def _take_signals(self) -> None:
        numbers = b""
        with contextlib.suppress(BlockingIOError):
            while received := self._woken.recv(4_096):
                numbers += received
        if any(number != signal.SIGCHLD for number in numbers):
            self._end_supervisor()
        self._reap(os.WNOHANG)

    def _end_supervisor(self) -> None:
        if not self._ended_at and self._supervisor in self._keys:
            self._ended_at = time.monotonic()
            os.kill(self._supervisor, signal.SIGTERM)

    def _reap(self, flags: int) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, flags)) != (0, 0):
                pid, code = ended[0], os.waitstatus_to_exitcode(ended[1])
                key = self._keys.pop(pid)
                if pid == self._supervisor:
                    self._code = 0 if self._ended_at else abs(code)
                else:
                    self._report({"key": key, "code": code})

    def _take_requests(self) -> None:
        try:
            data, descriptors, *_ = socket.recv_fds(self._requests, _RECEIVED_AT_ONCE, _ENDS_AT_ONCE)
        except ConnectionResetError:  # it has ended without reading the last reports
            data, descriptors = b"", []
        if not data:  # the supervisor has ended, or is about to
            self._selector.unregister(self._requests)
            return
        self._ends.extend(socket.socket(fileno=each) for each in descriptors)
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._take_request(json.loads(line))

    def _take_request(self, request: dict[str, Any]) -> None:
        if "signal" in request:
            for pid, key in self._keys.items():
                if key == request["key"]:
                    os.kill(pid, request["signal"])
            return
        end = self._ends.popleft()
        try:
            pid = self._fork(lambda: self._run_node(end))
        except OSError as error:
            self._report({"key": request["fork"], "error": str(error)})
            return
        finally:
            end.close()
        self._keys[pid] = request["fork"]
        self._report({"key": request["fork"], "pid": pid})

    def _report(self, message: object) -> None:
        with contextlib.suppress(OSError):
            self._requests.sendall(f"{json.dumps(message)}\n".encode())

    def _kill_all(self) -> None:
        for pid in self._keys:
            os.kill(pid, signal.SIGKILL)
        self._reap(0)

    def _fork(self, run: Callable[[], int]) -> int:
        """Fork a process that runs a function and ends with its result. Returns the process id to the parent."""
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()
        pid = os.fork()
        if not pid:
            self._end_as_child(run)
        with contextlib.suppress(OSError):  # the child has done it, or has ended
            os.setpgid(pid, pid)
        return pid

    def _end_as_child(self, run: Callable[[], int]) -> Never:
        code = _FAILED
        try:
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            for number in _HANDLED:
                signal.signal(number, signal.SIG_DFL)
            with contextlib.suppress(OSError):  # a kqueue stays with the parent
                self._selector.close()
            for each in (self._woken, self._wakes, self._requests, *self._ends):
                each.close()
            self._lifeline.leave()
            gc.enable()
            code = run()
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:  # noqa: BLE001 - nothing may return into the parent's code
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
