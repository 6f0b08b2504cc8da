"""The supervisor's side of the socket to the zygote: requests processes, signals them, learns of their ends."""

import json
import signal
import socket
from array import array
from typing import Any

import attrs
import trio

from jepsen.testing.zygote import REQUEST_BYTES_MAX


class ZygoteEnded(Exception):
    """The zygote has ended, and the supervisor ends with it."""


@attrs.define(eq=False)
class ForkedProcess:
    """A process that the zygote has forked. `code` is its exit code, or minus the number of a signal.

    `error` is the reason why there is none.
    """

    key: str
    pid: int = 0
    error: str | None = None
    code: int | None = None
    forked: trio.Event = attrs.field(factory=trio.Event)
    ended: trio.Event = attrs.field(factory=trio.Event)


class ForkFailed(Exception):
    """The machine has no room for another process; the message has the reason."""


class ZygoteLink:
    """Several tasks may use it. `run` must run beside them."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = trio.socket.from_stdlib_socket(end)
        self._processes: dict[str, ForkedProcess] = {}

    async def fork(self, key: str, end: socket.socket) -> ForkedProcess:
        """Fork a node that has `end` as its end of a connection; it is closed here. `key` names this process alone.

        Raises ForkFailed.
        """
        process = self._processes[key] = ForkedProcess(key)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [end.fileno()]))]
        with end:
            await self._send({"fork": key}, rights)
        await process.forked.wait()
        if process.error is not None:
            raise ForkFailed(process.error)
        return process

    async def signal(self, process: ForkedProcess, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended. Its parent does it, which knows that the id is still its own."""
        with trio.CancelScope(shield=True):  # it does not wait, and the caller has noted that the signal is sent
            await self._send({"signal": int(number), "key": process.key}, [])

    async def run(self) -> None:
        """Take the zygote's reports. Raises ZygoteEnded."""
        while data := await self._receive():
            report = json.loads(data)
            process = self._processes[report["key"]]
            if "error" in report:
                del self._processes[process.key]
                process.error = report["error"]
                process.forked.set()
                process.ended.set()
            elif "pid" in report:
                process.pid = report["pid"]
                process.forked.set()
            else:
                del self._processes[process.key]
                process.code = report["code"]
                process.ended.set()
        raise ZygoteEnded

    async def _send(self, request: object, rights: list[Any]) -> None:
        data = json.dumps(request).encode()
        assert len(data) <= REQUEST_BYTES_MAX, "the zygote takes it"
        try:
            await self._socket.sendmsg([data], rights)
        except OSError as error:
            raise ZygoteEnded from error

    async def _receive(self) -> bytes:
        try:
            return await self._socket.recv(REQUEST_BYTES_MAX)
        except OSError:
            return b""
