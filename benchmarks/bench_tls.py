"""TLS: this project's node and Apache Kafka in alternating rounds, and this project's node with TLS and without.

    python -m benchmarks.bench_tls [--rounds 3] [--seconds 3]

Both nodes have the same certificate, and a client of the same OpenSSL. Handshakes are whole ones of TLS 1.3, without
tickets of earlier sessions. Apache Kafka comes from Maven Central; without java or mvn the comparison is skipped with a
message, and the exit code is 0. A ratio tells how many times better this project's node is.
"""

import argparse
import socket
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import attrs

from benchmarks import apache_kafka, report
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.figures import Figure, Series
from benchmarks.load_parts import FilledTopics, consuming, cpu_use, plain_load, producing, small_requests
from benchmarks.peers import Kraft, touch_memory
from benchmarks.rounds import alternate, exit_code
from benchmarks.tls_peers import Listener, TlsKafka, TlsKraft, new_certificates, tls_listener

_RECORD_BYTES = 1_000
_AIM = 1.0
_PLAIN = "kraft without TLS"


def handshakes(certificates: Path) -> Callable[[Listener, float], list[Figure]]:
    """One connection after the other, each closed once its handshake is done."""
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))

    def part(listener: Listener, seconds: float) -> list[Figure]:
        done, began = 0, time.perf_counter()
        with cpu_use(listener) as used:
            while time.perf_counter() - began < seconds:
                with (
                    socket.create_connection(("127.0.0.1", listener.port)) as plain,
                    context.wrap_socket(plain, server_hostname="127.0.0.1"),
                ):
                    done += 1
            elapsed = time.perf_counter() - began
        return [
            Figure("handshakes", "1/s", done / elapsed, True, _AIM),
            *used.figures("handshakes", done, "handshake"),
        ]

    return part


def measure(certificates: Path, series: Series, rounds: int, seconds: float) -> None:
    """Measure both nodes with TLS, and this project's also without."""
    load = plain_load(_RECORD_BYTES, 1)
    with ExitStack() as stack:
        ours = stack.enter_context(TlsKraft(certificates))
        kafka = stack.enter_context(TlsKafka(certificates))
        encrypted = [tls_listener(node, certificates) for node in (ours, kafka)]
        plain = Listener(_PLAIN, ours, ours.port, {})
        alternate(encrypted, {"handshakes": handshakes(certificates)}, series, rounds, seconds)
        transfers = {
            "produce": producing(load),
            "consume": consuming(load, FilledTopics(stack)),
            "requests": small_requests(5),
        }
        alternate([*encrypted, plain], transfers, series, rounds, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_tls")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="length of a measured round of each load")
    options = parser.parse_args(arguments)
    try:
        apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        print(f"skipped: {why}")
        return 0
    touch_memory()
    series = Series([Kraft.name, ApacheKafka.name, _PLAIN])
    with new_certificates() as certificates:
        measure(certificates, series, options.rounds, options.seconds)
    without = Series([Kraft.name, _PLAIN], [attrs.evolve(each, aim=None) for each in series.measured])
    for shown in (Series([Kraft.name, ApacheKafka.name], series.measured), without):
        print(shown.table(), end="\n\n")
    print(report.save("tls", {"figures": series.as_json()}))
    return exit_code([series])


if __name__ == "__main__":
    sys.exit(main())
