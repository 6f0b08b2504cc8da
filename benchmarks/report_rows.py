"""The loads of the benchmark page, by name."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeVar

import attrs

from benchmarks import client_loads, load_parts, raw_loads
from benchmarks.clusters import Cluster
from benchmarks.cold_reads import ColdReads
from benchmarks.figures import Figure
from benchmarks.latency_shares import LatencyShares
from benchmarks.load_parts import FilledTopics, Load, LoadPart, consuming, plain_load, producing
from benchmarks.tls_peers import TlsPeer, tls_listener

_P = TypeVar("_P")
_SIZES_BYTES: Final = (100, 1024)
_PRODUCE_PARTITIONS: Final = (1, 10, 100)
_CONSUME_PARTITIONS: Final = (10,)
_IN_FLIGHT: Final = (1, 5)
_COMPRESSIONS: Final = ("lz4", "zstd")
_LARGE_BYTES: Final = 1024


def chosen(parts: Mapping[str, _P], only: Sequence[str]) -> dict[str, _P]:
    return {name: part for name, part in parts.items() if is_chosen(name, only)}


def is_chosen(name: str, only: Sequence[str]) -> bool:
    """True if the name contains one of the words, or there are no words."""
    return not only or any(words in name for words in only)


def client_parts(
    filled: FilledTopics, produce_to: Sequence[int] = (1,), consume_from: Sequence[int] = (1, 6)
) -> dict[str, LoadPart]:
    """The loads by confluent-kafka that apply to a node and to a cluster. Topics have these numbers of partitions."""
    parts: dict[str, LoadPart] = {"idle": load_parts.idle}
    for size in _SIZES_BYTES:
        for partitions in produce_to:
            parts[f"produce {size} B x {partitions}"] = producing(plain_load(size, partitions))
        for partitions in consume_from:
            parts[f"consume {size} B x {partitions}"] = consuming(plain_load(size, partitions), filled)
    for in_flight in _IN_FLIGHT:
        parts[f"requests {in_flight} in flight"] = load_parts.small_requests(in_flight)
    return parts | {"latency": load_parts.paced}


def node_parts(stack: ExitStack, certificates: Path) -> dict[str, Callable[[TlsPeer, float], list[Figure]]]:
    """The loads of one node. Topics that outlive a round are deleted when the stack is closed."""
    filled = FilledTopics(stack)
    return {
        **client_parts(filled),
        **{f"raw {load.name}": load_parts.raw(load) for load in raw_loads.ALL},
        **_compressed_parts(filled),
        **_tls_parts(filled, certificates),
        "cold files": ColdReads(filled),
        "memory": load_parts.memory,
    }


def cluster_parts(
    stack: ExitStack, reference: Callable[[], Cluster]
) -> dict[str, Callable[[Cluster, float], list[Figure]]]:
    """The loads of three nodes. The latencies are measured at shares of the reference's largest rate."""
    parts = client_parts(FilledTopics(stack), _PRODUCE_PARTITIONS, _CONSUME_PARTITIONS)
    return {**parts, **LatencyShares(reference).parts()}


def _compressed_parts(filled: FilledTopics) -> dict[str, LoadPart]:
    documents = client_loads.documents(_LARGE_BYTES)
    parts = {}
    for kind in _COMPRESSIONS:
        load = Load(f"{_LARGE_BYTES:,} B, {kind}", documents, 1, {"compression.type": kind})
        parts[f"produce {kind}"] = producing(load)
        parts[f"consume {kind}"] = consuming(load, filled)
    return parts


def _tls_parts(filled: FilledTopics, certificates: Path) -> dict[str, Callable[[TlsPeer, float], list[Figure]]]:
    load = plain_load(_LARGE_BYTES, 1)
    load = attrs.evolve(load, name=f"{load.name}, TLS")

    def encrypted(part: LoadPart) -> Callable[[TlsPeer, float], list[Figure]]:
        return lambda peer, seconds: part(tls_listener(peer, certificates), seconds)

    return {"produce TLS": encrypted(producing(load)), "consume TLS": encrypted(consuming(load, filled))}
