"""A client process, as its parent controls it."""

import os
import signal
from pathlib import Path
from typing import Final

import trio

from jepsen.processes.clients.client import ClientPlan
from jepsen.processes.launcher import Program, launcher

# Records that are on their way are waited for, see `producing`; and the last reader has much to read.
_END_SECONDS: Final = 40.0
_ROLES: Final = ("asking", "client", "consuming", "contending", "joining", "producing", "sharing", "transacting")
_CLIENT: Final = Program("jepsen.processes.clients", tuple(f"jepsen.processes.clients.{name}" for name in _ROLES))


class ClientFailed(Exception):
    """A client failed to do its work, so the run says nothing about the nodes."""


class ClientProcess:
    """`output` is its stdout and stderr, which are empty unless it fails."""

    def __init__(self, plan: ClientPlan, output: Path) -> None:
        self.plan = plan
        self._output = output
        stdin, ours = os.pipe()
        self._stdin: int | None = ours
        with output.open("ab") as file:
            self._process = launcher().start(_CLIENT, [plan.text()], file.fileno(), stdin=stdin)
        os.close(stdin)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def send(self, signal_number: signal.Signals) -> None:
        self._process.send_signal(signal_number)

    async def end(self) -> None:
        """Let the client finish its operations and end. Raises ClientFailed."""
        self._close_stdin()
        await self.ended(_END_SECONDS)

    async def ended(self, within_seconds: float) -> None:
        """Wait until the client ends by itself. Raises ClientFailed."""
        with trio.move_on_after(within_seconds):
            while self._process.poll() is None:
                await trio.sleep(0.02)
        code = self._process.poll()
        if code != 0:
            self.discard()
            raise ClientFailed(f"{self.plan.name}: {'no end' if code is None else code}\n{self._output.read_text()}")

    def discard(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close_stdin()

    def _close_stdin(self) -> None:
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None
