"""The supervisor's side of the socket to the zygote: requests processes, signals them, learns of their ends."""

import json
import signal
import socket
from array import array
from typing import Any, Final

import attrs
import trio

_RECEIVED_AT_ONCE: Final = 4_096


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
        self._sending = trio.Lock()
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
        buffer = b""
        while data := await self._receive():
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                self._take_report(json.loads(line))
        raise ZygoteEnded

    def _take_report(self, report: dict[str, Any]) -> None:
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

    async def _send(self, request: object, rights: list[Any]) -> None:
        data = f"{json.dumps(request)}\n".encode()
        try:
            async with self._sending:
                sent = await self._socket.sendmsg([data], rights)
                with trio.CancelScope(shield=True):  # a request is sent whole, or not at all
                    while sent < len(data):
                        sent += await self._socket.send(data[sent:])
        except OSError as error:
            raise ZygoteEnded from error

    async def _receive(self) -> bytes:
        try:
            return await self._socket.recv(_RECEIVED_AT_ONCE)
        except OSError:
            return b""
