"""The driver of connections over any Trio stream: those to controllers, and every connection in simulation."""

from collections.abc import Iterable, Iterator
from typing import Final

import trio

from broker.net.connection_scheduler import ConnectionScheduler
from broker.net.driven_connection import DrivenConnection
from broker.net.reply import Buffer, FileRange, Part

# File ranges are read and sent in pieces of this size at most, so that a slow reader holds one piece in memory.
PIECE_SIZE: Final = 256 * 1024


async def serve_stream(stream: trio.abc.Stream, connection: DrivenConnection, scheduler: ConnectionScheduler) -> None:
    """Serve one connection until either side closes it; closes the stream."""
    async with stream:
        transport = StreamTransport(connection, scheduler)
        connection.transport = transport
        try:
            async with trio.open_nursery() as nursery:
                transport.cancel_scope = nursery.cancel_scope
                nursery.start_soon(transport.send_all_to, stream)
                await transport.receive_from(stream)
                nursery.cancel_scope.cancel()
        finally:
            connection.close(None)


class StreamTransport:
    """A reader and a writer task over one stream.

    The reader sends the replies of the turns that it runs itself, which spares a switch of tasks for each request. The
    writer sends those that are completed later, while the reader waits for the next request.
    """

    def __init__(self, connection: DrivenConnection, scheduler: ConnectionScheduler) -> None:
        self._connection = connection
        self._scheduler = scheduler
        self._changed = trio.lowlevel.ParkingLot()
        self._is_sending = False
        self._is_in_turn = False
        self.cancel_scope = trio.CancelScope()

    def flush(self) -> bool:
        """See `Transport.flush`: the tasks do the sending, so nothing is ever sent at once.

        A task that is sending or in a turn looks at the connection again after that.
        """
        if not (self._is_sending or self._is_in_turn):
            self._changed.unpark_all()
        return False

    def shut(self) -> None:
        self.cancel_scope.cancel()

    async def receive_from(self, stream: trio.abc.Stream) -> None:
        connection = self._connection
        while not connection.closed:
            space = connection.receive_space()
            connection.muted = not space or connection.throttled
            if connection.outgoing and not self._is_sending:
                await self.send_outgoing(stream)
                continue
            if connection.outgoing or connection.muted:
                await self._changed.park()  # back-pressure: until its replies are sent, or its throttle time is over
                continue
            try:
                data = await stream.receive_some(len(space))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            if not data:
                return
            # A reply may have been sent while waiting; the space is asked for again, as a turn may have moved it.
            connection.receive_space()[: len(data)] = data
            connection.received(len(data))
            self._is_in_turn = True
            self._scheduler.run(connection)
            self._is_in_turn = False

    async def send_all_to(self, stream: trio.abc.Stream) -> None:
        """Send replies that are completed while the reader waits."""
        while True:
            if self._connection.outgoing:
                await self.send_outgoing(stream)
                self._changed.unpark_all()
            await self._changed.park()

    async def send_outgoing(self, stream: trio.abc.Stream) -> None:
        """Send what is outgoing, until nothing is left. Does nothing if the other task is sending.

        Raises what a turn of the connections raises, such as a failed fsync.
        """
        if self._is_sending:
            return
        self._is_sending = True
        try:
            while self._connection.outgoing and await self._send_parts(stream):
                self._scheduler.run(self._connection)
        finally:
            self._is_sending = False

    async def _send_parts(self, stream: trio.abc.Stream) -> bool:
        """Send the parts that are outgoing now; False if the connection has failed."""
        connection = self._connection
        parts = connection.outgoing[:]
        try:
            for piece in _pieces(parts):
                await stream.send_all(piece)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            connection.fail(error)
            return False
        del connection.outgoing[: len(parts)]
        connection.outgoing_size = sum(map(len, connection.outgoing))
        return True


def _pieces(parts: Iterable[Part]) -> Iterator[Buffer]:
    """The bytes of the parts in pieces, each of which is sent as a whole. Small parts share a piece.

    Raises OSError if a file cannot be read, or is too short.
    """
    piece: list[Buffer] = []
    size = 0
    for part in parts:
        for buffer in _buffers(part):
            if piece and size + len(buffer) > PIECE_SIZE:
                yield b"".join(piece)
                piece, size = [], 0
            piece.append(buffer)
            size += len(buffer)
    if piece:
        yield piece[0] if len(piece) == 1 else b"".join(piece)


def _buffers(part: Part) -> Iterator[Buffer]:
    if not isinstance(part, FileRange):
        yield part
        return
    position, end = part.position, part.position + part.size
    while position < end:
        read = part.file.read(position, min(PIECE_SIZE, end - position))
        if not read:
            raise OSError("a file was truncated while it was being sent")
        yield read
        position += len(read)
