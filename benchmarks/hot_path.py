"""Raw loads on the node and on minimal Python servers that only move the same bytes, in alternating rounds.

    python -m benchmarks.hot_path [--rounds 5] [--seconds 2] [--only WORDS] [--peer kraft|kafka]

Server and load each get a core of their own. A ratio is the median over the rounds of subject / reference. The same
ratio by server CPU per request is printed next to it, because other programs on the machine disturb it less. The exit
code is 1 if a ratio is below its floor.
"""

import argparse
import os
import sys
from collections.abc import Sequence

import attrs

from benchmarks import client_loads, processes, raw_loads, references, report, topics
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.peers import Kraft, Peer, touch_memory
from benchmarks.report import median, number

# Floor and goal of each ratio.
AIMS = {
    raw_loads.PRODUCE_SHALLOW: (0.35, 0.55),
    raw_loads.PRODUCE_DEEP: (0.20, 0.33),
    raw_loads.FETCH_SMALL: (0.30, 0.45),
    raw_loads.PRODUCE_BULK: (0.35, 0.50),
    raw_loads.FETCH_BULK: (0.40, 0.60),
}
CLIENT_CPU_FLOOR_US, CLIENT_CPU_GOAL_US = 0.9, 0.6
CLIENT_RECORD_BYTES = 1024
CLIENT_LOAD = f"server CPU, librdkafka {CLIENT_RECORD_BYTES} B produce"

# If both the server and the load were less busy than this, another program took their cores.
BUSY_MIN = 0.85

HEAD = ["load", "unit", "subject", "reference", "ratio", "ratio by CPU", "floor", "goal", "verdict"]


@attrs.frozen
class Row:
    cells: list[str]
    passed: bool
    data: dict[str, object]
    disturbed_rounds: int = 0


def _verdict(passed: bool, reached: bool) -> str:
    return "goal" if reached else "pass" if passed else "FAIL"


def raw_row(load: raw_loads.RawLoad, peer: Peer, rounds: int, seconds: float, server_cores: set[int]) -> Row:
    """Alternate between reference and subject. The subject gets a new topic in every round."""
    warm_up_s = min(0.5, seconds / 4)
    with raw_loads.ready(load, peer) as like:
        like.run(seconds / 2, warm_up_s)
    ours, theirs = [], []
    with references.running(load.reference, like.request_size, like.reply_size) as (port, pid):
        processes.pin(pid, server_cores)
        for _ in range(rounds):
            theirs.append(raw_loads.run_reference(like, port, pid, seconds, warm_up_s))
            with raw_loads.ready(load, peer) as ready:
                ours.append(ready.run(seconds, warm_up_s))
    ratio = median([load.figure(a) / load.figure(b) for a, b in zip(ours, theirs, strict=True)])
    cpu_ratio = median([b.server_cpu_us / a.server_cpu_us for a, b in zip(ours, theirs, strict=True)])
    floor, goal = AIMS[load]
    cells = [load.name, load.unit, number(median([load.figure(r) for r in ours]))]
    cells += [number(median([load.figure(r) for r in theirs])), f"{ratio:.2f}", f"{cpu_ratio:.2f}"]
    cells += [f"{floor:.2f}", f"{goal:.2f}", _verdict(ratio >= floor, ratio >= goal)]
    rounds_data = {"subject": [attrs.asdict(r) for r in ours], "reference": [attrs.asdict(r) for r in theirs]}
    data = {"load": load.name, "ratio": ratio, "cpu_ratio": cpu_ratio, **rounds_data}
    return Row(cells, ratio >= floor, data, sum(max(r.server_busy, r.client_busy) < BUSY_MIN for r in ours + theirs))


def client_row(peer: Peer, rounds: int, seconds: float) -> Row:
    """The node's CPU time per record with batches from librdkafka."""
    used_us = []
    for _ in range(rounds):
        with topics.topic(peer, 1) as topic:
            before = peer.cpu_seconds()
            wrote = client_loads.produce(peer.bootstrap, topic, client_loads.zeros(CLIENT_RECORD_BYTES), seconds)
            used_us.append((peer.cpu_seconds() - before) / wrote.records * 1e6)
    used = median(used_us)
    passed, reached = used <= CLIENT_CPU_FLOOR_US, used <= CLIENT_CPU_GOAL_US
    aims = [f"{CLIENT_CPU_FLOOR_US:.1f}", f"{CLIENT_CPU_GOAL_US:.1f}", _verdict(passed, reached)]
    return Row(
        [CLIENT_LOAD, "us/record", number(used), "", "", "", *aims], passed, {"load": CLIENT_LOAD, "us": used_us}
    )


def measure(peer: Peer, rounds: int, seconds: float, only: str) -> list[Row]:
    server_cores, load_cores = processes.cores()
    peer.pin(server_cores)
    os.sched_setaffinity(0, load_cores)
    rows = [raw_row(load, peer, rounds, seconds, server_cores) for load in raw_loads.ALL if only in load.name]
    if only in CLIENT_LOAD:
        rows.append(client_row(peer, rounds, seconds))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hot_path")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="length of a measured round")
    parser.add_argument("--only", default="", help="only the loads whose name contains this")
    parser.add_argument("--peer", choices=["kraft", "kafka"], default="kraft")
    options = parser.parse_args(arguments)
    touch_memory()
    with (ApacheKafka if options.peer == "kafka" else Kraft)() as peer:
        rows = measure(peer, options.rounds, options.seconds, options.only)
    print(report.table(HEAD, [row.cells for row in rows]))
    if disturbed := sum(row.disturbed_rounds for row in rows):
        print(f"\n{disturbed} rounds were disturbed: neither server nor load kept its core; trust the ratio by CPU.")
    print(f"\n{report.save('hot_path', {'peer': peer.name, 'rows': [row.data for row in rows]})}")
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
