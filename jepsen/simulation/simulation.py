"""One run in virtual time: the clock, the trace, the hosts, the network between them, and chance, all from one seed."""

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Protocol, TypeVar

import trio

from jepsen.simulation.clock import STUCK, Stuck, VirtualClock
from jepsen.simulation.disk import Volume
from jepsen.simulation.hosts import HOST, Host
from jepsen.simulation.network import Network, SimulatedResolver, SimulatedSocketFactory
from jepsen.simulation.scheduling import Livelock, WithholdingQueue, is_runnable, run_deterministically, withhold_tasks
from jepsen.simulation.trace import Trace

T = TypeVar("T")


class Onlooker(Protocol):
    """Observes the processes of a simulation."""

    def look(self, hosts: Sequence[Host]) -> None:
        """Something has run on these hosts, and all of that has come to where it waits."""
        ...

    def look_at_last(self, host: Host) -> None:
        """The process on a host ends, wherever it is; what it has told others, it has told."""
        ...


class Simulation:
    """A world of its own. Add hosts, then `run` something in it; `trace.digest` says whether two runs were the same.

    Unmodified Trio code runs in it: sockets, names, time and the order of tasks are the simulation's.
    """

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.clock = VirtualClock(is_runnable)
        self.trace = Trace(self.clock.current_time)
        self.hosts: dict[str, Host] = {}
        self._hosts_by_address: dict[str, Host] = {}
        self.network = Network(self.clock, self.rng("network"), self._hosts_by_address, self.trace.note)
        self.onlookers: list[Onlooker] = []
        self._acting: dict[Host, None] = {}
        self._queue: WithholdingQueue | None = None
        self.clock.before_it_moves = self._look

    def rng(self, purpose: str) -> Random:
        """Chance for one purpose: what others draw does not disturb it."""
        return Random(f"{self.seed}/{purpose}")

    def add_host(self, name: str) -> Host:
        """A machine with an empty disk, which the others reach under `name`."""
        address = f"10.0.0.{len(self.hosts) + 1}"
        volume = Volume(name, self.clock, self.rng(f"disk/{name}"), self.trace.note)
        host = Host(name, address, self.clock, self.trace, volume, self.rng, self._pauses_changed)
        host.before_it_ends = self._look_at_last
        self.hosts[name] = self._hosts_by_address[address] = host
        return host

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run `main` to its end, in as little real time as it takes.

        Raises what it raises, Stuck, Livelock, ThreadStarted.
        """

        async def prepared() -> T:
            trio.socket.set_custom_socket_factory(SimulatedSocketFactory(self.network))
            trio.socket.set_custom_hostname_resolver(SimulatedResolver(self.hosts))
            spinning: list[str] = []

            def on_livelock(task_name: str) -> None:
                spinning.append(task_name)
                scope.cancel()

            self._queue = withhold_tasks(_is_on_paused_host, self.clock.current_time, self._begin_batch, on_livelock)
            with trio.CancelScope() as scope:
                self.clock.on_stuck = scope.cancel
                return await main()
            if spinning:
                raise Livelock(f"{spinning[0]} runs on and on, and no time passes")
            raise Stuck(STUCK)

        return run_deterministically(prepared, seed=f"{self.seed}/tasks", clock=self.clock)

    async def on(self, host: Host, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run a function as if on a host: its sockets are the host's."""
        token = HOST.set(host)
        try:
            return await function(*args)
        finally:
            HOST.reset(token)

    def heal(self) -> None:
        """Take every fault of network, disks and clocks away, and let paused processes go on."""
        self.network.heal()
        for host in self.hosts.values():
            host.volume.heal()
            host.wall_offset_s = 0.0
            host.resume()

    def _begin_batch(self, tasks: Sequence[trio.lowlevel.Task]) -> None:
        self._look()
        self.trace.run([task.name for task in tasks])
        if self.onlookers:
            for task in tasks:
                host = task.context.get(HOST)
                if host is not None:
                    self._acting[host] = None

    def _look(self) -> None:
        """Show the onlookers what has become of the hosts that acted in the last batch of steps."""
        if self._acting:
            acting, self._acting = list(self._acting), {}
            for onlooker in self.onlookers:
                onlooker.look(acting)

    def _look_at_last(self, host: Host) -> None:
        for onlooker in self.onlookers:
            onlooker.look_at_last(host)

    def _pauses_changed(self) -> None:
        assert self._queue is not None, "hosts are paused while the simulation runs"
        self._queue.is_watching = any(host.is_paused for host in self.hosts.values())
        self._queue.release()


def _is_on_paused_host(task: trio.lowlevel.Task) -> bool:
    host = task.context.get(HOST)
    return host is not None and host.is_paused
