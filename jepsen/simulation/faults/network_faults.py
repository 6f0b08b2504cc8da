"""Faults of network links."""

from collections.abc import Iterator

import trio

from jepsen.simulation.faults.fault import FaultInjection
from jepsen.simulation.hosts import Host
from jepsen.simulation.network.links import Link

# The first limit is below most timeouts, the second one exceeds session timeouts.
HOLD_SECONDS_MAX = (1.5, 12.0)


def links_of(injection: FaultInjection, host: Host) -> Iterator[tuple[Link, Link]]:
    """The links from and to all other hosts."""
    links = injection.cluster.simulation.network.links
    for other in injection.all_hosts:
        if other is not host:
            yield links.link(host.name, other.name), links.link(other.name, host.name)


async def hold(injection: FaultInjection) -> None:
    """Let a fault last for a while, then heal the network."""
    await trio.sleep(injection.rng.uniform(0.05, injection.rng.choice(HOLD_SECONDS_MAX)))
    injection.cluster.simulation.network.heal()


def cut(injection: FaultInjection, one: Host, other: Host) -> None:
    links = injection.cluster.simulation.network.links
    links.link(one.name, other.name).is_blocked = links.link(other.name, one.name).is_blocked = True


class Isolate:
    """One host, node or client, is cut off from all others."""

    async def inject(self, injection: FaultInjection) -> None:
        for there, back in links_of(injection, injection.rng.choice(injection.all_hosts)):
            there.is_blocked = back.is_blocked = True
        await hold(injection)


class OneWay:
    """A node can send but not receive, or receive but not send."""

    async def inject(self, injection: FaultInjection) -> None:
        hears = injection.rng.random() < 0.5
        for there, back in links_of(injection, injection.random_victim()):
            (there if hears else back).is_blocked = True
        await hold(injection)


class Halves:
    """All hosts are split into two groups that cannot reach each other."""

    async def inject(self, injection: FaultInjection) -> None:
        hosts = injection.rng.sample(injection.all_hosts, len(injection.all_hosts))
        half = len(hosts) // 2
        for one in hosts[:half]:
            for other in hosts[half:]:
                cut(injection, one, other)
        await hold(injection)


class IsolateLeader:
    """Cut the leader of the quorum off from the other nodes; its clients still reach it."""

    async def inject(self, injection: FaultInjection) -> None:
        leader = injection.cluster.leader
        for other in injection.nodes:
            if leader is not None and other is not leader:
                cut(injection, leader, other)
        await hold(injection)


class Bridge:
    """Two groups of nodes cannot reach each other, and one node reaches both."""

    async def inject(self, injection: FaultInjection) -> None:
        _, *nodes = injection.rng.sample(injection.nodes, len(injection.nodes))
        half = len(nodes) // 2
        for one in nodes[:half]:
            for other in nodes[half:]:
                cut(injection, one, other)
        await hold(injection)


class Ring:
    """Every node reaches a majority, but no two nodes reach the same one. Has an effect with four nodes or more."""

    async def inject(self, injection: FaultInjection) -> None:
        nodes = injection.rng.sample(injection.nodes, len(injection.nodes))
        count = len(nodes)
        neighbours = (count // 2 + 1) // 2  # on each side
        for at, one in enumerate(nodes):
            for distance in range(neighbours + 1, count - neighbours):
                cut(injection, one, nodes[(at + distance) % count])
        await hold(injection)


class Flapping:
    """The links of a node fail and recover repeatedly."""

    async def inject(self, injection: FaultInjection) -> None:
        host = injection.random_victim()
        for _ in range(injection.rng.randint(3, 12)):
            for there, back in links_of(injection, host):
                there.is_blocked = injection.rng.random() < 0.5
                back.is_blocked = injection.rng.random() < 0.5
            await trio.sleep(injection.rng.uniform(0.01, 0.6))
            injection.cluster.simulation.network.heal()
            await trio.sleep(injection.rng.uniform(0.01, 0.3))


class Slow:
    """All messages from and to a node are delayed, in one of three cases beyond all timeouts."""

    async def inject(self, injection: FaultInjection) -> None:
        latency = injection.rng.choice((0.05, 0.25, 5.0))
        for there, back in links_of(injection, injection.random_victim()):
            there.latency = back.latency = latency * injection.rng.random()
        await hold(injection)


class Lossy:
    """Segments from and to a node are lost and have to be retransmitted."""

    async def inject(self, injection: FaultInjection) -> None:
        for there, back in links_of(injection, injection.random_victim()):
            there.loss, back.loss = injection.rng.uniform(0, 0.4), injection.rng.uniform(0, 0.4)
        await hold(injection)


class Reset:
    """Every connection of a node is reset."""

    async def inject(self, injection: FaultInjection) -> None:
        host = injection.random_victim()
        for other in injection.all_hosts:
            injection.cluster.simulation.network.reset_between(host, other)
