"""Streams whose clients authenticate by requests, fed with any bytes in any pieces."""

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st

from broker.net.connection import Connection, Sender
from broker.net.driven_connection import ClosedTransport
from broker.net.replica_streams import Identity, UndecidedStream
from broker.net.reply import Reply

SIZE_MAX = 1024
HELLO = b"\0\0\0\x04\x95abc"


@attrs.define
class Frames:
    """Takes the stream as frames, as a connection does. Its client has authenticated after `needed` of them."""

    needed: int
    served: int = 0

    def open_session(self, connection: Connection) -> None:
        """Keep no state."""

    def sender_of(self, connection: Connection, start: int, end: int) -> Sender:
        return Sender.ANYONE

    def check_size(self, connection: Connection, api_key: int, size: int) -> None:
        """Accept every size."""

    def serve(self, connection: Connection, start: int, end: int) -> Reply:
        self.served += 1
        return None

    def identity_of(self, connection: Connection) -> Identity | None:
        return Identity("User:replica") if self.served >= self.needed else None


@attrs.define
class Pieces(trio.abc.Stream):
    """Returns `data` in pieces of at most `piece` bytes."""

    data: bytes
    piece: int
    is_closed: bool = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        count = self.piece if max_bytes is None else min(self.piece, max_bytes)
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError("nothing is sent")

    async def wait_send_all_might_not_block(self) -> None:
        raise AssertionError("nothing is sent")

    async def aclose(self) -> None:
        self.is_closed = True


async def read_all(stream: trio.abc.Stream) -> bytes:
    received = b""
    while data := await stream.receive_some(7):
        received += data
    return received


async def run(data: bytes, piece: int, needed: int) -> tuple[bytes, bytes | None, str | None]:
    """Returns the bytes for the connection, those for the replica, and why the connection was closed."""
    frames, source = Frames(needed), Pieces(data, piece)
    connection = Connection(
        frames, lambda each: None, lambda each: None, request_size_max=SIZE_MAX, peer_host="127.0.0.1", listener="C"
    )
    connection.transport = ClosedTransport()
    stream = UndecidedStream(source, connection, frames)
    received = b""
    while not connection.closed and (part := await stream.receive_some(7)):
        received += part
        connection.receive_space()[: len(part)] = part
        connection.received(len(part))
        connection.pump()
    await stream.aclose()
    assert source.is_closed == (stream.replica is None)
    replica = None if stream.replica is None else await read_all(stream.replica[0])
    return received, replica, connection.close_reason


sizes = st.integers(-2, 20) | st.integers(-(2**31), 2**31 - 1)
junk = st.binary(max_size=20)
frame = st.builds(lambda size, body: size.to_bytes(4, signed=True) + body, sizes, junk) | st.builds(
    lambda body: len(body).to_bytes(4) + body, junk
)


@given(st.lists(frame | st.just(HELLO), max_size=6).map(b"".join), st.integers(1, 9), st.integers(0, 3))
async def test_no_byte_is_lost_or_given_twice(data: bytes, piece: int, needed: int) -> None:
    received, replica, _ = await run(data, piece, needed)
    if replica is None:
        assert data.startswith(received)
    else:
        assert received + replica == data
        assert replica[4:5] == HELLO[4:5]


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=4), st.integers(1, 9), st.integers(0, 4))
async def test_hello_is_passed_on_only_after_authentication(bodies: list[bytes], piece: int, needed: int) -> None:
    bodies = [b"\0" + body for body in bodies]
    data = b"".join(len(body).to_bytes(4) + body for body in bodies)
    received, replica, reason = await run(data + HELLO, piece, needed)
    if len(bodies) == needed:
        assert (received, replica, reason) == (data, HELLO, None)
    elif len(bodies) < needed:
        assert (received, replica) == (data, None)
        assert reason == "a replica of the quorum has to authenticate by SASL before its Hello"
    else:
        assert (received, replica, reason) == (data + HELLO, None, None)
