"""The nodes of a simulation: one process for each host, started again whenever it has ended."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TypeAlias

import trio

from jepsen.simulation.hosts import Host, Process
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.trace import Event
from kraft.env import Env

NodeFactory: TypeAlias = Callable[[Env], Process]

# How soon a supervisor starts a process again that has ended by itself.
RESTART_SECONDS = 0.5


class Cluster:
    """`nodes` by name, their `ids` as far as anybody has told of them. `leader` is who was elected last.

    `power_cuts` counts those of each node: how often its unsynced writes may have been lost.
    """

    def __init__(self, simulation: Simulation, factories: Mapping[str, NodeFactory]) -> None:
        self.simulation = simulation
        self.nodes = {name: simulation.add_host(name) for name in factories}
        self.clients: dict[str, Host] = {}
        self.power_cuts = dict.fromkeys(factories, 0)
        self.ids: dict[str, object] = {}
        self.leader: Host | None = None
        self._offline: dict[str, int] = {}
        self._factories = factories
        simulation.trace.listeners.append(self._observe)

    def add_client(self, name: str) -> Host:
        """A machine that no fault befalls, apart from those of the network."""
        self.clients[name] = self.simulation.add_host(name)
        return self.clients[name]

    @property
    def all_serve(self) -> bool:
        return all(host.is_serving for host in self.nodes.values())

    def has_log_dir_offline(self, host: Host) -> bool:
        """True if a node has lost a log directory that it gets back only with a restart."""
        return self._offline.get(host.name) == host.incarnation

    async def run(self) -> None:
        """Keep every node running, until cancelled; then all of them are killed."""
        async with trio.open_nursery() as nursery:
            for name, host in self.nodes.items():
                nursery.start_soon(self._supervise, nursery, host, self._factories[name])
            try:
                await trio.sleep_forever()
            finally:
                for host in self.nodes.values():
                    host.volume.heal()  # a task cannot be cancelled while it waits for a stalled disk
                    host.kill()

    async def wait_serving(self) -> None:
        while not self.all_serve:
            await trio.sleep(0.05)

    def crash(self, host: Host, *, power: bool, down_seconds: float) -> None:
        """Kill a node's process, or cut its machine's power, for a while."""
        host.held_down_until = self.simulation.clock.now + down_seconds
        if power:
            host.power_cut()
        else:
            host.kill()

    def lose_disk(self, host: Host, path: str, **lost: object) -> None:
        """Have a machine come back with nothing at `path`, where another disk was; `lost` says for the trace what."""
        self.crash(host, power=True, down_seconds=0)
        host.volume.lose(path)
        self.simulation.trace.event(host.name, "disk_lost", lost)

    def lose_logs(self, host: Host, path: str) -> None:
        """Have a machine come back without its logs, which were at `path`."""
        self.crash(host, power=True, down_seconds=0)
        host.volume.lose(path)
        self.simulation.trace.event(host.name, "logs_lost", {})

    def damage_disk(self, host: Host, directory: str, endings: Sequence[str], rng: Random) -> None:
        """Have a machine come back with a bit turned around in a file; see `Volume.flip_bit`."""
        self.crash(host, power=True, down_seconds=0)
        where = host.volume.flip_bit(directory, endings, rng)
        if where is not None:
            self.simulation.trace.event(host.name, "disk_damaged", {"where": where})

    async def stop(self, host: Host, *, patience_seconds: float, down_seconds: float) -> None:
        """Have a node end cleanly; one that does not in time is killed."""
        ended = host.ended
        host.stop()
        with trio.move_on_after(patience_seconds):
            await ended.wait()
        host.held_down_until = trio.current_time() + down_seconds
        if not ended.is_set():
            host.kill()

    def heal(self) -> None:
        """Take all faults away, and let what is down come back. Broken log directories take another start."""
        for host in self.nodes.values():
            host.held_down_until = 0.0
        self.simulation.heal()
        for host in self.nodes.values():
            if self.has_log_dir_offline(host):
                self.crash(host, power=False, down_seconds=0)

    async def _supervise(self, nursery: trio.Nursery, host: Host, factory: NodeFactory) -> None:
        host.start(nursery, factory)
        while True:
            await host.ended.wait()
            await trio.sleep(RESTART_SECONDS)
            while trio.current_time() < host.held_down_until:
                await trio.sleep(RESTART_SECONDS)
            host.start(nursery, factory)

    def _observe(self, event: Event) -> None:
        if event.kind == "power_cut":
            self.power_cuts[event.host] += 1
        elif event.kind == "log_recovered":
            self.ids[event.host] = event.fields["node"]
        elif event.kind == "storage_log_dir_offline":
            self._offline[event.host] = self.nodes[event.host].incarnation
        elif event.kind == "role_changed" and event.fields["role"] == "leader":
            self.leader = self.nodes[event.host]
