"""One run in virtual time: clock, trace, hosts, network and random numbers, all derived from one seed."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Protocol, TypeVar

import trio

from jepsen.simulation.clock import STUCK, Deadlock, VirtualClock
from jepsen.simulation.disk import Volume
from jepsen.simulation.event_loop import EventLoop, TaskQueue
from jepsen.simulation.hosts import HOST, Host, is_task_alive
from jepsen.simulation.network import Network, SimulatedResolver, SimulatedSocketFactory
from jepsen.simulation.scheduling import (
    SIMULATION_LOCK,
    Killed,
    Livelock,
    kill_tasks,
    run_deterministically,
)
from jepsen.simulation.trace import Trace

T = TypeVar("T")
# The logger of the client library, with which some nodes of a simulation and most of its clients talk to brokers.
_CLIENT_LIBRARY = "broker.client"
# A task that keeps running is killed. After this number of attempts, Trio itself is made to fail.
_LIVELOCKS_MAX = 3


class Observer(Protocol):
    """Observes the processes of a simulation."""

    def observe(self, hosts: Sequence[Host]) -> None:
        """Called when tasks of these hosts have run and are all waiting again."""
        ...

    def observe_last(self, host: Host) -> None:
        """Called when the process on a host ends, possibly in the middle of a change.

        Messages that it has sent before may still arrive.
        """
        ...


class Simulation:
    """A simulated network of hosts. Add hosts, then `run` a function. Equal values of `trace.digest` mean equal runs.

    It runs unmodified Trio code, and supplies sockets, host names, time and the order of tasks. With
    `threads_run_inline`, `trio.to_thread.run_sync` calls its function at once, which takes no virtual time; otherwise
    threads are refused.
    """

    def __init__(self, seed: str, *, threads_run_inline: bool = False) -> None:
        self.seed = seed
        self._threads_run_inline = threads_run_inline
        self.clock = VirtualClock()
        self.trace = Trace(self.clock.current_time)
        self.hosts: dict[str, Host] = {}
        self._hosts_by_address: dict[str, Host] = {}
        self.network = Network(self.clock, self.rng("network"), self._hosts_by_address, self.trace.note)
        self.observers: list[Observer] = []
        self._spinning: list[str] = []
        self._acting: dict[Host, None] = {}
        self._queue: TaskQueue | None = None
        self.clock.before_it_moves = self._observe_hosts

    def rng(self, purpose: str) -> Random:
        """A random generator for one purpose, independent of those for other purposes."""
        return Random(f"{self.seed}/{purpose}")

    def add_host(self, name: str) -> Host:
        """Add a machine with an empty disk. Other hosts connect to it under `name`."""
        address = f"10.0.0.{len(self.hosts) + 1}"
        volume = Volume(name, self.clock, self.rng(f"disk/{name}"), self.trace.note)
        host = Host(name, address, self.clock, self.trace, volume, self.rng, self._pauses_changed)
        host.before_it_ends = self._observe_last
        self.hosts[name] = self._hosts_by_address[address] = host
        return host

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run `main` to its end without waiting in real time, after simulations of other threads have ended.

        Raises the exceptions of `main`, and Deadlock, Livelock and ThreadStarted. An exception of an event of the clock
        ends the run at once, and is raised too.
        """

        async def prepared(loop: EventLoop) -> T:
            trio.socket.set_custom_socket_factory(SimulatedSocketFactory(self.network))
            trio.socket.set_custom_hostname_resolver(SimulatedResolver(self.hosts))
            now, begin, livelock = self.clock.current_time, self._begin_batch, self._on_livelock
            self._queue = TaskQueue(_is_on_paused_host, now, begin, livelock)
            loop.use(self._queue)
            self.clock.is_runnable = loop.is_runnable
            try:
                with trio.CancelScope() as scope:
                    self.clock.on_stuck = scope.cancel
                    return await main()
            finally:
                if self._spinning:
                    raise Livelock(self._spinning[0])
            raise Deadlock(STUCK)

        seed, inline = f"{self.seed}/tasks", self._threads_run_inline
        with SIMULATION_LOCK, _logging_to(self.trace), _internal_errors_unwrapped():
            return run_deterministically(prepared, seed=seed, clock=self.clock, threads_run_inline=inline)

    def _on_livelock(self, task: trio.lowlevel.Task) -> None:
        self._spinning.append(f"{task.name} keeps running without virtual time passing")
        if len(self._spinning) > _LIVELOCKS_MAX:
            raise Livelock(f"{self._spinning[0]}, even after it was killed")
        kill_tasks(lambda each: each is task, Killed(self._spinning[0]))

    def kill_tasks_of(self, hosts: Collection[Host], reason: str) -> None:
        """Raise Killed in all tasks that were started by processes on these hosts, and have survived them."""
        doomed: Sequence[Host | None] = list(hosts)
        kill_tasks(lambda task: task.context.get(HOST) in doomed, Killed(reason))

    async def on(self, host: Host, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run a function on a host: the sockets that it opens belong to the host."""
        token = HOST.set(host)
        try:
            return await function(*args)
        finally:
            HOST.reset(token)

    def heal(self) -> None:
        """Remove all faults of network, disks and clocks, and resume paused processes."""
        self.network.heal()
        for host in self.hosts.values():
            host.volume.heal()
            host.wall_offset_s = 0.0
            host.resume()

    def _begin_batch(self, tasks: Sequence[trio.lowlevel.Task]) -> None:
        if self._acting:
            self._observe_hosts()
        if len(tasks) == 1:
            self.trace.run(tasks[0].name, 1)
        else:
            self.trace.run("\n".join([task.name for task in tasks]), len(tasks))
        if self.observers:
            for task in tasks:
                host = task.context.get(HOST)
                if host is not None:
                    self._acting[host] = None

    def _observe_hosts(self) -> None:
        """Call the observers with the hosts whose tasks ran in the last batch."""
        if self._acting:
            acting, self._acting = list(self._acting), {}
            for observer in self.observers:
                observer.observe(acting)

    def _observe_last(self, host: Host) -> None:
        for observer in self.observers:
            observer.observe_last(host)

    def _pauses_changed(self) -> None:
        assert self._queue is not None, "hosts are paused while the simulation runs"
        self._queue.watch(is_watching=any(host.is_paused for host in self.hosts.values()))


def _is_on_paused_host(task: trio.lowlevel.Task) -> bool:
    host = task.context.get(HOST)
    return host is not None and host.is_paused


class _TraceHandler(logging.Handler):
    """Records log messages in a trace, apart from those of processes that have died."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(logging.WARNING)
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        if not is_task_alive():
            return
        host = HOST.get()
        self._trace.message("" if host is None else host.name, f"{record.levelname.lower()}: {record.getMessage()}")


@contextmanager
def _internal_errors_unwrapped() -> Iterator[None]:
    """Raise an error of the clock or the task queue as it is. Trio makes an internal error of it."""
    try:
        yield
    except trio.TrioInternalError as error:
        if isinstance(error.__cause__, RuntimeError):
            raise error.__cause__ from None
        raise


@contextmanager
def _logging_to(trace: Trace) -> Iterator[None]:
    """The warnings of the client library go to the trace, and nowhere else: faults cause many of them."""
    logger = logging.getLogger(_CLIENT_LIBRARY)
    handler, level, propagates = _TraceHandler(trace), logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
