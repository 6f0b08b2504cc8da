"""Quotas of clients and connections, on this node and on Apache Kafka under the same loads.

    python -m benchmarks.bench_quotas [--seconds 66] [--only rates|connections|cost] [--cluster kraft|kafka|both]
                                      [--windows 11] [--rounds 8]

- rates: a producer and a consumer of confluent-kafka limited to 5 MB/s each, and one that ignores throttle times,
  beside a producer without a quota that sends 20 MB/s; that one also alone.
- connections: 2,000 connections per second from one address that may make 20, while another sends small requests.
- cost: CPU time per request with quotas set and not reached (of bytes; of bytes and request time), with metrics
  (`http.listener`), and twice without all of these, in alternating rounds. Only on this node.

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
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import attrs

from benchmarks import apache_kafka, raw_loads, report, topics
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.peers import Kraft, Peer
from broker.client.blocking import SyncAdmin

QUOTA = 5e6
FREE_RATE = 20e6
CONNECTIONS_PER_S, CONNECTIONS_ALLOWED = 2_000, 20
ASKED_PER_S = 200
# Quotas that no load reaches.
UNREACHED = 1e12
# The cost is measured in rounds after each start of the nodes, which learn a load's requests again in each round.
STARTS, ROUNDS = 5, 8
WARM_UP_S = 0.1

WINDOWS = 11

Figures = Mapping[str, float]


class ConfiguredKraft(Kraft):
    def __init__(self, configs: Mapping[str, str]) -> None:
        super().__init__()
        self._configs = dict(configs)

    def command(self) -> list[str]:
        overrides = (("--override", f"{key}={value}") for key, value in self._configs.items())
        return [*super().command(), *(word for pair in overrides for word in pair)]


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


def set_quotas(peer: Peer, entity: Mapping[str, str | None], **values: float | None) -> None:
    with SyncAdmin(peer.bootstrap) as admin:
        admin.alter_client_quotas(entity, values)


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


@attrs.frozen
class Variant:
    """A node with these quotas of a user set on it."""

    node: ConfiguredKraft
    quotas: Mapping[str, float | None]


BYTE_QUOTAS: Mapping[str, float | None] = {"producer_byte_rate": UNREACHED, "consumer_byte_rate": UNREACHED}
NO_QUOTAS: Mapping[str, float | None] = {
    "producer_byte_rate": None,
    "consumer_byte_rate": None,
    "request_percentage": None,
}


def cost(seconds: float, rounds: int) -> dict[str, Figures]:
    """The medians of the ratios of rounds: CPU time per request without quotas and metrics, divided by that with.

    Processes that run the same code differ by some percent, for as long as they run. So quotas are set and removed on
    one node, and the nodes are started again several times. The ratio with nothing, of rounds that do not differ, shows
    how much of the others is chance.
    """
    cpu_us: dict[str, dict[str, list[float]]] = {}
    for _ in range(STARTS):
        with ConfiguredKraft({}) as plain, ConfiguredKraft({"http.listener": "127.0.0.1:0"}) as with_metrics:
            variants = {
                "": Variant(plain, NO_QUOTAS),
                "nothing": Variant(plain, NO_QUOTAS),
                "quotas": Variant(plain, {**NO_QUOTAS, **BYTE_QUOTAS}),
                "request_quotas": Variant(plain, {**BYTE_QUOTAS, "request_percentage": UNREACHED}),
                "metrics": Variant(with_metrics, NO_QUOTAS),
            }
            for load in raw_loads.ALL:
                measure(load, variants, seconds, rounds, cpu_us.setdefault(load.name, {name: [] for name in variants}))
    found: dict[str, Figures] = {}
    for load_name, times in cpu_us.items():
        figures = found[load_name] = {"us": statistics.median(times[""])}
        for name in list(times)[1:]:
            figures[f"us_with_{name}"] = statistics.median(times[name])
            ratios = [before / after for before, after in zip(times[""], times[name], strict=True)]
            figures[f"ratio_with_{name}"] = statistics.median(ratios)
    return found


def measure(
    load: raw_loads.RawLoad,
    variants: Mapping[str, Variant],
    seconds: float,
    rounds: int,
    cpu_us: dict[str, list[float]],
) -> None:
    """Add the server's CPU time per request in rounds, each in an order of its own."""
    nodes = list(dict.fromkeys(variant.node for variant in variants.values()))
    with ExitStack() as stack:
        ready = {node: stack.enter_context(raw_loads.ready(load, node)) for node in nodes}
        order = list(variants.items())
        for _ in range(rounds):
            random.shuffle(order)
            for name, variant in order:
                set_quotas(variant.node, {"user": None}, **variant.quotas)
                cpu_us[name].append(ready[variant.node].run(seconds, WARM_UP_S).server_cpu_us)


def show(title: str, figures: Mapping[str, Figures]) -> None:
    heads = list(dict.fromkeys(name for each in figures.values() for name in each))
    rows = [
        [name, *(_cell(head, each[head]) if head in each else "" for head in heads)] for name, each in figures.items()
    ]
    print(f"\n{title}\n\n{report.table(['', *heads], rows)}", flush=True)


def _cell(head: str, figure: float) -> str:
    return f"{figure:.3f}" if head.startswith("ratio") else report.number(figure)


def peers(cluster: str) -> list[type[ConfiguredKraft | ConfiguredApacheKafka]]:
    kinds: list[type[ConfiguredKraft | ConfiguredApacheKafka]] = [ConfiguredKraft] if cluster != "kafka" else []
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
    parser.add_argument("--only", choices=("rates", "connections", "cost"))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of the cost after each of {STARTS} starts")
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
        figures = cost(0.3, options.rounds)
        all_figures["cost"] = figures
        show("cost: quotas set and not reached, and metrics", figures)
    print(f"\n{report.save('quotas', all_figures)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
