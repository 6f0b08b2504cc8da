"""A client process, as its parent controls it."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import trio

from jepsen.processes.clients.client import ClientPlan

# Records that are on their way are waited for, see `producing`; and the last reader has much to read.
_END_SECONDS: Final = 40.0


class ClientFailed(Exception):
    """A client failed to do its work, so the run says nothing about the nodes."""


class ClientProcess:
    """`output` is its stdout and stderr, which are empty unless it fails."""

    def __init__(self, plan: ClientPlan, output: Path) -> None:
        self.plan = plan
        self._output = output
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jepsen.processes.clients", plan.text()],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def send(self, signal_number: signal.Signals) -> None:
        self._process.send_signal(signal_number)

    async def end(self) -> None:
        """Let the client finish its operations and end. Raises ClientFailed."""
        assert self._process.stdin is not None, "the process was started with a pipe"
        self._process.stdin.close()
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
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
