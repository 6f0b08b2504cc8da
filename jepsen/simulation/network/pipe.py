"""One direction of a TCP connection, with ordering, flow control and failures as in the kernel."""

from collections import deque
from typing import Protocol

import trio

from jepsen.simulation.hosts import Host

# The bytes that may be in transit or unread before the sender has to wait. Half the kernel's default.
WINDOW_BYTES = 64 * 1024
SEGMENT_BYTES = 16 * 1024


class Endpoint(Protocol):
    """The socket at one end of a connection, with the pipes of both directions once it is connected."""

    host: Host
    address: tuple[str, int] | None
    peer: tuple[str, int] | None
    incoming: "Pipe | None"
    outgoing: "Pipe | None"
    is_closed: bool

    def close(self) -> None: ...


class Pipe:
    """The direction from `sender` to `receiver`. The sockets at its ends are `source` and `sink`.

    `held` are the segments that cannot arrive since `held_since`; None among them is the FIN. `error` is the errno of
    a broken pipe.
    """

    __slots__ = (
        "error",
        "fin_arrived",
        "free_bytes",
        "held",
        "held_since",
        "last_arrival",
        "reader",
        "received",
        "receiver",
        "sender",
        "sink",
        "source",
        "unconfirmed_bytes",
        "writer",
    )

    def __init__(self, source: Endpoint, sink: Endpoint) -> None:
        self.source = source
        self.sink = sink
        self.sender = source.host
        self.receiver = sink.host
        self.received = bytearray()
        self.fin_arrived = False
        self.free_bytes = WINDOW_BYTES
        self.unconfirmed_bytes = 0  # bytes that arrived while acknowledgements could not travel back
        self.last_arrival = 0.0
        self.held: deque[bytes | None] = deque()
        self.held_since = 0.0
        self.error: int | None = None
        self.reader: trio.lowlevel.Task | None = None
        self.writer: trio.lowlevel.Task | None = None

    def wake_reader(self) -> None:
        task, self.reader = self.reader, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def wake_writer(self) -> None:
        task, self.writer = self.writer, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def wait_readable(self) -> None:
        """Wait until a segment has arrived, or the pipe or its socket is broken.

        Raises BusyResourceError if another task waits already.
        """
        if self.reader is not None:
            raise trio.BusyResourceError("another task is already receiving")
        self.reader = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self.reader = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def wait_writable(self) -> None:
        """Wait until the window has room, or the pipe or its socket is broken. Raises BusyResourceError."""
        if self.writer is not None:
            raise trio.BusyResourceError("another task is already sending")
        self.writer = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self.writer = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
