"""Changes one place of a module at a time, and runs the tests of its package.

A mutant that no test notices is a rule without a test, or changes nothing that can be seen. It is printed with its
place. The tests run in copies of the tree. Those whose text names the module run first; the first failure ends a run.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Final

from tests.mutation.mutants import Mutant, mutants_of
from tests.support.source_code import ROOT

# The packages, each with the directory of its tests.
PACKAGES: Final = {
    "kraft/core": "tests/kraft/core",
    "metadata/controller": "tests/metadata",
    "broker/replication": "tests/broker/replication",
    "broker/storage": "tests/broker/storage",
    "broker/coordinator": "tests/broker/coordinator",
    "broker/client": "tests/broker/client",
}
# A change may make a loop endless. It is noticed, if the tests pass in a part of this time without it. A busy machine
# needs more.
TIMEOUT_S: Final = 120.0
KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed out"
# Exit codes of pytest: all tests have passed; one has failed; a module of tests could not be imported.
_OUTCOMES: Final = {0: SURVIVED, 1: KILLED, 2: KILLED}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="the number of mutants, divided among the packages")
    parser.add_argument("--seed", type=int, default=1, help="chooses the mutants")
    parser.add_argument("--jobs", type=int, default=2, help="runs of tests at a time")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds for the tests of one mutant")
    parser.add_argument("--packages", nargs="+", choices=[*PACKAGES], default=[*PACKAGES], help="only of these")
    parser.add_argument("--only", nargs="+", metavar="PATH:LINE", help="all mutants of these lines instead")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options = parser.parse_args()
    try:
        if options.only:
            chosen = list(of_lines(options.only))
        else:
            chosen = list(sampled(options.packages, options.count, Random(options.seed)))
        if options.list:
            print(*chosen, sep="\n")
            return 0
        results = run_all(chosen, options.jobs, options.timeout)
    except Unusable as error:
        print(error, file=sys.stderr)
        return 1
    counts = {outcome: list(results.values()).count(outcome) for outcome in (KILLED, TIMED_OUT, SURVIVED)}
    print(f"{len(results)} mutants: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 0


class Unusable(Exception):
    """A place has no mutants, or the tests fail without a change or cannot be run."""


def of_lines(places: Sequence[str]) -> Iterator[Mutant]:
    """All mutants of lines, each of which is given as its module's path, a colon and its number. Raises Unusable."""
    for place in places:
        path, _, line = place.partition(":")
        if not line.isdecimal() or not (ROOT / path).is_file():
            raise Unusable(f"{place}: not a module's path, a colon and the number of a line")
        if not any(_is_in(path, package) for package in PACKAGES):
            raise Unusable(f"{place}: modules of these packages only: {', '.join(PACKAGES)}")
        found = [each for each in mutants_of(path, (ROOT / path).read_bytes()) if each.line == int(line)]
        if not found:
            raise Unusable(f"{place}: this line has no mutants")
        yield from found


def sampled(packages: Sequence[str], count: int, rng: Random) -> Iterator[Mutant]:
    """Mutants of all packages, as many of each."""
    for number, package in enumerate(packages):
        share = count // len(packages) + (number < count % len(packages))
        found = [
            mutant
            for path in sorted((ROOT / package).rglob("*.py"))
            for mutant in mutants_of(str(path.relative_to(ROOT)), path.read_bytes())
        ]
        yield from sorted(rng.sample(found, min(share, len(found))))


def run_all(mutants: Sequence[Mutant], jobs: int, timeout_s: float) -> dict[Mutant, str]:
    """The outcome of each mutant, which is printed when it is known. Raises Unusable."""
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(jobs) as pool:
        copies = SimpleQueue[Path]()
        for number in range(jobs):
            copies.put(_copied_tree(Path(directory, str(number))))

        def run(mutant: Mutant) -> str:
            copy = copies.get()
            try:
                began = time.monotonic()
                outcome = outcome_of(mutant, copy, timeout_s)
                print(f"{outcome:9} {time.monotonic() - began:4.0f} s  {mutant}", flush=True)
                return outcome
            finally:
                copies.put(copy)

        def check(directory: str) -> None:
            copy = copies.get()
            try:
                began = time.monotonic()
                outcome = _outcome_of_tests(related_tests(f"{directory}/", copy), copy, timeout_s)
                print(f"{directory}: its tests take {time.monotonic() - began:.0f} s", flush=True)
                if outcome != SURVIVED:
                    raise Unusable(f"{directory}: its tests have not passed within {timeout_s:.0f} s without a change")
            finally:
                copies.put(copy)

        list(pool.map(check, [each for each in PACKAGES if any(_is_in(mutant.path, each) for mutant in mutants)]))
        return dict(zip(mutants, pool.map(run, mutants), strict=True))


def outcome_of(mutant: Mutant, copy: Path, timeout_s: float = TIMEOUT_S) -> str:
    module = copy / mutant.path
    source = module.read_bytes()
    # Python tells a compiled module from an outdated one by time and size, which a change may leave as they were.
    compiled = _compiled(copy) / module.parent.relative_to("/") / f"{module.stem}.{sys.implementation.cache_tag}.pyc"
    try:
        _write(module, mutant.apply(source), compiled)
        return _outcome_of_tests(related_tests(mutant.path, copy), copy, timeout_s)
    finally:
        _write(module, source, compiled)


def _write(module: Path, source: bytes, compiled: Path) -> None:
    module.write_bytes(source)
    compiled.unlink(missing_ok=True)


def _compiled(copy: Path) -> Path:
    """The directory of compiled modules, without which each process of a test would compile what it imports."""
    return copy / ".compiled"


def related_tests(path: str, tree: Path = ROOT) -> list[str]:
    """The files of tests of the module's package, those that name the module first."""
    directory = next(tests for package, tests in PACKAGES.items() if _is_in(path, package))
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    files = sorted((tree / directory).rglob("test_*.py"))
    files.sort(key=lambda file: name not in file.read_text())
    return [str(file.relative_to(tree)) for file in files]


def _is_in(path: str, package: str) -> bool:
    return path.startswith(f"{package}/")


def _outcome_of_tests(tests: Sequence[str], copy: Path, timeout_s: float) -> str:
    command = [sys.executable, "-m", "pytest", "-x", "--quiet", "-p", "no:cacheprovider", *tests]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(_compiled(copy))
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as run:
        try:
            code = run.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)  # also the nodes that the tests have started
            return TIMED_OUT
    if code not in _OUTCOMES:
        raise Unusable(f"pytest ended with {code}: {' '.join(command)}")
    return _OUTCOMES[code]


def _copied_tree(target: Path) -> Path:
    """The files that git knows, in a directory of their own."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


if __name__ == "__main__":
    sys.exit(main())
