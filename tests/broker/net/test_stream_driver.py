"""The driver of connections over any Trio stream: the pieces in which it sends replies, and the task that does."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from broker.net.connection import Connection, Sender
from broker.net.connection_scheduler import ConnectionScheduler
from broker.net.reply import FileRange, Part
from broker.net.stream_driver import PIECE_SIZE, serve_stream
from kraft.env import RealDisk


class Replies:
    """Answers every request by the same parts."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def open_session(self, connection: Connection) -> None:
        """Keep no state."""

    def sender_of(self, connection: Connection, start: int, end: int) -> Sender:
        return Sender.CLIENT

    def check_size(self, connection: Connection, api_key: int, size: int) -> None:
        """Accept every size."""

    def serve(self, connection: Connection, start: int, end: int) -> list[Part]:
        return [struct.pack(">i", sum(map(len, self._parts))), *self._parts]


class Client:
    """A client of `serve_stream`. `sent` has the size of each piece that the node sent, and the task that sent it."""

    def __init__(self, nursery: trio.Nursery, parts: Sequence[Part]) -> None:
        self.stream, ours = trio.testing.memory_stream_pair()
        self.sent: list[tuple[int, str]] = []
        scheduler = ConnectionScheduler(lambda: True)
        connection = Connection(
            Replies(parts), scheduler.run, lambda _: None, request_size_max=1000, peer_host="one", listener="PLAINTEXT"
        )
        nursery.start_soon(serve_stream, Counted(ours, self.sent), connection, scheduler, name="reader")

    async def request(self) -> bytes:
        await self.stream.send_all(struct.pack(">i", 5) + b"hello")
        reply = bytearray()
        while len(reply) < 4 or len(reply) < 4 + struct.unpack_from(">i", reply)[0]:
            reply += await self.stream.receive_some()
        return bytes(reply[4:])


class Counted(trio.abc.Stream):
    """Notes what is sent."""

    def __init__(self, stream: trio.abc.Stream, sent: list[tuple[int, str]]) -> None:
        self._stream = stream
        self._sent = sent

    async def send_all(self, data: Any) -> None:
        self._sent.append((len(data), trio.lowlevel.current_task().name))
        await self._stream.send_all(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return bytes(await self._stream.receive_some(max_bytes))

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


@pytest.fixture
def content() -> bytes:
    return bytes(at * 7 % 251 for at in range(3 * PIECE_SIZE))


async def test_small_reply_with_file_ranges_is_one_piece_that_the_reader_sends(
    nursery: trio.Nursery, tmp_path: Path, content: bytes
) -> None:
    """Each piece is a segment, or a record of TLS, and each switch of tasks is a round of the event loop."""
    file = RealDisk().open(f"{tmp_path}/segment", create=True)
    file.write(0, [content])
    client = Client(nursery, [b"head", FileRange(file, 10, 100), b"between", FileRange(file, 500, 20), b"tail"])
    expected = b"".join([b"head", content[10:110], b"between", content[500:520], b"tail"])
    assert [await client.request() for _ in range(2)] == [expected, expected]
    assert client.sent == [(4 + len(expected), "reader")] * 2
    nursery.cancel_scope.cancel()
    file.close()


async def test_large_reply_is_sent_in_pieces_of_bounded_size(
    nursery: trio.Nursery, tmp_path: Path, content: bytes
) -> None:
    """A slow reader holds one piece in memory."""
    file = RealDisk().open(f"{tmp_path}/segment", create=True)
    file.write(0, [content])
    client = Client(nursery, [b"head", FileRange(file, 0, len(content)), b"tail"])
    assert await client.request() == b"head" + content + b"tail"
    assert max(size for size, _ in client.sent) == PIECE_SIZE
    assert len(client.sent) == 5
    nursery.cancel_scope.cancel()
    file.close()
