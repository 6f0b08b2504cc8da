"""A fetcher's connection (`broker.replication.leader_connection`) over real sockets, to leaders that answer badly.

Each test runs with both drivers: the reactor for the kernel's sockets, and the one for Trio's streams.
"""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

import attrs
import pytest
import trio

from broker.net.connection_drivers import ConnectionDrivers
from broker.replication.leader_connection import RESPONSE_BYTES_MAX, LeaderConnection
from broker.replication.partition import Partition
from broker.replication.replica_fetcher import ReplicaFetcher
from broker.wire.api.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from broker.wire.codec import encode
from broker.wire.errors import ErrorCode
from broker.wire.header import encode_response_header, parse_request_header
from kraft.env import FsyncFailed, kernel_socket
from tests.support.fetcher_context import fetcher_context, leader_at
from tests.support.partition_harness import A, Harness
from tests.support.scripted_broker import batch

FETCH, VERSION = 1, 17
LARGE_VALUE_BYTES = 300_000
# Serves a connection, whose next request has this correlation id.
Answer: TypeAlias = Callable[[trio.SocketStream, int], Awaitable[None]]
KernelSocket: TypeAlias = Callable[[trio.abc.Stream], socket.socket | None]


@attrs.define
class Leader:
    """A leader that serves each request by `answer`. `ids` are the correlation ids, by connection."""

    answer: Answer
    ids: list[list[int]] = attrs.field(factory=list)

    async def serve(self, stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._serve(stream)

    async def _serve(self, stream: trio.SocketStream) -> None:
        ids: list[int] = []
        self.ids.append(ids)
        received = bytearray()
        while data := await stream.receive_some():
            received += data
            while len(received) >= 4 and len(received) >= 4 + (size := int.from_bytes(received[:4])):
                correlation_id = parse_request_header(bytes(received[4 : 4 + size]))[2]
                del received[: 4 + size]
                ids.append(correlation_id)
                await self.answer(stream, correlation_id)


@attrs.define
class Follower:
    """A fetcher's events, and the partition that it follows."""

    partition: Partition
    events: list[tuple[str, str]]

    @property
    def end_offset(self) -> int:
        assert self.partition.log is not None
        return self.partition.log.log_end_offset

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(10):
            while not condition():
                await trio.sleep(0.005)

    async def wait_disconnected(self, times: int = 1) -> str:
        """Wait until it has lost that many connections; returns the reason of the last one."""
        await self.wait_until(lambda: len(self.reasons) >= times)
        return self.reasons[times - 1]

    @property
    def reasons(self) -> list[str]:
        return [reason for kind, reason in self.events if kind == "fetcher_disconnected"]


@pytest.fixture(params=["reactor", "stream"])
def take_socket(request: pytest.FixtureRequest) -> KernelSocket:
    return kernel_socket if request.param == "reactor" else lambda stream: None


@asynccontextmanager
async def following(
    directory: Path, take_socket: KernelSocket, answer: Answer, request_timeout_ms: float = 5_000
) -> AsyncIterator[tuple[Follower, Leader]]:
    """A fetcher that follows an empty partition of a leader, which answers by `answer`."""
    harness = Harness(directory)
    harness.become(leader=A)
    leader = Leader(answer)
    follower = Follower(harness.partition, [])
    drivers = ConnectionDrivers(lambda: True, take_socket, -1)

    def trace(kind: str, **fields: object) -> None:
        follower.events.append((kind, str(fields.get("reason"))))

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, leader.serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        context = fetcher_context(
            lambda: leader_at(port), drivers=drivers, trace=trace, request_timeout_ms=request_timeout_ms
        )
        fetcher = ReplicaFetcher(context, A, lambda partition: None)
        nursery.start_soon(drivers.run)
        nursery.start_soon(fetcher.run)
        fetcher.follow(harness.partition)
        yield follower, leader
        nursery.cancel_scope.cancel()


def response(partition: Partition, correlation_id: int, records: bytes | None = None, **fields: int) -> bytes:
    """A frame with one partition's records."""
    data = PartitionData(partition_index=0, records=records, **{"high_watermark": 0, **fields})
    found = FetchResponse(responses=[FetchableTopicResponse(topic_id=partition.topic_id, partitions=[data])])
    body = b"".join(map(bytes, encode(found, VERSION)))
    payload = encode_response_header(FETCH, VERSION, correlation_id) + body
    return len(payload).to_bytes(4) + payload


async def silent(stream: trio.SocketStream, correlation_id: int) -> None:
    """Answer nothing."""


async def test_records_of_a_response_in_single_bytes_are_appended_and_fetched_past(
    tmp_path: Path, take_socket: KernelSocket
) -> None:
    sent: list[int] = []

    async def answer(stream: trio.SocketStream, correlation_id: int) -> None:
        if len(sent) < 3:
            sent.append(correlation_id)
            for byte in response(follower.partition, correlation_id, batch(len(sent) - 1, 1)):
                await stream.send_all(bytes([byte]))

    async with following(tmp_path, take_socket, answer) as (follower, leader):
        await follower.wait_until(lambda: leader.ids[-1:] == [[0, 1, 2, 3]])
        assert follower.end_offset == 3
    assert follower.reasons == []


async def test_response_that_is_larger_than_the_receive_buffer_is_appended(
    tmp_path: Path, take_socket: KernelSocket
) -> None:
    records = b"".join(batch(offset, 1_000, compression=0) for offset in range(0, 60_000, 1_000))
    assert len(records) > LARGE_VALUE_BYTES

    async def answer(stream: trio.SocketStream, correlation_id: int) -> None:
        if not correlation_id:
            await stream.send_all(response(follower.partition, correlation_id, records))

    async with following(tmp_path, take_socket, answer) as (follower, _):
        await follower.wait_until(lambda: follower.end_offset == 60_000)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ((RESPONSE_BYTES_MAX + 1).to_bytes(4), "as no broker sends it"),
        (b"\xff\xff\xff\xff", "as no broker sends it"),
        (b"\0\0\0\3abc", "as no broker sends it"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server answers"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "a TLS port answers"),
        (b"\0\0\0\5" + (77).to_bytes(4) + b"\0", "a response without a request"),
        (b"\0\0\0\4" + bytes(4), "an answer that cannot be read"),
        (b"\0\0\0\x40" + bytes(4) + b"\xff" * 60, "an answer that cannot be read"),
    ],
    ids=["too large", "negative size", "too small", "http", "tls", "other id", "empty", "undecodable"],
)
async def test_connection_to_a_leader_that_sends_no_valid_response_is_given_up(
    tmp_path: Path, take_socket: KernelSocket, frame: bytes, reason: str
) -> None:
    async def answer(stream: trio.SocketStream, correlation_id: int) -> None:
        await stream.send_all(frame)

    async with following(tmp_path, take_socket, answer) as (follower, _):
        assert reason in await follower.wait_disconnected()
        await follower.wait_disconnected(times=2)  # it tries again
        assert follower.end_offset == 0


