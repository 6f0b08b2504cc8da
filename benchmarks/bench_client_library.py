"""This project's client library compared with confluent-kafka, kafka-python and aiokafka, alternating on one node.

python -m benchmarks.bench_client_library [--rounds 3] [--seconds 2] [--batch-size 131072] [--libraries kraft aiokafka]

Each load runs in a process of its own. The most important figure is the client's CPU time per record: the rate also
depends on the node and on other processes.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import attrs

from benchmarks import client_loads, processes, report, topics
from benchmarks.library_loads import LOADS, LoadResult
from benchmarks.library_reads import READS
from benchmarks.loadgen import LoadFailed
from benchmarks.peers import Kraft, Peer, touch_memory

_SIZES_BYTES: Final = (100, 1024)
_PARTITIONS: Final = 6
_TIMEOUT_S: Final = 180
_OURS: Final = "kraft"


@attrs.frozen
class Round:
    """One load of one library. CPU times are in microseconds per record."""

    records_per_s: float
    mb_per_s: float
    client_cpu_us: float
    server_cpu_us: float


@attrs.frozen
class Bench:
    """The settings that all loads share."""

    peer: Peer
    libraries: Sequence[str]
    seconds: float
    batch_size: int
    rounds: dict[tuple[str, int, str], list[Round]] = attrs.field(factory=dict)

    def write(self, size_bytes: int) -> None:
        """Each library writes to a topic of its own."""
        for what, by_library in LOADS.items():
            for library in filter(by_library.__contains__, self.libraries):
                with topics.topic(self.peer, _PARTITIONS) as topic:
                    self._run("benchmarks.library_loads", what, library, topic, size_bytes, 0)

    def read(self, size_bytes: int) -> None:
        """All libraries read the same records."""
        with topics.topic(self.peer, _PARTITIONS) as topic:
            records = client_loads.produce(
                self.peer.bootstrap, topic, client_loads.zeros(size_bytes), self.seconds
            ).records
            for what, by_library in READS.items():
                for library in filter(by_library.__contains__, self.libraries):
                    self._run("benchmarks.library_reads", what, library, topic, size_bytes, records)

    def _run(self, module: str, what: str, library: str, topic: str, size_bytes: int, records: int) -> None:
        """Run one load on the cores that the node does not use. Raises LoadFailed."""
        server_cpu_s = self.peer.cpu_seconds()
        command = [sys.executable, "-m", module, what, library, self.peer.bootstrap, topic]
        command += ["--size", str(size_bytes), "--seconds", str(self.seconds)]
        command += ["--batch-size", str(self.batch_size), "--records", str(records)]
        load = subprocess.Popen(command, stdout=subprocess.PIPE)
        processes.pin(load.pid, processes.cores()[1])
        output, _ = load.communicate(timeout=_TIMEOUT_S)
        if load.returncode:
            raise LoadFailed(f"{library} could not {what}")
        measured = measure(LoadResult(**json.loads(output)), size_bytes, self.peer.cpu_seconds() - server_cpu_s)
        self.rounds.setdefault((what, size_bytes, library), []).append(measured)


def measure(done: LoadResult, size_bytes: int, server_cpu_s: float) -> Round:
    rate = done.records / done.seconds
    return Round(
        rate,
        rate * size_bytes / 1e6,
        done.cpu_seconds / done.records * 1e6,
        server_cpu_s / done.records * 1e6,
    )


def row(what: str, library: str, size_bytes: int, rounds: Sequence[Round], ours: Sequence[Round]) -> list[str]:
    """The medians of a library, and the ratios of our rate to its rate and of its CPU time to ours."""
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
    with Kraft() as peer:
        bench = Bench(peer, libraries, options.seconds, options.batch_size)
        for _ in range(options.rounds):
            for size_bytes in _SIZES_BYTES:
                bench.write(size_bytes)
                bench.read(size_bytes)
    rounds = bench.rounds
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
