"""Pollers watch many sockets at once: epoll of Linux, or kqueue of macOS and the BSDs.

Both have a descriptor of their own, which Trio can wait for. `select.epoll` is a `Poller` as it is, so that Linux pays
nothing for the choice. Where neither exists, connections are served by `broker.net.stream_driver`.
"""

import select
from typing import Any, Final, Protocol

# Events that a socket is watched for, and that polls return. The numbers are those of epoll.
READ: Final = 0x001
WRITE: Final = 0x004
# Neither read nor written. Epoll still reports errors and hang-ups; kqueue does when the socket is watched again.
MUTED: Final = 0
# Events that one call of kqueue returns at most; others follow with the next call.
_EVENTS_MAX: Final = 256


class Poller(Protocol):
    """Watches descriptors. Each method is one system call, and raises OSError if the kernel refuses it."""

    @property
    def closed(self) -> bool: ...

    def fileno(self) -> int:
        """The descriptor that is readable while an event waits."""
        ...

    def register(self, descriptor: int, events: int, /) -> None: ...

    def modify(self, descriptor: int, events: int, /) -> None: ...

    def unregister(self, descriptor: int, /) -> None: ...

    def poll(self, timeout_s: float, /) -> list[tuple[int, int]]:
        """Descriptors with the events that wait, each descriptor once."""
        ...

    def close(self) -> None: ...


def can_poll() -> bool:
    """Whether this system has a poller."""
    return hasattr(select, "epoll") or hasattr(select, "kqueue")


def open_poller() -> Poller:
    """The fastest poller of this system, which must have one (`can_poll`)."""
    return select.epoll() if hasattr(select, "epoll") else KqueuePoller()


class KqueuePoller:
    """A kqueue that watches as epoll does, until the event is over (level-triggered).

    Kqueue has a filter for each kind of event, and reports errors and hang-ups as such an event: receiving or sending
    then tells them.
    """

    def __init__(self) -> None:
        kernel: Any = select  # the names are missing on Linux
        self._filters = ((READ, kernel.KQ_FILTER_READ), (WRITE, kernel.KQ_FILTER_WRITE))
        self._writable = kernel.KQ_FILTER_WRITE
        self._add, self._delete = kernel.KQ_EV_ADD, kernel.KQ_EV_DELETE
        self._event = kernel.kevent
        self._kqueue = kernel.kqueue()
        self._watched: dict[int, int] = {}

    @property
    def closed(self) -> bool:
        return bool(self._kqueue.closed)

    def fileno(self) -> int:
        return int(self._kqueue.fileno())

    def register(self, descriptor: int, events: int, /) -> None:
        self._watched[descriptor] = MUTED
        self.modify(descriptor, events)

    def modify(self, descriptor: int, events: int, /) -> None:
        watched = self._watched[descriptor]
        changes = [
            self._event(descriptor, each_filter, self._add if events & each else self._delete)
            for each, each_filter in self._filters
            if (events ^ watched) & each
        ]
        if changes:
            self._kqueue.control(changes, 0)
        self._watched[descriptor] = events

    def unregister(self, descriptor: int, /) -> None:
        self.modify(descriptor, MUTED)
        del self._watched[descriptor]

    def poll(self, timeout_s: float, /) -> list[tuple[int, int]]:
        ready: dict[int, int] = {}
        for event in self._kqueue.control(None, _EVENTS_MAX, timeout_s):
            ready[event.ident] = ready.get(event.ident, 0) | (WRITE if event.filter == self._writable else READ)
        return list(ready.items())

    def close(self) -> None:
        self._kqueue.close()
