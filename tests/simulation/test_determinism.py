"""A seed determines a run completely, in every process and with every hash seed."""

import os
import re
import subprocess
import sys

from jepsen.simulation.command import parse_faults
from jepsen.simulation.faults import FAULTS
from jepsen.simulation.scenario import Scenario
from jepsen.simulation.shapes import Shape
from tests.support.source_code import ROOT

QUORUM = Shape(["quorum-3"])


def run_in_a_process(hash_seed: str, seed: int) -> str:
    """The command's output, without the CPU time."""
    command = [sys.executable, "-m", "jepsen", "sim", "--seed", str(seed), "--time", "6", "--nodes", "nodes-3"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return re.sub(r"[\d.]+ CPU seconds", "", done.stdout)


def test_processes_with_different_hash_seeds_run_the_same() -> None:
    first, *others = [run_in_a_process(hash_seed, 3) for hash_seed in ("0", "1", "4242")]
    assert re.search(r"trace hash [0-9a-f]{16}", first)
    assert others == [first, first]


def test_a_second_run_in_one_process_is_the_same_and_another_seed_is_another_run() -> None:
    digests = [Scenario(seed, 5, shape=QUORUM).run().digest for seed in (8, 8, 9)]
    assert digests[0] == digests[1] != digests[2]


def test_the_faults_that_may_occur_are_a_part_of_the_run() -> None:
    assert parse_faults("all") == tuple(FAULTS)
    assert parse_faults("none") == []
    assert parse_faults("kill,power") == ["kill", "power"]
    assert Scenario(8, 5, [], QUORUM).run().digest != Scenario(8, 5, shape=QUORUM).run().digest
