"""Nodes with a listener for TLS beside the one without: this project's and Apache Kafka's, with one certificate."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import attrs

from benchmarks import processes
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.peers import Kraft, Peer
from broker.security.tls.private_authority import PrivateAuthority


class TlsKraft(Kraft):
    """This project's node."""

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


@contextmanager
def new_certificates() -> Iterator[Path]:
    """A directory with the certificate of a new authority (ca.pem), and of a node on 127.0.0.1 with its key
    (node.pem).
    """
    with TemporaryDirectory() as directory:
        certificates = Path(directory)
        authority = PrivateAuthority("benchmark", time.time())
        (certificates / "ca.pem").write_bytes(authority.certificate)
        (certificates / "node.pem").write_bytes(authority.issue("node", ("127.0.0.1",)))
        yield certificates


@attrs.define
class Listener:
    """One listener of a node as the target of a load."""

    name: str
    node: TlsPeer
    port: int
    client_configs: Mapping[str, object]
    replication_factor: int = 1

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        return self.node.cpu_seconds()


def tls_listener(node: TlsPeer, certificates: Path) -> Listener:
    """The listener for TLS. Clients trust the authority of the certificates."""
    configs = {"security.protocol": "SSL", "ssl.ca.location": str(certificates / "ca.pem")}
    return Listener(node.name, node, node.tls_port, configs)
