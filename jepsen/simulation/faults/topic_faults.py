"""Administrative changes of topics. They are not faults, but come at unfavourable times and in quick succession."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

import trio

from jepsen.simulation.faults.fault import Strike, TopicAdministrator
from jepsen.simulation.faults.network_faults import cut, hold
from jepsen.simulation.faults.process_faults import DOWN_SECONDS_MAX

BURST_MAX: Final = 6
# The longest time for which changes are tried if no node responds.
BURST_SECONDS_MAX: Final = 8.0
BROKEN_SECONDS_MAX: Final = 6.0
BETWEEN_KILLS_SECONDS_MAX: Final = 2.0


class Administer:
    """Performs `act` several times in quick succession."""

    def __init__(self, act: Callable[[TopicAdministrator, Random], Awaitable[None]]) -> None:
        self._act = act

    async def strike(self, strike: Strike) -> None:
        if strike.topics is None:
            return
        with trio.move_on_after(BURST_SECONDS_MAX):
            for _ in range(strike.rng.randint(1, BURST_MAX)):
                await self._act(strike.topics, strike.rng)
                await trio.sleep(strike.rng.choice((0.0, 0.01, 0.3, 1.5)) * strike.rng.random())


class LoseLogDir:
    """A broker loses its log directory, but keeps its metadata."""

    async def strike(self, strike: Strike) -> None:
        if strike.topics is not None:
            await strike.topics.lose_log_dir(strike.rng)


class BreakLogDir:
    """A log directory fails: its partitions are offline until the broker restarts (KIP-858)."""

    async def strike(self, strike: Strike) -> None:
        if strike.topics is None:
            return
        host = strike.cluster.nodes[strike.topics.break_log_dir(strike.rng)]
        await trio.sleep(strike.rng.uniform(0.05, BROKEN_SECONDS_MAX))
        host.volume.broken = ()
        await trio.sleep(strike.rng.uniform(0, BROKEN_SECONDS_MAX))
        if strike.cluster.has_log_dir_offline(host):
            strike.cluster.crash(host, power=False, down_seconds=0)


class IsolatePartitionLeader:
    """Cut the leader of a partition off from the other nodes, or from the controller only; clients reach it.

    `choose` selects the leader.
    """

    def __init__(
        self,
        choose: Callable[[TopicAdministrator, Random], str | None] = lambda topics, rng: topics.leader_of_any(rng),
    ) -> None:
        self._choose = choose

    async def strike(self, strike: Strike) -> None:
        name = None if strike.topics is None else self._choose(strike.topics, strike.rng)
        if name is None:
            return
        leader, controller = strike.cluster.nodes[name], strike.cluster.leader
        others = strike.nodes if strike.rng.random() < 0.5 or controller is None else [controller]
        for other in others:
            if other is not leader:
                cut(strike, leader, other)
        await hold(strike)


class KillCoordinator:
    """kill -9 of a coordinator of groups or transactions, and sometimes of the next one as soon as it is elected."""

    async def strike(self, strike: Strike) -> None:
        for _ in range(strike.rng.choice((1, 1, 2, 3))):
            name = None if strike.topics is None else strike.topics.coordinator_of_any(strike.rng)
            if name is not None:
                down_seconds = strike.rng.uniform(0, DOWN_SECONDS_MAX)
                strike.cluster.crash(strike.cluster.nodes[name], power=False, down_seconds=down_seconds)
            await trio.sleep(strike.rng.uniform(0, BETWEEN_KILLS_SECONDS_MAX))
