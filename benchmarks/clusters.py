"""Three nodes on one machine, each controller and broker: ours and Apache Kafka's, with the same properties."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from benchmarks import apache_kafka
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.peers import COMMON_OVERRIDES, Kraft, Peer, PeerFailed

NODES: Final = 3


class _NodePlace:
    """The position of a node in its cluster, and the addresses of all nodes."""

    def __init__(self, node_id: int, overrides: Mapping[str, str]) -> None:
        self.node_id = node_id
        self.voters = ""
        self._overrides = overrides

    def properties(self, node: Peer) -> dict[str, str]:
        return {
            "node.id": str(self.node_id),
            "process.roles": "broker,controller",
            "controller.quorum.voters": self.voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(node.data),
            **COMMON_OVERRIDES,
            **self._overrides,
        }


class KraftMember(Kraft):
    def __init__(self, place: _NodePlace) -> None:
        super().__init__()
        self.place = place

    @property
    def properties_path(self) -> str:
        return str(self.directory / "server.properties")

    def prepare(self) -> None:
        lines = [f"{key}={value}\n" for key, value in self.place.properties(self).items()]
        Path(self.properties_path).write_text("".join(lines))
        subprocess.run(
            [*self._kraft, "format", "-t", apache_kafka.CLUSTER_ID, "-c", self.properties_path],
            check=True,
            capture_output=True,
        )

    def command(self) -> list[str]:
        return [*self._kraft, "start", self.properties_path]

    @property
    def _kraft(self) -> list[str]:
        return [str(Path(sys.executable).parent / "kraft")]


class ApacheKafkaMember(ApacheKafka):
    def __init__(self, place: _NodePlace, jvm_options: Sequence[str]) -> None:
        super().__init__()
        self.place = place
        self.jvm_options = jvm_options

    def properties(self) -> dict[str, str]:
        return self.place.properties(self)


class Cluster:
    """Nodes of one cluster with new data directories. A context manager; the cluster serves on entry."""

    replication_factor = NODES
    client_configs: Mapping[str, object] = MappingProxyType({})

    def __init__(self, name: str, members: Sequence[KraftMember | ApacheKafkaMember]) -> None:
        self.name = name
        self.members = members
        voters = ",".join(f"{each.place.node_id}@127.0.0.1:{each.controller_port}" for each in members)
        for each in members:
            each.place.voters = voters

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.members)

    def cpu_seconds(self) -> float:
        return sum(each.cpu_seconds() for each in self.members)

    def by_id(self, node_id: int) -> KraftMember | ApacheKafkaMember:
        return next(each for each in self.members if each.place.node_id == node_id)

    def __enter__(self) -> Self:
        try:
            for each in self.members:
                each.launch()
            for each in self.members:
                each.wait_serving(len(self.members))
        except PeerFailed:
            self._remove()
            raise
        return self

    def __exit__(self, _t: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None) -> None:
        self._remove()

    def _remove(self) -> None:
        for each in self.members:
            each.remove()


def kraft_cluster(
    overrides: Mapping[str, str] | None = None, nodes: int = NODES, kind: type[KraftMember] = KraftMember
) -> Cluster:
    places = [_NodePlace(node_id, overrides or {}) for node_id in range(1, nodes + 1)]
    return Cluster(f"{nodes} x {Kraft.name}", [kind(place) for place in places])


def apache_kafka_cluster(
    overrides: Mapping[str, str] | None = None, jvm_options: Sequence[str] = ApacheKafka.jvm_options
) -> Cluster:
    places = [_NodePlace(node_id, overrides or {}) for node_id in range(1, NODES + 1)]
    return Cluster(f"{NODES} x {ApacheKafka.name}", [ApacheKafkaMember(place, jvm_options) for place in places])
