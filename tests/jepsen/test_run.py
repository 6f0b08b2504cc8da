"""Real nodes, librdkafka's clients and a nemesis, for as long as a test may take; the command does so for longer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jepsen.processes.faults.of_networks import ring_cuts
from jepsen.store import Store


@pytest.mark.clients
def test_acknowledged_records_outlive_killed_nodes(tmp_path: Path) -> None:
    arguments = ("--workload", "queue", "--nemesis", "kill-leader", "--time", "10", "--fault", "4", "--peace", "1")
    command = [sys.executable, "-m", "jepsen", "run", *arguments, "--store", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (directory,) = tmp_path.iterdir()
    store = Store(directory)
    verdict = store.verdict()
    assert verdict is not None
    assert verdict.is_valid
    # It was troubled indeed, and much was acknowledged, and read at last from clients and from disks.
    assert {fault.kind for fault in store.faults()} == {"kill-leader"}
    assert any(life.end == "kill -9" for life in store.lives())
    assert verdict.counts["send ok"] > 500
    assert verdict.counts["final-read ok"] == 4
    assert verdict.counts["read-replica ok"] == 12
    assert (directory / "report.html").exists()
    assert json.loads((directory / "run.json").read_text())["workload"] == "queue"


@pytest.mark.parametrize("count", [3, 5])
def test_in_a_ring_everybody_reaches_a_majority_and_no_two_the_same(count: int) -> None:
    names = [f"n{index}" for index in range(count)]
    cuts = ring_cuts(names)
    hears = {name: frozenset(other for other in names if other == name or (other, name) not in cuts) for name in names}
    assert all(len(heard) == count // 2 + 1 for heard in hears.values())
    assert len(set(hears.values())) == count
