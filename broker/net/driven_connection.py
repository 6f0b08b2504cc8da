"""The interface between connections and their drivers: what a driver needs of a connection, and the reverse.

`broker.net.connection.Connection` is the server's side of a connection. A node that connects to another one has the
client's side; both are driven alike.
"""

from collections.abc import Callable
from typing import Any, Protocol

from broker.net.reply import Part


class Transport(Protocol):
    """The driver's side of a connection."""

    def flush(self) -> bool:
        """Send as much of what is outgoing as is possible without waiting; False if some is left.

        The transport runs the connection again once the rest is sent.
        """
        ...

    def shut(self) -> None:
        """Close at once; nothing more is sent."""
        ...


class ClosedTransport:
    """The transport of a closed connection.

    A connection and its transport refer to each other. Replacing the transport breaks the cycle, so that both and the
    receive buffer are freed at once, and not only by the garbage collector.
    """

    def flush(self) -> bool:
        return False

    def shut(self) -> None:
        pass


class DrivenConnection(Protocol):
    """A connection as drivers and `ConnectionScheduler` use it.

    A driver receives into `receive_space()`, reports the number of bytes with `received()`, has the scheduler run the
    connection, and sends `outgoing`, `outgoing_size` bytes. `muted` is set by the driver while it does not read,
    because `receive_space` was empty or the connection is `throttled`. `queued` belongs to the scheduler.
    """

    outgoing: list[Part]
    outgoing_size: int
    muted: bool
    queued: bool
    transport: Transport

    @property
    def closed(self) -> bool: ...

    @property
    def throttled(self) -> bool: ...

    @property
    def session(self) -> Any:
        """The state that a service keeps of a client; None if the other side is no client."""
        ...

    def receive_space(self) -> memoryview:
        """The memory to receive into; empty if the connection takes no more bytes until it has been run."""
        ...

    def received(self, count: int) -> None:
        """`count` bytes were received into the receive space."""
        ...

    def pump(self, timed: Callable[[Any], Any] | None = None) -> bool:
        """Handle the complete frames. True if it has to be run again after `outgoing` is sent.

        `timed` wraps the function that serves requests, if there is one, to measure them.
        """
        ...

    def commit_failed(self) -> None:
        """The records that were appended in this turn could not be written."""
        ...

    def fail(self, error: Exception) -> None:
        """Close now, because the transport has failed."""
        ...

    def close(self, reason: str | None) -> None:
        """Close now; without a `reason`, the other side has left or the driver ends."""
        ...
