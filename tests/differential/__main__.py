"""The command: `python -m tests.differential --family transactions --first 0 --count 1000`."""

import argparse
import sys
import time
from collections.abc import Sequence

import trio

from benchmarks.apache_kafka import KAFKA_VERSION, Unavailable, jars
from tests.differential.families import FAMILIES, SERIAL
from tests.differential.known_differences import KNOWN_DIFFERENCES
from tests.differential.search import REPEATS, Search
from tests.differential.sequences import Step
from tests.differential.servers import running_servers
from tests.differential.shrinking import Shrunk, selected


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--family", choices=sorted(FAMILIES), help="one family (default: all)")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1_000, help="sequences per family")
    parser.add_argument("--workers", type=int, default=6, help="sequences at a time")
    parser.add_argument("--steps", help="only these steps of each sequence, as 0,3,4")
    parser.add_argument("--pauses", action="store_true", help="pause before each of --steps")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    try:
        jars()
    except Unavailable as why:
        print(f"skipped: {why}")
        return 0
    families = [FAMILIES[arguments.family]] if arguments.family else list(FAMILIES.values())
    seeds = range(arguments.first, arguments.first + arguments.count)

    def choose(steps: Sequence[Step]) -> Sequence[Step]:
        if not arguments.steps:
            return steps
        return selected(steps, Shrunk(tuple(map(int, arguments.steps.split(","))), arguments.pauses))

    differs = False
    with running_servers() as ports:
        print(f"Apache Kafka {KAFKA_VERSION} and a node of ours; {len(seeds)} sequences per family")
        for family in families:
            known = [each for each in KNOWN_DIFFERENCES if each.family == family.name]
            search = Search(family, ports, known, prefix=f"{family.name}-")
            began = time.monotonic()

            def progress(search: Search = search, began: float = began) -> None:
                if search.sequences % 100 == 0:
                    found = f"{len(search.findings)} kinds of differences"
                    print(f"  {search.sequences} sequences, {time.monotonic() - began:.0f} s, {found}", flush=True)

            try:
                workers = 1 if family.name in SERIAL else arguments.workers
                trio.run(_run, search, seeds, workers, choose, progress)
            finally:
                print(_summary(search, time.monotonic() - began))
            differs = differs or bool(search.findings)
    return 1 if differs else 0


async def _run(search: Search, seeds: Sequence[int], workers: int, choose: object, progress: object) -> None:
    await search.run(seeds, workers=workers, choose=choose, progress=progress)  # type: ignore[arg-type]


def _summary(search: Search, seconds: float) -> str:
    """The figures of a family, its findings, and which known differences it met."""
    requests = ", ".join(f"{name} {count}" for name, count in search.requests.most_common())
    lines = [f"{search.family.name}: {search.sequences} sequences in {seconds:.0f} s ({requests})"]
    for entry, uses in zip(search.known, search.used, strict=True):
        lines.append(f"known, {f'met {uses} times' if uses else 'NEVER MET'}: {entry.step} {entry.reason}")
    for finding in search.findings.values():
        lines.append(f"DIFFERENCE {finding.describe(search.family.name)}")
    for kind, seeds in search.not_repeated.items():
        lines.append(f"not repeated in {REPEATS} runs: {kind}; seeds {', '.join(map(str, seeds))}")
    lines.append(f"{len(search.findings)} kinds of differences that are not known")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
