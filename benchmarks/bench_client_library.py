"""This project's client library beside confluent-kafka, kafka-python and aiokafka, in turns, against one node of ours.

python -m benchmarks.bench_client_library [--rounds 3] [--seconds 2] [--batch-size 131072] [--libraries kraft aiokafka]

Each load runs in a process of its own. What counts most is the client's CPU time per record: the rate also depends on
the node and on what else the machine does.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import attrs

from benchmarks import processes, report, topics
from benchmarks.library_loads import LOADS, Done
from benchmarks.loadgen import LoadFailed
from benchmarks.peers import Kraft, Peer, touch_memory

_SIZES_BYTES: Final = (100, 1024)
_PARTITIONS: Final = 6
_PATIENCE_S: Final = 180
_OURS: Final = "kraft"


@attrs.frozen
class Round:
    """One load of one library. CPU times are in microseconds per record."""

    records_per_s: float
    mb_per_s: float
    client_cpu_us: float
    server_cpu_us: float


def run_load(peer: Peer, what: str, library: str, size_bytes: int, options: argparse.Namespace) -> Round:
    """Run one load on a fresh topic, on the cores that the node does not have. Raises LoadFailed."""
    with topics.topic(peer, _PARTITIONS) as topic:
        server_cpu_s = peer.cpu_seconds()
        command = [sys.executable, "-m", "benchmarks.library_loads", what, library, peer.bootstrap, topic]
        command += ["--size", str(size_bytes), "--seconds", str(options.seconds)]
        command += ["--batch-size", str(options.batch_size)]
        load = subprocess.Popen(command, stdout=subprocess.PIPE)
        processes.pin(load.pid, processes.cores()[1])
        output, _ = load.communicate(timeout=_PATIENCE_S)
        if load.returncode:
            raise LoadFailed(f"{library} could not {what}")
        done = Done(**json.loads(output))
        server_cpu_s = peer.cpu_seconds() - server_cpu_s
    rate = done.records / done.seconds
    return Round(
        rate,
        rate * size_bytes / 1e6,
        done.cpu_seconds / done.records * 1e6,
        server_cpu_s / done.records * 1e6,
    )


def row(what: str, library: str, size_bytes: int, rounds: Sequence[Round], ours: Sequence[Round]) -> list[str]:
    """The medians of a library, and how many times faster ours is."""
    rate, cpu_us = (
        report.median([getattr(each, name) for each in rounds]) for name in ("records_per_s", "client_cpu_us")
    )
    our_rate, our_cpu_us = (
        report.median([getattr(each, name) for each in ours]) for name in ("records_per_s", "client_cpu_us")
    )
    return [
        f"{what} {size_bytes} B",
        library,
        report.number(rate),
        report.number(report.median([each.mb_per_s for each in rounds])),
        report.number(cpu_us),
        report.number(report.median([each.server_cpu_us for each in rounds])),
        f"{our_rate / rate:.2f}",
        f"{cpu_us / our_cpu_us:.2f}",
    ]


_HEAD: Final = (
    "load",
    "library",
    "records/s",
    "MB/s",
    "client CPU us/record",
    "server CPU us/record",
    "our rate / theirs",
    "their CPU / ours",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_client_library")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="how long each load hands records over")
    parser.add_argument("--batch-size", type=int, default=131_072, help="batch.size of all libraries")
    parser.add_argument("--libraries", nargs="*", default=list(LOADS["produce"]))
    options = parser.parse_args(arguments)
    libraries = list(dict.fromkeys([_OURS, *options.libraries]))
    touch_memory()
    rounds: dict[tuple[str, int, str], list[Round]] = {}
    with Kraft() as peer:
        for _ in range(options.rounds):
            for what, by_library in LOADS.items():
                for size_bytes in _SIZES_BYTES:
                    for library in filter(by_library.__contains__, libraries):
                        measured = run_load(peer, what, library, size_bytes, options)
                        rounds.setdefault((what, size_bytes, library), []).append(measured)
    rows = [
        row(what, library, size_bytes, each, rounds[what, size_bytes, _OURS])
        for (what, size_bytes, library), each in rounds.items()
    ]
    print(report.table(_HEAD, rows))
    saved = {" ".join(map(str, load)): [attrs.asdict(each) for each in of] for load, of in rounds.items()}
    print(f"\n{report.save('client-library', {'batch size': options.batch_size, 'rounds': saved})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
