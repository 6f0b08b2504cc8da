"""The servers under test, with one small interface: start, addresses, process id, stop."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Protocol, Self

from benchmarks import processes
from benchmarks.protocol import Connection

# Configs of both nodes, so that a deleted topic frees its pages before they are written back to the disk.
COMMON_OVERRIDES = {"log.segment.delete.delay.ms": "0", "num.partitions": "1"}

_START_TIMEOUT_S = 180
_STOP_TIMEOUT_S = 30
_LOG_TAIL = 2000


class PeerFailed(Exception):
    """A server did not start, or ended on its own."""


class Subject(Protocol):
    """The target of a load: a node or a cluster."""

    name: str
    replication_factor: int

    @property
    def bootstrap(self) -> str: ...

    @property
    def client_configs(self) -> Mapping[str, object]:
        """Configs that clients need to reach it."""

    def cpu_seconds(self) -> float:
        """The CPU time of all its processes."""


class Peer:
    """One node in its own process, with a new data directory that is deleted with it. A context manager."""

    name: str
    replication_factor = 1
    client_configs: Mapping[str, object] = MappingProxyType({})
    # The directory of data directories: None for that of temporary files.
    parent: Path | None = None

    def __init__(self) -> None:
        self.port = processes.free_port()
        self.controller_port = processes.free_port()
        self.directory = Path(tempfile.mkdtemp(prefix=f"bench-{type(self).__name__.lower()}-", dir=self.parent))
        self.startup_s = 0.0
        self._began = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "output.log"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the peer has not been started"
        return self._process.pid

    def cpu_seconds(self) -> float:
        return processes.cpu_seconds(self.pid)

    def prepare(self) -> None:
        """The preparation before the first start, which is not part of the measured start."""

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        """Start the node and wait for its first Metadata response that has a broker and a controller.

        `startup_s` is the time from before the process starts to that response. Raises PeerFailed.
        """
        self.launch()
        self.wait_serving()

    def launch(self) -> None:
        """Start the process, without waiting until it serves."""
        if not self.data.exists():
            self.prepare()
        with self.log.open("ab") as output:
            self._began = time.perf_counter()
            self._process = subprocess.Popen(
                self.command(), stdout=output, stderr=output, cwd=self.directory, env=processes.environment()
            )

    def wait_serving(self, brokers: int = 1) -> None:
        """Wait until the node reports `brokers` brokers and a controller. Raises PeerFailed."""
        assert self._process is not None, "the peer has not been started"
        while time.perf_counter() - self._began < _START_TIMEOUT_S:
            with contextlib.suppress(OSError), Connection(self.port) as connection:
                known = connection.brokers()
                if known.count >= brokers and known.controller_id >= 0:
                    self.startup_s = time.perf_counter() - self._began
                    return
            if self._process.poll() is not None:
                break
            time.sleep(0.002)
        tail = self._log_tail()
        self.remove()
        raise PeerFailed(f"{self.name} did not start:\n{tail}")

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-_LOG_TAIL:]

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None, "the peer has not been started"
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        """Send SIGTERM, and wait for the process to end."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def remove(self) -> None:
        """Stop, and delete the data. The log of a node that served and has ended on its own is printed before."""
        if self.startup_s and self._process is not None and (code := self._process.poll()) is not None:
            print(f"{self.name} ended on its own with exit code {code}:\n{self._log_tail()}", file=sys.stderr)
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def pin(self, cores: set[int]) -> None:
        processes.pin(self.pid, cores)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, _t: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None) -> None:
        self.remove()


class Kraft(Peer):
    """This project's node, from the environment that runs the benchmark, with these configs."""

    name = "kraft"

    def __init__(self, configs: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._configs = configs or {}

    def prepare(self) -> None:
        """Compile the modules that a start imports, as an installation does."""
        subprocess.run([sys.executable, "-c", "import broker.cli.start"], env=processes.environment(), check=True)

    def command(self) -> list[str]:
        overrides = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "log.dirs": str(self.data),
            **COMMON_OVERRIDES,
            **self._configs,
        }
        flags = [word for key, value in overrides.items() for word in ("--override", f"{key}={value}")]
        return [str(Path(sys.executable).parent / "kraft"), "start", *flags]


def touch_memory(size_bytes: int = 4 << 30) -> None:
    """Write and remove a large file once. Memory of a virtual machine that was never used makes the first writes to the
    page cache ten times slower, which would count against the first server. Prints its progress, as it takes some time.

    Ends the process if the file cannot be written, for example because the disk is full.
    """
    size = f"{size_bytes / (1 << 30):g} GiB"
    print(
        f"... writing {size} to {tempfile.gettempdir()}, so that no server is the first to use memory", file=sys.stderr
    )
    chunk = bytes(8 << 20)
    try:
        with tempfile.TemporaryFile(prefix="bench-touch-", buffering=0) as file:
            for written in range(0, size_bytes, len(chunk)):
                file.write(chunk)
                if not (written + len(chunk)) % (1 << 30):
                    print(f"... {(written + len(chunk)) >> 30} of {size}", file=sys.stderr)
    except OSError as error:
        raise SystemExit(f"{size} cannot be written to {tempfile.gettempdir()}: {error.strerror}") from error