async def test_second_response_to_one_request_ends_the_connection_after_the_first_was_applied(
    tmp_path: Path, take_socket: KernelSocket
) -> None:
    async def answer(stream: trio.SocketStream, correlation_id: int) -> None:
        frame = response(follower.partition, correlation_id, batch(0, 1))
        await stream.send_all(frame + frame)

    async with following(tmp_path, take_socket, answer) as (follower, _):
        assert await follower.wait_disconnected() == "a response without a request"
        assert follower.end_offset == 1


async def test_damaged_batch_is_refused_and_the_connection_goes_on(tmp_path: Path, take_socket: KernelSocket) -> None:
    damaged = bytearray(batch(0, 1))
    damaged[-1] ^= 1

    async def answer(stream: trio.SocketStream, correlation_id: int) -> None:
        records = bytes(damaged) if not correlation_id else batch(0, 1)
        if correlation_id < 2:
            await stream.send_all(response(follower.partition, correlation_id, records))

    async with following(tmp_path, take_socket, answer) as (follower, leader):
        await follower.wait_until(lambda: leader.ids[-1:] == [[0, 1, 2]])
        assert follower.end_offset == 1
    assert follower.reasons == []


async def test_refused_partition_is_fetched_again_after_a_pause(tmp_path: Path, take_socket: KernelSocket) -> None:
    async def answer(stream: trio.SocketStream, correlation_id: int) -> None:
        if not correlation_id:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            await stream.send_all(response(follower.partition, correlation_id, error_code=code))

    async with following(tmp_path, take_socket, answer) as (follower, leader):
        await follower.wait_until(lambda: leader.ids[-1:] == [[0, 1]])


async def test_request_that_is_not_answered_in_time_ends_the_connection(
    tmp_path: Path, take_socket: KernelSocket
) -> None:
    async with following(tmp_path, take_socket, silent, request_timeout_ms=50) as (follower, _):
        assert await follower.wait_disconnected() == "no answer in time"


@pytest.mark.parametrize("sent", [0, 3, 20])
async def test_fetcher_connects_again_to_a_leader_that_closes_within_a_response(
    tmp_path: Path, take_socket: KernelSocket, sent: int
) -> None:
    async def answer(stream: trio.SocketStream, correlation_id: int) -> None:
        frame = response(follower.partition, correlation_id, batch(0, 1))
        if len(leader.ids) > 1:
            await stream.send_all(frame)
            await trio.sleep_forever()
        await stream.send_all(frame[:sent])
        await stream.aclose()

    async with following(tmp_path, take_socket, answer) as (follower, leader):
        assert "closed by the other side" in await follower.wait_disconnected()
        await follower.wait_until(lambda: follower.end_offset == 1)


async def test_cancelled_fetcher_resets_its_connection_without_an_event(
    tmp_path: Path, take_socket: KernelSocket
) -> None:
    async with following(tmp_path, take_socket, silent) as (follower, leader):
        await follower.wait_until(lambda: leader.ids == [[0]])
    assert follower.reasons == []


async def test_fsync_that_fails_in_a_turn_is_not_taken_for_a_lost_connection(take_socket: KernelSocket) -> None:
    """It has to end the node, and is an OSError, as those of sockets are."""

    def commit() -> bool:
        raise FsyncFailed

    drivers = ConnectionDrivers(commit, take_socket, -1)
    connection = LeaderConnection(drivers.scheduler.run, "follower", is_plain=True)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    stream = await trio.open_tcp_stream("127.0.0.1", listeners[0].socket.getsockname()[1])
    accepted = await listeners[0].accept()
    await accepted.send_all(b"\0")  # any bytes begin a turn
    with pytest.raises((FsyncFailed, ExceptionGroup)) as raised:
        await drivers.carry(stream, connection)
    assert isinstance(raised.value, FsyncFailed) or raised.value.subgroup(FsyncFailed) is not None
    await accepted.aclose()
    await listeners[0].aclose()
