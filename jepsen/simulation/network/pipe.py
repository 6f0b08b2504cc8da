"""One direction of a TCP connection: in order, reliable, flow-controlled, and broken by faults as the kernel's is."""

from collections import deque
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from jepsen.simulation.hosts import Host
    from jepsen.simulation.network.sockets import SimulatedSocket

# Bytes that may be on their way or unread: a sender that is ahead by more waits. Half the kernel's default.
WINDOW_BYTES = 64 * 1024
SEGMENT_BYTES = 16 * 1024


class Pipe:
    """From `sender` to `receiver`, whose ends are the sockets `source` and `sink`.

    `held` are segments that cannot arrive at present, since `held_since`; None among them is the FIN. `error` is the
    errno that the pipe died of.
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

    def __init__(self, source: "SimulatedSocket", sink: "SimulatedSocket") -> None:
        self.source = source
        self.sink = sink
        self.sender: Host = source.host
        self.receiver: Host = sink.host
        self.received = bytearray()
        self.fin_arrived = False
        self.free_bytes = WINDOW_BYTES
        self.unconfirmed_bytes = 0  # arrived, while no acknowledgement could travel back
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
        """Wait until something arrived, or the pipe or its socket broke. One task at a time: BusyResourceError."""
        if self.reader is not None:
            raise trio.BusyResourceError("another task is already receiving")
        self.reader = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self.reader = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def wait_writable(self) -> None:
        """As `wait_readable`, for room in the window."""
        if self.writer is not None:
            raise trio.BusyResourceError("another task is already sending")
        self.writer = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self.writer = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
