"""A model of the standard library's `select.kqueue` over epoll, with level-triggered filters.

As in the kernels that have it, errors and hang-ups are flags of a filter's events, a filter that is not there cannot be
deleted, and a forked process does not inherit the descriptor.
"""

import errno
import os
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

KQ_FILTER_READ, KQ_FILTER_WRITE = -1, -2
KQ_EV_ADD, KQ_EV_DELETE, KQ_EV_EOF = 0x1, 0x2, 0x8000
_IN, _OUT, _ERROR, _HANG_UP = 0x1, 0x4, 0x8, 0x10
_EVENTS = {KQ_FILTER_READ: _IN, KQ_FILTER_WRITE: _OUT}


class kevent(NamedTuple):  # noqa: N801 - the name in `select`
    ident: int
    filter: int = KQ_FILTER_READ
    flags: int = KQ_EV_ADD
    fflags: int = 0
    data: int = 0
    udata: int = 0


class kqueue:  # noqa: N801 - the name in `select`
    make_epoll: Any
    _all: "weakref.WeakSet[kqueue]" = weakref.WeakSet()

    def __init__(self) -> None:
        self._epoll = self.make_epoll()
        self._watched: dict[int, int] = {}
        self._all.add(self)

    @property
    def closed(self) -> bool:
        return bool(self._epoll.closed)

    def fileno(self) -> int:
        return int(self._epoll.fileno())

    def close(self) -> None:
        if not self.closed:
            os.fstat(self.fileno())  # raises in a forked process
        self._epoll.close()

    def control(
        self, changes: Iterable[kevent] | None, events_max: int, timeout_s: float | None = None, /
    ) -> list[kevent]:
        for change in changes or ():
            self._change(change)
        if not events_max:
            return []
        ready = self._epoll.poll(timeout_s, events_max)
        return [event for descriptor, events in ready for event in self._events(descriptor, events)][:events_max]

    def _change(self, change: kevent) -> None:
        watched, event = self._watched.get(change.ident, 0), _EVENTS[change.filter]
        if change.flags & KQ_EV_DELETE:
            if not watched & event:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            wanted = watched & ~event
        else:
            wanted = watched | event
        # A descriptor that was closed has left the queue. Its number may belong to another file since.
        try:
            if not wanted:
                self._epoll.unregister(change.ident)
            elif watched:
                self._epoll.modify(change.ident, wanted)
            else:
                self._epoll.register(change.ident, wanted)
        except FileNotFoundError:
            if not change.flags & KQ_EV_ADD:
                raise
            wanted = event
            self._epoll.register(change.ident, wanted)
        self._watched[change.ident] = wanted

    def _events(self, descriptor: int, events: int) -> Iterable[kevent]:
        for filter_, event in _EVENTS.items():
            if self._watched.get(descriptor, 0) & event and events & (event | _ERROR | _HANG_UP):
                yield kevent(descriptor, filter_, KQ_EV_EOF if events & (_ERROR | _HANG_UP) else 0)

    @classmethod
    def leave_child(cls) -> None:
        """Close the descriptors in a forked process, which does not have them. The objects do not know it."""
        for each in cls._all:
            if not each.closed:
                os.close(each.fileno())


def names(epoll: Any) -> dict[str, object]:
    """The names that the module `select` has on a system with kqueue. `epoll` is that of this system."""
    kqueue.make_epoll = staticmethod(epoll)
    os.register_at_fork(after_in_child=kqueue.leave_child)
    constants = {name: value for name, value in globals().items() if name.startswith("KQ_")}
    return {**constants, "kevent": kevent, "kqueue": kqueue}
