"""Faults of network links."""

from collections.abc import Iterator

import trio

from jepsen.simulation.faults.fault import Strike
from jepsen.simulation.hosts import Host
from jepsen.simulation.network.links import Link

# The first limit is below most timeouts, the second one exceeds session timeouts.
HOLD_SECONDS_MAX = (1.5, 12.0)


def links_of(strike: Strike, host: Host) -> Iterator[tuple[Link, Link]]:
    """The links from and to all other hosts."""
    links = strike.cluster.simulation.network.links
    for other in strike.everyone:
        if other is not host:
            yield links.link(host.name, other.name), links.link(other.name, host.name)


async def hold(strike: Strike) -> None:
    """Let a fault last for a while, then heal the network."""
    await trio.sleep(strike.rng.uniform(0.05, strike.rng.choice(HOLD_SECONDS_MAX)))
    strike.cluster.simulation.network.heal()


def cut(strike: Strike, one: Host, other: Host) -> None:
    links = strike.cluster.simulation.network.links
    links.link(one.name, other.name).is_blocked = links.link(other.name, one.name).is_blocked = True


class Isolate:
    """One host, node or client, is cut off from all others."""

    async def strike(self, strike: Strike) -> None:
        for there, back in links_of(strike, strike.rng.choice(strike.everyone)):
            there.is_blocked = back.is_blocked = True
        await hold(strike)


class OneWay:
    """A node can send but not receive, or receive but not send."""

    async def strike(self, strike: Strike) -> None:
        hears = strike.rng.random() < 0.5
        for there, back in links_of(strike, strike.a_node()):
            (there if hears else back).is_blocked = True
        await hold(strike)


class Halves:
    """All hosts are split into two groups that cannot reach each other."""

    async def strike(self, strike: Strike) -> None:
        hosts = strike.rng.sample(strike.everyone, len(strike.everyone))
        half = len(hosts) // 2
        for one in hosts[:half]:
            for other in hosts[half:]:
                cut(strike, one, other)
        await hold(strike)


class IsolateLeader:
    """Cut the leader of the quorum off from the other nodes; its clients still reach it."""

    async def strike(self, strike: Strike) -> None:
        leader = strike.cluster.leader
        for other in strike.nodes:
            if leader is not None and other is not leader:
                cut(strike, leader, other)
        await hold(strike)


class Bridge:
    """Two groups of nodes cannot reach each other, and one node reaches both."""

    async def strike(self, strike: Strike) -> None:
        _, *nodes = strike.rng.sample(strike.nodes, len(strike.nodes))
        half = len(nodes) // 2
        for one in nodes[:half]:
            for other in nodes[half:]:
                cut(strike, one, other)
        await hold(strike)


class Ring:
    """Every node reaches a majority, but no two nodes reach the same one. Has an effect with four nodes or more."""

    async def strike(self, strike: Strike) -> None:
        nodes = strike.rng.sample(strike.nodes, len(strike.nodes))
        count = len(nodes)
        neighbours = (count // 2 + 1) // 2  # on each side
        for at, one in enumerate(nodes):
            for distance in range(neighbours + 1, count - neighbours):
                cut(strike, one, nodes[(at + distance) % count])
        await hold(strike)


class Flapping:
    """The links of a node fail and recover repeatedly."""

    async def strike(self, strike: Strike) -> None:
        host = strike.a_node()
        for _ in range(strike.rng.randint(3, 12)):
            for there, back in links_of(strike, host):
                there.is_blocked = strike.rng.random() < 0.5
                back.is_blocked = strike.rng.random() < 0.5
            await trio.sleep(strike.rng.uniform(0.01, 0.6))
            strike.cluster.simulation.network.heal()
            await trio.sleep(strike.rng.uniform(0.01, 0.3))


class Slow:
    """All messages from and to a node are delayed, in one of three cases beyond all timeouts."""

    async def strike(self, strike: Strike) -> None:
        latency = strike.rng.choice((0.05, 0.25, 5.0))
        for there, back in links_of(strike, strike.a_node()):
            there.latency = back.latency = latency * strike.rng.random()
        await hold(strike)


class Lossy:
    """Segments from and to a node are lost and have to be retransmitted."""

    async def strike(self, strike: Strike) -> None:
        for there, back in links_of(strike, strike.a_node()):
            there.loss, back.loss = strike.rng.uniform(0, 0.4), strike.rng.uniform(0, 0.4)
        await hold(strike)


class Reset:
    """Every connection of a node is reset."""

    async def strike(self, strike: Strike) -> None:
        host = strike.a_node()
        for other in strike.everyone:
            strike.cluster.simulation.network.reset_between(host, other)
