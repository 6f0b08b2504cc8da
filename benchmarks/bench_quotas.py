"""Quotas of clients and connections, on this node and on Apache Kafka under the same loads.

    python -m benchmarks.bench_quotas [--seconds 66] [--only rates|connections|cost|instructions]
                                      [--cluster kraft|kafka|both] [--windows 11] [--rounds 8]

- rates: a producer and a consumer of confluent-kafka limited to 5 MB/s each, and one that ignores throttle times,
  beside a producer without a quota that sends 20 MB/s; that one also alone.
- connections: 2,000 connections per second from one address that may make 20, while another sends small requests.
- cost: CPU time per request with quotas set and not reached (of bytes; of bytes and request time), with metrics
  (`http.listener`), with an authorizer and 1,000 access control entries, and twice without all of these, in
  alternating rounds. Only on this node.
- instructions: machine instructions per request in the same cases, on a node under valgrind, which is a Debian package;
  skipped without it. The count without all of these differs by up to 2 % from itself.

A client that was idle may use at once what its quota allows in all windows but one. It may do that again when these
are forgotten: with the default of 11 windows of a second, a client that sends as fast as it can gets some 50 MB every
11 s, here and in Apache Kafka. 66 s have six of these bursts. Any 60 s have five or six, and differ by 10 % from the
quota for that reason alone; `--windows 3` makes bursts short.

The consumer has confluent-kafka's defaults. With a smaller `fetch.message.max.bytes` it gets up to a third less than
its quota: a throttled Fetch returns nothing and is not counted, so that the time until the next one stays unused.

Apache Kafka comes from Maven Central; without java or mvn only this node is measured, and that is said.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks import apache_kafka, counted_node, quota_costs, report, topics
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.peers import Kraft, Peer
from benchmarks.quota_costs import set_quotas

QUOTA = 5e6
FREE_RATE = 20e6
CONNECTIONS_PER_S, CONNECTIONS_ALLOWED = 2_000, 20
ASKED_PER_S = 200
WINDOWS = 11

Figures = Mapping[str, float]


class ConfiguredApacheKafka(ApacheKafka):
    def __init__(self, configs: Mapping[str, str]) -> None:
        super().__init__()
        self._configs = dict(configs)

    def properties(self) -> dict[str, str]:
        return {**super().properties(), **self._configs}


@contextmanager
def client(kind: str, peer: Peer, name: str, seconds: float, topic: str, rate: float = 0) -> Iterator[list[Figures]]:
    """Run a client in a process beside the block; its figures are in the list after the block."""
    arguments = [kind, peer.bootstrap, name, str(seconds), topic, str(rate)]
    figures: list[Figures] = []
    command = [sys.executable, "-m", "benchmarks.quota_clients", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield figures
        output, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"the client {name} failed")
        figures.append(json.loads(output))


def rates(peer: Peer, seconds: float) -> dict[str, Figures]:
    limited = {"producer_byte_rate": QUOTA, "consumer_byte_rate": QUOTA}
    for name in ("limited-p", "limited-c", "limited-i"):
        set_quotas(peer, {"client-id": name}, **limited)
    with ExitStack() as stack:
        names = [stack.enter_context(topics.topic(peer, 1)) for _ in range(3)]
        with client("produce", peer, "free", seconds, names[0], FREE_RATE) as alone:
            pass
        with ExitStack() as running:
            found = {
                "free beside limited ones": running.enter_context(
                    client("produce", peer, "free", seconds, names[0], FREE_RATE)
                ),
                "limited producer": running.enter_context(client("produce", peer, "limited-p", seconds, names[1])),
                "limited consumer": running.enter_context(client("consume", peer, "limited-c", seconds, names[0])),
                "limited, ignores throttle times": running.enter_context(
                    client("ignore", peer, "limited-i", seconds, names[2])
                ),
            }
    return {"free alone": alone[0], **{name: figures[0] for name, figures in found.items()}}


def connections(peer: Peer, seconds: float) -> dict[str, Figures]:
    with topics.topic(peer, 1) as topic:
        with client("ask", peer, "asker", seconds, topic, ASKED_PER_S) as alone:
            pass
        set_quotas(peer, {"ip": "127.0.0.1"}, connection_creation_rate=CONNECTIONS_ALLOWED)
        with (
            client("connect", peer, "flood", seconds + 2, topic, CONNECTIONS_PER_S) as flood,
            client("ask", peer, "asker", seconds, topic, ASKED_PER_S) as beside,
        ):
            pass
        subprocess.run(["sleep", "2"], check=True)  # the address may connect again, to delete the topic
    return {"asked alone": alone[0], "asked beside 2,000 connections/s": beside[0], "connecting": flood[0]}


def show(title: str, figures: Mapping[str, Figures]) -> None:
    heads = list(dict.fromkeys(name for each in figures.values() for name in each))
    rows = [
        [name, *(_cell(head, each[head]) if head in each else "" for head in heads)] for name, each in figures.items()
    ]
    print(f"\n{title}\n\n{report.table(['', *heads], rows)}", flush=True)


def _cell(head: str, figure: float) -> str:
    return f"{figure:.3f}" if head.startswith("ratio") else report.number(figure)


def peers(cluster: str) -> list[type[Kraft | ConfiguredApacheKafka]]:
    kinds: list[type[Kraft | ConfiguredApacheKafka]] = [Kraft] if cluster != "kafka" else []
    if cluster != "kraft":
        try:
            apache_kafka.jars()
            kinds.append(ConfiguredApacheKafka)
        except apache_kafka.Unavailable as why:
            print(f"Apache Kafka is skipped: {why}")
    return kinds


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_quotas")
    parser.add_argument("--seconds", type=float, default=66, help="length of the loads; the cost has short rounds")
    parser.add_argument("--windows", type=int, default=WINDOWS, help="quota.window.num of the nodes")
    parser.add_argument("--only", choices=("rates", "connections", "cost", "instructions"))
    parser.add_argument("--rounds", type=int, default=quota_costs.ROUNDS, help="rounds of the cost after each start")
    parser.add_argument("--cluster", choices=("kraft", "kafka", "both"), default="both")
    options = parser.parse_args(arguments)
    all_figures: dict[str, object] = {}
    for part, run in (("rates", rates), ("connections", connections)):
        for kind in peers(options.cluster) if options.only in (None, part) else ():
            with kind({"quota.window.num": str(options.windows)}) as peer:
                figures = run(peer, options.seconds)
            all_figures[f"{part} {peer.name}"] = figures
            show(f"{part}: {peer.name}", figures)
    if options.only in (None, "cost"):
        figures = quota_costs.cpu_times(options.rounds)
        all_figures["cost"] = figures
        show("CPU time: quotas set and not reached, metrics, and access control entries", figures)
    if options.only in (None, "instructions"):
        try:
            figures = quota_costs.instructions()
        except counted_node.Unavailable as why:
            print(f"The count of instructions is skipped: {why}")
        else:
            all_figures["instructions"] = figures
            show("instructions: quotas set and not reached, metrics, and access control entries", figures)
    print(f"\n{report.save('quotas', all_figures)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
