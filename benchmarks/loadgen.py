"""Builds and runs the load generator (loadgen.c)."""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import attrs

_SOURCE = Path(__file__).with_name("loadgen.c")
CACHE = Path(__file__).with_name(".cache")


class LoadFailed(Exception):
    """The server refused or dropped requests, so there is nothing to measure."""


@attrs.frozen
class Result:
    """The result of one run. CPU is the server's, per request; latencies are those of single requests."""

    seconds: float
    requests: float
    requests_per_s: float
    sent_mb_per_s: float
    received_mb_per_s: float
    p50_us: int
    p90_us: int
    p99_us: int
    p999_us: int
    server_cpu_us: float
    server_busy: float
    client_busy: float
    reply_size_min: int
    reply_size_max: int
    errors: int
    first_error: int

    @property
    def client_cpu_us(self) -> float:
        """The CPU time of the load generator per request."""
        return self.client_busy * self.seconds / self.requests * 1e6


def binary() -> Path:
    """Compile the load generator, with the system's C compiler or with the one in PyPI's ziglang. Returns its path."""
    target = CACHE / f"loadgen-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]}"
    if target.exists():
        return target
    if shutil.which("cc"):
        compiler = ["cc"]
    elif find_spec("ziglang"):
        compiler = [sys.executable, "-m", "ziglang", "cc"]
    else:
        raise FileNotFoundError("no C compiler: install one, or `pip install ziglang`")
    CACHE.mkdir(exist_ok=True)
    fresh = target.with_suffix(".new")
    subprocess.run([*compiler, "-O2", "-o", str(fresh), str(_SOURCE)], check=True)
    return fresh.rename(target)


def run(
    port: int,
    requests: bytes,
    *,
    connections: int = 1,
    depth: int = 1,
    seconds: float,
    warm_up_s: float = 0.3,
    rate: float = 0,
    bytes_max: int = 0,
    server_pid: int = 0,
    error_offset: int | None = None,
) -> Result:
    """Run one load to its end. With a `rate` (requests/s) it is open loop, else `depth` requests stay in flight on each
    connection. Raises LoadFailed when the connection breaks or a response carries an error code.
    """
    with tempfile.NamedTemporaryFile(prefix="requests-") as file:
        file.write(requests)
        file.flush()
        command = [str(binary()), "-p", str(port), "-f", file.name, "-c", str(connections), "-d", str(depth)]
        command += ["-t", str(seconds), "-w", str(warm_up_s), "-r", str(rate), "-b", str(bytes_max)]
        command += ["-P", str(server_pid)] + (["-e", str(error_offset)] if error_offset is not None else [])
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + warm_up_s + 60, check=False)
    if done.returncode:
        raise LoadFailed(done.stderr.strip())
    result = Result(**json.loads(done.stdout))
    if result.errors:
        raise LoadFailed(
            f"{result.errors} of {result.requests:.0f} replies carry an error, first code {result.first_error}"
        )
    return result
