"""Prometheus itself, from the system or from Debian's package, on a configuration of a test."""

import json
import os
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from jepsen.processes.ports import free_ports
from tests.support.source_code import ROOT

# Where the package is unpacked. It stays for later runs.
_UNPACKED = ROOT / ".venv" / "prometheus"
_WITHIN_S = 90.0


class Unavailable(Exception):
    """Prometheus is not installed, and Debian's package cannot be had. The message says why."""


def find(name: str) -> Path:
    """The program `prometheus` or `promtool`. Raises Unavailable."""
    installed = shutil.which(name)
    if installed is not None:
        return Path(installed)
    if not (_UNPACKED / "usr/bin" / name).exists():
        _unpack()
    return _UNPACKED / "usr/bin" / name


def _unpack() -> None:
    """Download Debian's package, and unpack it without installing it."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise Unavailable("Prometheus is not installed, and this is no Debian whose package could be unpacked")
    _UNPACKED.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(
            ["apt-get", "download", "prometheus"], cwd=_UNPACKED, check=True, capture_output=True, timeout=180
        )
        (package,) = _UNPACKED.glob("prometheus_*.deb")
        subprocess.run(["dpkg", "-x", package, _UNPACKED], check=True, capture_output=True, timeout=60)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        raise Unavailable(f"Debian's package of Prometheus cannot be downloaded: {error}") from error


@attrs.frozen
class Prometheus:
    """A running Prometheus."""

    port: int

    def ask(self, path: str, **parameters: str) -> Any:
        """The `data` of a response of the HTTP API. Raises OSError, also for a query with a mistake."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}", timeout=10) as response:
            answer = json.load(response)
        assert answer["status"] == "success", answer
        return answer["data"]

    def value(self, expression: str) -> float | None:
        """The only value of an instant query; None if there is none."""
        result = self.ask("query", query=expression)["result"]
        return float(result[0]["value"][1]) if result else None

    def alerts(self) -> dict[str, str]:
        """The state of each alert that has a result: pending or firing."""
        states: dict[str, str] = {}
        for alert in self.ask("alerts")["alerts"]:
            name = alert["labels"]["alertname"]
            states[name] = max(states.get(name, ""), alert["state"], key=("", "pending", "firing").index)
        return states

    def series(self, expression: str, since: float, step_s: float) -> list[tuple[Mapping[str, str], list[list[Any]]]]:
        """The values of an expression over time, up to now."""
        found = self.ask("query_range", query=expression, start=str(since), end=str(time.time()), step=f"{step_s}s")
        return [(each["metric"], each["values"]) for each in found["result"]]

    def wait_for(self, condition: Callable[[], bool], what: str) -> float:
        """Wait until the condition holds. Returns the seconds. Raises AssertionError with the alerts."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < _WITHIN_S, f"not within {_WITHIN_S} s: {what}; alerts: {self.alerts()}"
            time.sleep(0.2)
        return time.monotonic() - began


@contextmanager
def prometheus(directory: Path, targets: Sequence[str], rules: str) -> Iterator[Prometheus]:
    """Prometheus scrapes the targets each second, and evaluates the rules as often, until the block ends."""
    (port,) = free_ports(1)
    directory.mkdir()
    (directory / "rules.yml").write_text(rules)
    (directory / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{json.dumps(str(directory / 'rules.yml'))}]\n"
        "scrape_configs:\n"
        "  - job_name: kraft\n"
        f"    static_configs: [{{targets: {json.dumps(list(targets))}}}]\n"
    )
    command = [
        str(find("prometheus")),
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with open(directory / "output", "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, "GOMAXPROCS": "1"})
    try:
        running = Prometheus(port)
        running.wait_for(lambda: _answers(running), "Prometheus answers")
        yield running
    finally:
        process.kill()
        process.wait()


def _answers(running: Prometheus) -> bool:
    try:
        running.ask("status/buildinfo")
    except OSError:
        return False
    return True
