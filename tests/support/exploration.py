"""Runs the tests that draw examples on new examples until the time is over: `python -m tests.support.exploration`.

Each round is a run of pytest with a new seed; see `tests.support.examples`. Ends with 1 if a test failed.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom

from tests.support.source_code import ROOT

# Short enough to type, and more than anyone explores.
SEEDS = 10**9


def main() -> int:
    options = argparse.ArgumentParser(prog="make explore", description=__doc__)
    options.add_argument("--seconds", type=float, required=True, help="no test begins after that time")
    options.add_argument("--rounds", type=int, default=SEEDS, help="the most rounds")
    options.add_argument("--workers", type=int, default=0, help="processes; 0 for pytest's own")
    options.add_argument("--seed", type=int, help="the first round's, instead of one by chance")
    given, arguments = options.parse_known_args()
    end_s = time.time() + given.seconds
    seed = SystemRandom().randrange(SEEDS) if given.seed is None else given.seed
    rounds, failures = 0, dict[str, int]()
    while time.time() < end_s and rounds < given.rounds:
        for test in _failures_of(seed, end_s, given.workers, arguments):
            failures.setdefault(test, seed)
        rounds, seed = rounds + 1, SystemRandom().randrange(SEEDS)
    print(f"{rounds} rounds, {len(failures)} tests failed")
    for test, failed_seed in failures.items():
        print(f"again: {sys.executable} -m pytest --draw {failed_seed} '{test}'")
    return 1 if failures else 0


def _failures_of(seed: int, end_s: float, workers: int, arguments: list[str]) -> list[str]:
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        failed = Path(directory, "failed")
        command = [sys.executable, "-m", "pytest", "--quiet", "--draw", str(seed), "--draw-until", str(end_s)]
        command += ["--failed-tests", str(failed), "--numprocesses", str(workers), "--dist", "worksteal", *arguments]
        code = subprocess.run(command, cwd=ROOT).returncode
        if not failed.exists():
            raise SystemExit(code)
        return failed.read_text().splitlines()


if __name__ == "__main__":
    sys.exit(main())
