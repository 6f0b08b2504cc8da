"""Machines, each of which may run one process. Processes are started, killed and paused; machines lose power.

A crash takes no virtual time. The host's incarnation increases, and from then on the old process, whose tasks Trio
still unwinds and whose `finally` blocks still run, can affect neither disk nor network nor trace.
"""

import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from random import Random
from typing import Final, Protocol

import trio

from jepsen.simulation.clock import WALL_EPOCH_S, VirtualClock
from jepsen.simulation.disk import SimulatedDisk, Volume
from jepsen.simulation.trace import Trace
from kraft.env import Env

# The host of the current task. A process's first task sets it, and child tasks inherit it.
HOST: Final[ContextVar["Host | None"]] = ContextVar("simulated_host", default=None)
# The incarnation of the process to which the current task belongs; None for tasks of clients, which never die.
_INCARNATION: Final[ContextVar[int | None]] = ContextVar("simulated_incarnation", default=None)
_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]{6,}")


class Process(Protocol):
    """The process of a host; `broker.node.Node` is one."""

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until `stop`; `task_status.started()` once it serves. An exception ends the process."""
        ...

    def stop(self) -> None: ...


class HostSocket(Protocol):
    """The part of a socket that its host uses when the process ends."""

    def owner_died(self, *, silently: bool) -> None: ...


class Host:
    """A machine. `is_powered`, `is_paused` and `is_serving` are its state; `start` and similar methods change it.

    `process` is the running process, or None. `before_it_ends` is called just before the process ends.

    A nemesis sets `wall_offset_s`, which is added to the wall clock. `ended` is set while no process runs. The
    supervisor of the host does not restart it before `held_down_until` (virtual time).
    """

    def __init__(
        self,
        name: str,
        address: str,
        clock: VirtualClock,
        trace: Trace,
        volume: Volume,
        rng_of: Callable[[str], Random],
        on_pause: Callable[[], None],
    ) -> None:
        self.name = name
        self.address = address
        self.volume = volume
        self.incarnation = 0
        self.is_powered = True
        self.is_paused = False
        self.is_serving = False
        self.wall_offset_s = 0.0
        self.held_down_until = 0.0
        self.ended = trio.Event()
        self.ended.set()
        self.cause: BaseException | None = None  # the error that ended the last process, if it was not killed
        self.sockets: dict[HostSocket, None] = {}
        self._clock = clock
        self._trace = trace
        self._rng_of = rng_of
        self._on_pause = on_pause
        self.before_it_ends: Callable[[Host], None] | None = None
        self._scope: trio.CancelScope | None = None
        self.process: Process | None = None

    def __repr__(self) -> str:
        return self.name

    def start(self, nursery: trio.Nursery, make: Callable[[Env], Process]) -> None:
        """Power the machine on, and run a new process on it."""
        assert self.ended.is_set(), f"{self} runs already"
        self.is_powered = True
        self.incarnation = incarnation = self.incarnation + 1
        self.ended = trio.Event()
        self._trace.event(self.name, "process_started", {"incarnation": incarnation})
        nursery.start_soon(self._live, make, incarnation, name=f"process on {self.name}")

    def stop(self) -> None:
        """Ask the process to end by itself, as SIGTERM does."""
        if self.process is not None:
            self.process.stop()

    def kill(self) -> None:
        """kill -9: the page cache stays, and the kernel closes the process's sockets."""
        self._crash("process_killed", silently=False)

    def power_cut(self, fate: str | None = None) -> None:
        """Cut the power. Unsynced data may be lost, see `Volume.power_cut`, and peers are not informed."""
        self.is_powered = False
        self._crash("power_cut", silently=True)
        self.volume.power_cut(fate)

    def pause(self) -> None:
        """SIGSTOP: no task of the process runs; its kernel continues to receive and acknowledge segments."""
        self.is_paused = True
        self._trace.event(self.name, "paused", {})
        self._on_pause()

    def resume(self) -> None:
        if self.is_paused:
            self.is_paused = False
            self._trace.event(self.name, "resumed", {})
            self._on_pause()

    def is_current(self, incarnation: int) -> bool:
        """True if the process that was started as `incarnation` is still alive."""
        return self.incarnation == incarnation

    def wall(self) -> float:
        """The machine's wall clock, in seconds since 1970."""
        return WALL_EPOCH_S + self._clock.now + self.wall_offset_s

    def env(self, incarnation: int) -> Env:
        """The Env of the process."""

        def trace(kind: str, /, **fields: object) -> None:
            if self.incarnation == incarnation:
                self._trace.event(self.name, kind, fields)

        return Env(
            disk=SimulatedDisk(self.volume, incarnation, lambda: self.incarnation != incarnation),
            rng=self._rng_of(f"process/{self.name}/{incarnation}"),
            wall=self.wall,
            trace=trace,
        )

    async def _live(self, make: Callable[[Env], Process], incarnation: int) -> None:
        HOST.set(self)
        _INCARNATION.set(incarnation)
        if not self.is_current(incarnation):
            return
        process = make(self.env(incarnation))
        try:
            with trio.CancelScope() as scope:
                self._scope, self.process = scope, process
                async with trio.open_nursery() as nursery:
                    await nursery.start(process.run)
                    if self.is_current(incarnation):
                        self.is_serving = True
        except BaseExceptionGroup as group:
            errors, others = group.split(Exception)
            if others is not None:
                raise others from None
            if errors is not None:
                self._died(incarnation, errors)
        except Exception as error:  # noqa: BLE001 - any exception may end a process; an invariant checks it
            self._died(incarnation, error)
        else:
            self._died(incarnation, None)

    def _died(self, incarnation: int, error: Exception | None) -> None:
        if not self.is_current(incarnation):
            return  # the error is a consequence of the kill
        self.cause = error
        errors = [] if error is None else list(leaves(error))
        self._crash(
            "process_ended",
            silently=False,
            errors=[type(each).__name__ for each in errors],
            messages=[without_addresses(str(each)) for each in errors],
        )

    def _crash(self, kind: str, *, silently: bool, **fields: object) -> None:
        if self.process is not None and self.before_it_ends is not None:
            self.before_it_ends(self)
        self.incarnation += 1
        self.is_serving = False
        self.process = None
        self.volume.locks.clear()
        sockets, self.sockets = self.sockets, {}
        for socket in sockets:
            socket.owner_died(silently=silently)
        self.resume()  # the tasks of the killed process have to unwind
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.cancel()
        self._trace.event(self.name, kind, fields)
        self.ended.set()


def is_task_alive() -> bool:
    """False in a task of a process that has died, which Trio still unwinds."""
    host, incarnation = HOST.get(), _INCARNATION.get()
    return host is None or incarnation is None or host.is_current(incarnation)


def without_addresses(text: str) -> str:
    """A text without the addresses in memory of objects without a name, which differ between equal runs."""
    return _ADDRESS.sub("0x...", text)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The leaf errors of an exception group, or the error itself if it is not a group."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves(each)
    else:
        yield error
