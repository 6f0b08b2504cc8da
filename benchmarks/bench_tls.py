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
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import attrs

from benchmarks import apache_kafka, client_loads, processes, report, topics
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.figures import Figure, Series
from benchmarks.peers import Kraft, Peer, touch_memory
from broker.security.tls.private_authority import PrivateAuthority

_WARM_UP_ROUNDS = 2
_RECORD_BYTES = 1_000
_AIM = 1.0
_PLAIN = "kraft without TLS"


class TlsKraft(Kraft):
    """This project's node with a listener for TLS beside the one without."""

    def __init__(self, certificates: Path) -> None:
        self.tls_port = processes.free_port()
        super().__init__()
        self._configs = _configs(certificates, self, self.tls_port)


class TlsKafka(ApacheKafka):
    """Apache Kafka with the same listeners."""

    def __init__(self, certificates: Path) -> None:
        super().__init__()
        self.tls_port = processes.free_port()
        self._certificates = certificates

    def properties(self) -> dict[str, str]:
        return {**super().properties(), **_configs(self._certificates, self, self.tls_port)}


TlsPeer: TypeAlias = TlsKraft | TlsKafka


def _configs(certificates: Path, peer: Peer, tls_port: int) -> dict[str, str]:
    ports = {"PLAINTEXT": peer.port, "SSL": tls_port, "CONTROLLER": peer.controller_port}
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
    }


def handshakes(peer: TlsPeer, certificates: Path, seconds: float) -> list[Figure]:
    """One connection after the other, each closed once its handshake is done."""
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    done, cpu, began = 0, peer.cpu_seconds(), time.perf_counter()
    while time.perf_counter() - began < seconds:
        with (
            socket.create_connection(("127.0.0.1", peer.tls_port)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1"),
        ):
            done += 1
    elapsed = time.perf_counter() - began
    return [
        Figure("handshakes", "1/s", done / elapsed, True, _AIM),
        Figure("handshakes: server CPU", "us", (peer.cpu_seconds() - cpu) / done * 1e6, False, _AIM),
    ]


def transfers(peer: TlsPeer, address: str, config: Mapping[str, object], seconds: float) -> list[Figure]:
    """Bulk writes and reads of 1,000 bytes by confluent-kafka, and requests of one record with five in flight."""
    with topics.topic(peer, 1) as topic:
        cpu = peer.cpu_seconds()
        wrote = client_loads.produce(address, topic, _RECORD_BYTES, seconds, **config)
        write_cpu = peer.cpu_seconds() - cpu
        cpu = peer.cpu_seconds()
        read = client_loads.consume(address, topic, 1, wrote.records, _RECORD_BYTES, seconds, **config)
        read_cpu = peer.cpu_seconds() - cpu
        cpu = peer.cpu_seconds()
        small = client_loads.one_record_requests(address, topic, 5, seconds, **config)
        small_cpu = peer.cpu_seconds() - cpu
    return [
        Figure("produce 1,000 B", "MB/s", wrote.mb_per_s, True, _AIM),
        Figure("produce 1,000 B: server CPU", "us/record", write_cpu / wrote.records * 1e6, False, _AIM),
        Figure("consume 1,000 B", "MB/s", read.mb_per_s, True, _AIM),
        Figure("consume 1,000 B: server CPU", "us/record", read_cpu / read.records * 1e6, False, _AIM),
        Figure("one record per request, 5 in flight", "requests/s", small.requests_per_s, True, _AIM),
        Figure(
            "one record per request: server CPU", "us", small_cpu / (small.requests_per_s * seconds) * 1e6, False, _AIM
        ),
    ]


def measure(series: Series, plain: Series, certificates: Path, rounds: int, seconds: float) -> None:
    over_tls = {"security.protocol": "SSL", "ssl.ca.location": str(certificates / "ca.pem")}
    with ExitStack() as stack:
        ours = stack.enter_context(TlsKraft(certificates))
        kafka = stack.enter_context(TlsKafka(certificates))
        for measured in [False] * _WARM_UP_ROUNDS + [True] * rounds:
            for peer in (ours, kafka):
                address = f"127.0.0.1:{peer.tls_port}"
                found = handshakes(peer, certificates, seconds) + transfers(peer, address, over_tls, seconds)
                if measured:
                    series.add(peer.name, found)
                    if peer is ours:
                        plain.add(ours.name, (attrs.evolve(each, aim=None) for each in found))
            without = transfers(ours, ours.bootstrap, {}, seconds)
            if measured:
                plain.add(_PLAIN, (attrs.evolve(each, aim=None) for each in without))


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
    series, plain = Series([Kraft.name, ApacheKafka.name]), Series([Kraft.name, _PLAIN])
    with TemporaryDirectory() as directory:
        certificates = Path(directory)
        authority = PrivateAuthority("benchmark", time.time())
        (certificates / "ca.pem").write_bytes(authority.certificate)
        (certificates / "node.pem").write_bytes(authority.issue("node", ("127.0.0.1",)))
        measure(series, plain, certificates, options.rounds, options.seconds)
    print(report.table(["figure", "unit", Kraft.name, ApacheKafka.name, "ratio", "aim", ""], series.rows()))
    print()
    print(report.table(["figure", "unit", Kraft.name, _PLAIN, "ratio", "aim", ""], plain.rows()))
    print(f"\n{report.save('tls', {'tls': series.as_json(), 'plain': plain.as_json()})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
