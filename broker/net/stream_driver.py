"""The driver of connections over any Trio stream: those to controllers, and every connection in simulation."""

from typing import Final

import trio

from broker.net.connection_scheduler import ConnectionScheduler
from broker.net.driven_connection import DrivenConnection
from broker.net.reply import FileRange, Part

# File ranges are read and sent in pieces of this size, so that a slow reader holds one piece in memory.
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
    """A reader and a writer task over one stream."""

    def __init__(self, connection: DrivenConnection, scheduler: ConnectionScheduler) -> None:
        self._connection = connection
        self._scheduler = scheduler
        self._changed = trio.lowlevel.ParkingLot()
        self.cancel_scope = trio.CancelScope()

    def flush(self) -> bool:
        """See `Transport.flush`: the writer task does the sending, so nothing is ever sent at once."""
        self._wake()
        return False

    def shut(self) -> None:
        self.cancel_scope.cancel()

    async def receive_from(self, stream: trio.abc.Stream) -> None:
        connection = self._connection
        while not connection.closed:
            space = connection.receive_space()
            connection.muted = not space or connection.throttled
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
            self._scheduler.run(connection)

    async def send_all_to(self, stream: trio.abc.Stream) -> None:
        connection = self._connection
        while True:
            while connection.outgoing:
                parts = connection.outgoing[:]
                try:
                    for part in parts:
                        await _send_part(stream, part)
                except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
                    connection.fail(error)
                    return
                del connection.outgoing[: len(parts)]
                connection.outgoing_size = sum(map(len, connection.outgoing))
                self._wake()
                self._scheduler.run(connection)
            await self._changed.park()

    def _wake(self) -> None:
        self._changed.unpark_all()


async def _send_part(stream: trio.abc.Stream, part: Part) -> None:
    if not isinstance(part, FileRange):
        await stream.send_all(memoryview(part))
        return
    position, end = part.position, part.position + part.size
    while position < end:
        piece = part.file.read(position, min(PIECE_SIZE, end - position))
        if not piece:
            raise OSError("a file was truncated while it was being sent")
        await stream.send_all(piece)
        position += len(piece)
