"""A correct client in a process of its own, which must not be affected by the hostile connections.

Every few milliseconds it writes a numbered record with acks=all, reads it back and asks for metadata; a second
connection sends the cheapest request there is, whose round trip is an upper bound of how long the loop was held. On
the listener that asks for SASL, it authenticates over new connections, and asks for metadata over one that stays open;
it also makes connections with TLS. Its measurements go to standard output, as JSON, when standard input ends.
"""

import argparse
import json
import secrets
import ssl
import sys
import time
from typing import Any, Final

import attrs
import trio

from broker.client import ConnectionLost
from broker.security.sasl.exchange import SaslFailure
from broker.security.sasl.scram import ScramClient
from broker.wire.api.api_versions import ApiVersionsRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.api.sasl_authenticate import SaslAuthenticateRequest
from broker.wire.api.sasl_handshake import SaslHandshakeRequest
from broker.wire.records import Record, encode_batch
from jepsen.hostile.target import HEALTHY_PASSWORD, HEALTHY_USER
from jepsen.workloads.connection import Connection
from metadata.protocol import ScramMechanism

TOPIC: Final = "healthy"
PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
METADATA_VERSION: Final = 12
_PAUSE_S: Final = 0.01
_PING_PAUSE_S: Final = 0.005
_LOGIN_PAUSE_S: Final = 0.1
# A node that takes longer has failed its healthy client.
TIMEOUT_S: Final = 60.0


@attrs.define
class Measured:
    """Round trips in milliseconds. `error` is what the client failed with."""

    round_trips_ms: list[float] = attrs.field(factory=list)
    pings_ms: list[float] = attrs.field(factory=list)
    logins_ms: list[float] = attrs.field(factory=list)
    authenticated_ms: list[float] = attrs.field(factory=list)
    handshakes_ms: list[float] = attrs.field(factory=list)
    longest_pings: list[tuple[float, float]] = attrs.field(factory=list)
    error: str = ""


async def write(connection: Connection, number: int) -> int:
    """Write a numbered record with acks=all; its offset."""
    batch = encode_batch([Record(value=b"%d" % number, timestamp=1_700_000_000_000 + number)])
    data = PartitionProduceData(index=0, records=memoryview(batch))
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )
    response = await connection.call(request, PRODUCE_VERSION, TIMEOUT_S)
    answered = response.responses[0].partition_responses[0]
    assert answered.error_code == 0, f"a healthy record was refused: error {answered.error_code}"
    return int(answered.base_offset)


