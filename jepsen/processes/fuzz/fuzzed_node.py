"""The node that is fuzzed: a combined controller and broker in its own process. Reads its resources and output."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from jepsen.processes.server_process import ServerProcess

START_S: Final = 120.0
STOP_S: Final = 60.0
_LOOK_S: Final = 0.02
# Small files and short timeouts, so that states that depend on time are reached during a run.
_SETTINGS: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.segment.bytes": "1048576",
    "default.replication.factor": "1",
    "log.segment.bytes": "1048576",
    "log.retention.bytes": "8388608",
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "50",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "producer.id.expiration.ms": "5000",
    "metadata.log.max.record.bytes.between.snapshots": "1000000",
    "broker.session.timeout.ms": "60000",
}
_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\)")


class Unserved(AssertionError):
    """The node does not start, or does not stop. The message has the end of its output."""


class FuzzedNode(ServerProcess):
    """`port` is that of clients, `controller_port` that of controllers and the quorum."""

    def __init__(self, directory: Path, port: int, controller_port: int, overrides: Mapping[str, str]) -> None:
        super().__init__(directory / "output")
        self.data = directory / "data"
        self.port = port
        self.controller_port = controller_port
        self._overrides = dict(overrides)

    def command(self) -> Sequence[str]:
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}"
        settings = {"listeners": listeners, "log.dirs": str(self.data), **_SETTINGS, **self._overrides}
        overrides = [part for key, value in settings.items() for part in ("--override", f"{key}={value}")]
        return [sys.executable, "-m", "jepsen.processes.fuzz.traced_node", "start", *overrides]

    async def start(self) -> float:
        """Start the node. Returns the seconds until it served. Raises Unserved."""
        began = time.monotonic()
        self.launch()
        if not await _holds(lambda: self.is_serving or not self.is_running, START_S) or not self.is_running:
            raise Unserved(f"the node does not start:\n{self.output_tail()}")
        return time.monotonic() - began

    async def stop(self) -> float:
        """Stop the node with SIGTERM. Returns the seconds until it ended. Raises Unserved."""
        return await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """kill -9."""
        await self._end(signal.SIGKILL)

    async def _end(self, signal_number: signal.Signals) -> float:
        began = time.monotonic()
        self.send(signal_number)
        if not await _holds(lambda: not self.is_running, STOP_S):
            self.send(signal.SIGUSR1)
            await trio.sleep(1)
            self.discard()
            raise Unserved(f"the node does not end after signal {signal_number}:\n{self.output_tail()}")
        return time.monotonic() - began

    def tracebacks(self) -> list[str]:
        """Each traceback in the output of all its starts that differs from those before it."""
        found: dict[str, None] = {}
        lines = self.output_path.read_text(errors="replace").splitlines()
        starts = [index for index, line in enumerate(lines) if _TRACEBACK.search(line)]
        for start in starts:
            end = start + 1
            while end < len(lines) and not lines[end].startswith("kraft: ") and end - start < 120:
                end += 1
            found.setdefault("\n".join(lines[start:end]))
        return list(_without_repetition(found))

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def run_delay_seconds(self) -> float:
        """The seconds that its threads waited for a CPU, which is the machine's part of a loop hold."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def data_bytes(self) -> int:
        """The bytes in its files. The node removes some of them during the count."""
        size = 0
        for directory, _, names in os.walk(self.data):  # which passes over directories that are gone
            for name in names:
                with suppress(FileNotFoundError):
                    size += os.stat(os.path.join(directory, name)).st_size
        return size


def _without_repetition(tracebacks: Mapping[str, None]) -> list[str]:
    """One traceback for each place that raises."""
    by_place: dict[str, str] = {}
    for text in tracebacks:
        places = re.findall(r'File "([^"]+)", line (\d+)', text)
        by_place.setdefault(str(places[-1:] or text), text)
    return list(by_place.values())


async def _holds(condition: Callable[[], bool], seconds: float) -> bool:
    """True if the condition holds within so many seconds."""
    with trio.move_on_after(seconds):
        while not condition():
            await trio.sleep(_LOOK_S)
        return True
    return False
