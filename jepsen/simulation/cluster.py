"""The nodes of a simulation: one process for each host, restarted whenever it has ended."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TypeAlias

import trio

from jepsen.simulation.hosts import Host, Process
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.trace import Event
from kraft.env import Env

NodeFactory: TypeAlias = Callable[[Env], Process]

# The delay after which a process that has ended by itself is restarted.
RESTART_SECONDS = 0.5


class Cluster:
    """The hosts of `nodes` by name, and the `ids` that nodes have traced. `leader` is the latest elected leader.

    `power_cuts` counts the power cuts of each node, each of which may have lost its unsynced writes.
    """

    def __init__(self, simulation: Simulation, factories: Mapping[str, NodeFactory]) -> None:
        self.simulation = simulation
        self.nodes = {name: simulation.add_host(name) for name in factories}
        self.clients: dict[str, Host] = {}
        self.applications: dict[str, Host] = {}
        self.power_cuts = dict.fromkeys(factories, 0)
        self.ids: dict[str, object] = {}
        self.leader: Host | None = None
        self._offline: dict[str, int] = {}
        self._factories = factories
        simulation.trace.listeners.append(self._observe)

    def add_client(self, name: str) -> Host:
        """Add a machine for a client. Only faults of the network affect it."""
        self.clients[name] = self.simulation.add_host(name)
        return self.clients[name]

    def add_application(self, name: str) -> Host:
        """Add a machine for a process of an application. Faults affect it as they affect nodes, see `victims`."""
        self.applications[name] = self.simulation.add_host(name)
        return self.applications[name]

    def remove_application(self, name: str) -> None:
        """Spare a machine whose process has finished its work from further faults."""
        del self.applications[name]

    @property
    def victims(self) -> Sequence[Host]:
        """The machines with processes and disks that faults may affect."""
        return [*self.nodes.values(), *self.applications.values()]

    @property
    def all_serve(self) -> bool:
        return all(host.is_serving for host in self.nodes.values())

    def has_log_dir_offline(self, host: Host) -> bool:
        """True if a node has a log directory that is offline until the next restart."""
        return self._offline.get(host.name) == host.incarnation

    async def run(self) -> None:
        """Restart nodes that end, until cancelled; then kill all nodes."""
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
        """Restart a machine with an empty disk at `path`. `lost` are the fields of the traced event."""
        self.crash(host, power=True, down_seconds=0)
        host.volume.lose(path)
        self.simulation.trace.event(host.name, "disk_lost", lost)

    def lose_logs(self, host: Host, path: str) -> None:
        """Restart a machine without the log directory at `path`."""
        self.crash(host, power=True, down_seconds=0)
        host.volume.lose(path)
        self.simulation.trace.event(host.name, "logs_lost", {})

    def damage_disk(self, host: Host, directory: str, endings: Sequence[str], rng: Random) -> None:
        """Restart a machine with a flipped bit in one of its files; see `Volume.flip_bit`."""
        self.crash(host, power=True, down_seconds=0)
        where = host.volume.flip_bit(directory, endings, rng)
        if where is not None:
            self.simulation.trace.event(host.name, "disk_damaged", {"where": where})

    async def stop(self, host: Host, *, timeout_seconds: float, down_seconds: float) -> None:
        """Stop a node cleanly. Kill it if it has not ended after `timeout_seconds`."""
        ended = host.ended
        host.stop()
        with trio.move_on_after(timeout_seconds):
            await ended.wait()
        host.held_down_until = trio.current_time() + down_seconds
        if not ended.is_set():
            host.kill()

    def heal(self) -> None:
        """Remove all faults and restart nodes that are down or have an offline log directory."""
        for host in self.victims:
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
        if event.kind == "power_cut" and event.host in self.power_cuts:
            self.power_cuts[event.host] += 1
        elif event.kind == "log_recovered":
            self.ids[event.host] = event.fields["node"]
        elif event.kind == "storage_log_dir_offline":
            self._offline[event.host] = self.nodes[event.host].incarnation
        elif event.kind == "role_changed" and event.fields["role"] == "leader":
            self.leader = self.nodes[event.host]