async def fetch(connection: Connection, offset: int, max_bytes: int) -> bytes:
    """Batches from an offset on."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topic = FetchTopic(topic=TOPIC, partitions=[partition])
    request = FetchRequest(max_wait_ms=10_000, min_bytes=1, max_bytes=max_bytes, topics=[topic])
    response = await connection.call(request, FETCH_VERSION, TIMEOUT_S)
    (answered,) = response.responses[0].partitions
    assert answered.error_code == 0, f"a healthy fetch was refused: error {answered.error_code}"
    return bytes(answered.records or b"")


async def _write_and_read(connection: Connection, number: int) -> None:
    offset = await write(connection, number)
    assert offset == number, f"record {number} is at offset {offset}"
    records = await fetch(connection, offset, 4_096)
    assert records.endswith(b"%d\0" % number), f"record {number} does not come back"
    await ask_for_metadata(connection)


async def ask_for_metadata(connection: Connection) -> None:
    topics = [MetadataRequestTopic(name=TOPIC)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    metadata = await connection.call(request, METADATA_VERSION, TIMEOUT_S)
    assert metadata.topics[0].partitions[0].leader_id == 1, "the healthy partition has lost its leader"


async def log_in(connection: Connection) -> None:
    """Authenticate by SCRAM."""
    exchange = ScramClient(ScramMechanism.SCRAM_SHA_256, HEALTHY_USER, HEALTHY_PASSWORD, secrets.token_hex(12))
    response = await connection.call(SaslHandshakeRequest(mechanism=exchange.mechanism), 1, TIMEOUT_S)
    assert response.error_code == 0, f"the healthy client's handshake was refused: error {response.error_code}"
    message: bytes | None = exchange.first()
    while message is not None:
        answer = await connection.call(SaslAuthenticateRequest(auth_bytes=message), 2, TIMEOUT_S)
        assert answer.error_code == 0, f"the healthy client was not authenticated: {answer.error_message}"
        message = exchange.answer(bytes(answer.auth_bytes))


async def _live(port: int, first: int, measured: Measured, stopping: trio.Event, stopped: trio.Event) -> None:
    connection = await Connection.open(("127.0.0.1", port), 0)
    while not stopping.is_set():
        began = time.monotonic()
        await _write_and_read(connection, first + len(measured.round_trips_ms))
        measured.round_trips_ms.append(1_000 * (time.monotonic() - began))
        await trio.sleep(_PAUSE_S)
    stopped.set()


async def _ping(port: int, measured: Measured) -> None:
    connection = await Connection.open(("127.0.0.1", port), 0)
    request = ApiVersionsRequest(client_software_name="healthy", client_software_version="1")
    while True:
        began = time.monotonic()
        await connection.call(request, 3, TIMEOUT_S)
        took_ms = 1_000 * (time.monotonic() - began)
        measured.pings_ms.append(took_ms)
        measured.longest_pings = sorted([*measured.longest_pings, (took_ms, began)], reverse=True)[:10]
        await trio.sleep(_PING_PAUSE_S)


async def _authenticate(port: int, measured: Measured) -> None:
    steady = await Connection.open(("127.0.0.1", port), 0)
    await log_in(steady)
    while True:
        began = time.monotonic()
        connection = await Connection.open(("127.0.0.1", port), 0)
        await log_in(connection)
        authenticated = time.monotonic()
        measured.logins_ms.append(1_000 * (authenticated - began))
        await ask_for_metadata(connection)
        await connection.aclose()
        began = time.monotonic()
        await ask_for_metadata(steady)
        measured.authenticated_ms.append(1_000 * (time.monotonic() - began))
        await trio.sleep(_LOGIN_PAUSE_S)


async def _connect_by_tls(port: int, context: ssl.SSLContext, measured: Measured) -> None:
    while True:
        began = time.monotonic()
        with trio.fail_after(TIMEOUT_S):
            transport = await trio.open_tcp_stream("127.0.0.1", port)
            stream = trio.SSLStream(transport, context, server_hostname="127.0.0.1", https_compatible=True)
            await stream.do_handshake()
        measured.handshakes_ms.append(1_000 * (time.monotonic() - began))
        connection = Connection(stream, ("127.0.0.1", port), 0)
        await ask_for_metadata(connection)
        await connection.aclose()
        await trio.sleep(_LOGIN_PAUSE_S)


async def _main(options: argparse.Namespace) -> Measured:
    measured, stopping, stopped = Measured(), trio.Event(), trio.Event()
    context = ssl.create_default_context(cafile=options.authority)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_live, options.port, options.first, measured, stopping, stopped)
            nursery.start_soon(_ping, options.port, measured)
            nursery.start_soon(_authenticate, options.sasl_port, measured)
            nursery.start_soon(_connect_by_tls, options.tls_port, context, measured)
            await _end_of_input()
            stopping.set()
            await stopped.wait()
            nursery.cancel_scope.cancel()
    except* (
        AssertionError,
        ConnectionLost,
        OSError,
        SaslFailure,
        trio.BrokenResourceError,
        trio.TooSlowError,
    ) as group:
        measured.error = repr(group.exceptions)
    return measured


async def _end_of_input() -> None:
    async with trio.lowlevel.FdStream(sys.stdin.fileno()) as stdin:
        async for _ in stdin:
            pass


def summary(measured: Measured) -> dict[str, Any]:
    return {
        "records": len(measured.round_trips_ms),
        "round_trip_ms": percentiles(measured.round_trips_ms),
        "ping_ms": percentiles(measured.pings_ms),
        "logins": len(measured.logins_ms),
        "login_ms": percentiles(measured.logins_ms),
        "authenticated_ms": percentiles(measured.authenticated_ms),
        "handshakes": len(measured.handshakes_ms),
        "handshake_ms": percentiles(measured.handshakes_ms),
        "longest_pings": measured.longest_pings,
        "error": measured.error,
    }


def percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values) or [0.0]
    return {
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[len(ordered) * 99 // 100],
        "max": ordered[-1],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("sasl_port", type=int)
    parser.add_argument("tls_port", type=int)
    parser.add_argument("authority", help="the file of the certificate that signs the node's")
    parser.add_argument("--first", type=int, default=0, help="the number of the first record")
    print(json.dumps(summary(trio.run(_main, parser.parse_args()))))
