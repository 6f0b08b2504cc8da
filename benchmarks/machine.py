"""The machine and the software of a run."""

import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import confluent_kafka

from benchmarks.apache_kafka import KAFKA_VERSION

_ROOT = Path(__file__).parents[1]


def describe() -> dict[str, str]:
    """The machine: CPU, cores, memory, kernel, the disk of temporary files, and the interpreter."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "CPU": _first("/proc/cpuinfo", r"model name\s*: (.+)") or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory_bytes / (1 << 30):.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "disk of the data": _disk(Path(tempfile.gettempdir())),
        "Python": platform.python_version(),
    }


def describe_run() -> dict[str, str]:
    """The time, the versions under test, and how busy the machine is before the run."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M %Z"),
        "kraft": " ".join(filter(None, (version("kraft"), _commit()))),
        "Apache Kafka": KAFKA_VERSION,
        "Java": _java(),
        "confluent-kafka": f"{version('confluent-kafka')} with librdkafka {confluent_kafka.libversion()[0]}",
        "load average before the run": f"{os.getloadavg()[0]:.2f}",
    }


def _first(path: str, pattern: str) -> str:
    found = re.search(pattern, Path(path).read_text())
    return found[1].strip() if found else ""


def _disk(directory: Path) -> str:
    """The file system that holds a directory, and the kind of its device."""
    device = directory.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    kind = _first("/proc/self/mountinfo", rf"(?m)^\d+ \d+ {number} .* - (\S+)") or "unknown file system"
    block = Path("/sys/dev/block", number)
    if not block.exists():
        return f"{kind}, no block device"
    # A partition has the queue of its disk.
    queue = next((each for each in (block / "queue", block.resolve().parent / "queue") if each.exists()), None)
    rotates = queue is not None and (queue / "rotational").read_text().strip() == "1"
    return f"{kind} on {block.resolve().name}, reported as {'rotational' if rotates else 'not rotational'}"


def _java() -> str:
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    lines = (done.stderr or done.stdout).splitlines()
    # OpenJDK has three lines; that of the runtime names the build.
    return lines[min(1, len(lines) - 1)] if lines else "unknown"


def _commit() -> str:
    """The commit of the working directory, if it is one of git, marked if files differ from it."""
    if not shutil.which("git"):
        return ""
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
