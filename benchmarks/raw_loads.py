"""The raw, pre-encoded loads: each with the topic it needs and the reference server that it is compared with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs

from benchmarks import loadgen, protocol, topics
from benchmarks.loadgen import Result
from benchmarks.peers import Peer

# Eight connections with one request each: some request is always in flight, so the server never waits for the load.
CONNECTIONS = 8
# The requests that a client has in flight on a connection by default (max.in.flight.requests.per.connection).
DEEP = 5
# Few connections with two large requests each keep both sides busy, and the bytes stay in the CPU's caches.
BULK_CONNECTIONS, BULK_DEPTH = 4, 2
PARTITIONS = 6

_SMALL = protocol.batch(1, 100)
_ONE_KIB = protocol.batch(1, 1024)
# The whole batch is just below 1 MiB, which message.max.bytes (1048588) allows.
_ONE_MIB = protocol.batch(1000, 1024)

_FETCH_SMALL_BATCHES = 512
_FETCH_BULK_BATCHES = 64
# A bulk round ends after this many bytes, before the kernel begins to write dirty pages back during the round.
_BULK_BYTES_MAX = 1_500_000_000
_UNBOUNDED = 0


@attrs.frozen
class RawLoad:
    """One load: its requests, how they are sent, and the figure that is measured."""

    name: str
    unit: str
    figure: Callable[[Result], float]
    reference: str
    connections: int
    depth: int
    partitions: int
    requests: Callable[[str], list[bytes]]
    error_offset: Callable[[str], int]
    fill: tuple[bytes, int] | None = None
    bytes_max: int = _UNBOUNDED


def _produce_to_all(batch: bytes) -> Callable[[str], list[bytes]]:
    return lambda topic: [protocol.produce(topic, partition, batch) for partition in range(PARTITIONS)]


def _fetch_each(batch: bytes, count: int) -> Callable[[str], list[bytes]]:
    """One request for each stored batch, with its exact size, in an order that readahead cannot predict."""
    records = int.from_bytes(batch[57:61], "big")
    order = [i * 37 % count for i in range(count)]
    return lambda topic: [protocol.fetch(topic, 0, i * records, max_bytes=len(batch)) for i in order]


def _requests_per_s(result: Result) -> float:
    return result.requests_per_s


def _sent(result: Result) -> float:
    return result.sent_mb_per_s


def _received(result: Result) -> float:
    return result.received_mb_per_s


PRODUCE_SHALLOW = RawLoad(
    "Produce 100 B, 8 connections x 1 in flight",
    "requests/s",
    _requests_per_s,
    "echo",
    CONNECTIONS,
    1,
    PARTITIONS,
    _produce_to_all(_SMALL),
    protocol.produce_error_offset,
)
PRODUCE_DEEP = attrs.evolve(PRODUCE_SHALLOW, name="Produce 100 B, 8 connections x 5 in flight", depth=DEEP)
FETCH_SMALL = RawLoad(
    "Fetch 1 KiB, 8 connections x 1 in flight",
    "requests/s",
    _requests_per_s,
    "echo",
    CONNECTIONS,
    1,
    1,
    _fetch_each(_ONE_KIB, _FETCH_SMALL_BATCHES),
    protocol.fetch_error_offset,
    (_ONE_KIB, _FETCH_SMALL_BATCHES),
)
PRODUCE_BULK = RawLoad(
    "Produce 1 MiB batches, 4 x 2",
    "MB/s",
    _sent,
    "sink",
    BULK_CONNECTIONS,
    BULK_DEPTH,
    PARTITIONS,
    _produce_to_all(_ONE_MIB),
    protocol.produce_error_offset,
    bytes_max=_BULK_BYTES_MAX,
)
FETCH_BULK = RawLoad(
    "Fetch 1 MiB, 4 x 2",
    "MB/s",
    _received,
    "source",
    BULK_CONNECTIONS,
    BULK_DEPTH,
    1,
    _fetch_each(_ONE_MIB, _FETCH_BULK_BATCHES),
    protocol.fetch_error_offset,
    (_ONE_MIB, _FETCH_BULK_BATCHES),
)
ALL = [PRODUCE_SHALLOW, PRODUCE_DEEP, FETCH_SMALL, PRODUCE_BULK, FETCH_BULK]


@attrs.frozen
class PreparedLoad:
    """A load whose topic exists and whose first request has been served; `run` measures one round."""

    load: RawLoad
    peer: Peer
    requests: list[bytes]
    reply_size: int
    error_offset: int

    @property
    def request_size(self) -> int:
        return len(self.requests[0])

    def run(self, seconds: float, warm_up_s: float) -> Result:
        result = loadgen.run(
            self.peer.port,
            protocol.join(self.requests),
            connections=self.load.connections,
            depth=self.load.depth,
            seconds=seconds,
            warm_up_s=warm_up_s,
            bytes_max=self.load.bytes_max,
            server_pid=self.peer.pid,
            error_offset=self.error_offset,
        )
        if result.reply_size_min + 4 < self.reply_size:
            raise loadgen.LoadFailed(f"{self.peer.name} sent less than it was asked for")
        return result


@contextmanager
def ready(load: RawLoad, peer: Peer) -> Iterator[PreparedLoad]:
    """Create the topic of a load on a peer, and check that the peer serves every request of the load."""
    with topics.topic(peer, load.partitions) as topic:
        if load.fill:
            topics.fill(peer, topic, *load.fill)
        requests, error_offset = load.requests(topic), load.error_offset(topic)
        sizes = {len(topics.ask_until_served(peer, request, error_offset)) for request in requests}
        yield PreparedLoad(load, peer, requests, min(sizes), error_offset)


def run_reference(like: PreparedLoad, port: int, pid: int, seconds: float, warm_up_s: float) -> Result:
    """Send the same requests to a reference server, whose responses have the size of the subject's."""
    return loadgen.run(
        port,
        protocol.join(like.requests),
        connections=like.load.connections,
        depth=like.load.depth,
        seconds=seconds,
        warm_up_s=warm_up_s,
        bytes_max=like.load.bytes_max,
        server_pid=pid,
    )
