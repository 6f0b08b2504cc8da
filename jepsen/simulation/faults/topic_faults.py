"""Administrative changes of topics. They are not faults, but come at unfavourable times and in quick succession."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

import trio

from jepsen.simulation.faults.fault import FaultInjection, TopicAdministrator
from jepsen.simulation.faults.network_faults import cut, hold
from jepsen.simulation.faults.process_faults import DOWN_SECONDS_MAX
from jepsen.simulation.hosts import Host
from jepsen.simulation.trace import Event

BURST_MAX: Final = 6
# The longest time for which changes are tried if no node responds.
BURST_SECONDS_MAX: Final = 8.0
BROKEN_SECONDS_MAX: Final = 6.0
BETWEEN_KILLS_SECONDS_MAX: Final = 2.0
BETWEEN_FLIPS_SECONDS_MAX: Final = 2.0
# The controller answers, and the copy replaces the log, between the second event and the third.
_STEPS_OF_MOVES: Final = ("replica_move_began", *("replica_move_assigned",) * 2, "replica_moved")


class Administer:
    """Performs `act` several times in quick succession."""

    def __init__(self, act: Callable[[TopicAdministrator, Random], Awaitable[None]]) -> None:
        self._act = act

    async def inject(self, injection: FaultInjection) -> None:
        if injection.topics is None:
            return
        with trio.move_on_after(BURST_SECONDS_MAX):
            for _ in range(injection.rng.randint(1, BURST_MAX)):
                await self._act(injection.topics, injection.rng)
                await trio.sleep(injection.rng.choice((0.0, 0.01, 0.3, 1.5)) * injection.rng.random())


class LoseLogDir:
    """A broker loses its log directory, but keeps its metadata."""

    async def inject(self, injection: FaultInjection) -> None:
        if injection.topics is not None:
            await injection.topics.lose_log_dir(injection.rng)


class DataBitFlip:
    """Bits flip in files of partitions, one after the other, each on one of the partition's replicas."""

    async def inject(self, injection: FaultInjection) -> None:
        for _ in range(injection.rng.randint(1, BURST_MAX)):
            if injection.topics is not None:
                injection.topics.flip_bit(injection.rng)
            await trio.sleep(injection.rng.uniform(0, BETWEEN_FLIPS_SECONDS_MAX))


class BreakLogDir:
    """A log directory fails: its partitions are offline until the broker restarts (KIP-858)."""

    async def inject(self, injection: FaultInjection) -> None:
        if injection.topics is None:
            return
        await _repair_log_dir(injection, injection.cluster.nodes[injection.topics.break_log_dir(injection.rng)])


class BreakMovingLogDir:
    """Replicas move between log directories, and the new or the old directory of a move fails at one of its steps."""

    async def inject(self, injection: FaultInjection) -> None:
        topics, rng, trace = injection.topics, injection.rng, injection.cluster.simulation.trace
        if topics is None or len(topics.log_directories) == 1:
            return
        step, breaks_new = rng.choice(_STEPS_OF_MOVES), rng.random() < 0.7
        broken: list[Host] = []

        def listen(event: Event) -> None:
            if event.kind == step and not broken:
                host = injection.cluster.nodes[event.host]
                path = str(event.fields["path"])
                chosen = [each for each in topics.log_directories if path.startswith(f"{each}/") is breaks_new]
                host.volume.broken = (rng.choice(chosen),)
                broken.append(host)

        trace.listeners.append(listen)
        try:
            await Administer(lambda topics, rng: topics.move_log_dir(rng)).inject(injection)
            await trio.sleep(rng.uniform(0, BROKEN_SECONDS_MAX))
        finally:
            trace.listeners.remove(listen)
        for host in broken:
            await _repair_log_dir(injection, host)


async def _repair_log_dir(injection: FaultInjection, host: Host) -> None:
    """Repair a broken log directory after a while, and then restart the node, which would not use it again."""
    await trio.sleep(injection.rng.uniform(0.05, BROKEN_SECONDS_MAX))
    host.volume.broken = ()
    await trio.sleep(injection.rng.uniform(0, BROKEN_SECONDS_MAX))
    if injection.cluster.has_log_dir_offline(host):
        injection.cluster.crash(host, power=False, down_seconds=0)


class IsolatePartitionLeader:
    """Cut the leader of a partition off from the other nodes, or from the controller only; clients reach it.

    `choose` selects the leader.
    """

    def __init__(
        self,
        choose: Callable[[TopicAdministrator, Random], str | None] = lambda topics, rng: topics.leader_of_any(rng),
    ) -> None:
        self._choose = choose

    async def inject(self, injection: FaultInjection) -> None:
        name = None if injection.topics is None else self._choose(injection.topics, injection.rng)
        if name is None:
            return
        leader, controller = injection.cluster.nodes[name], injection.cluster.leader
        others = injection.nodes if injection.rng.random() < 0.5 or controller is None else [controller]
        for other in others:
            if other is not leader:
                cut(injection, leader, other)
        await hold(injection)


class KillCoordinator:
    """kill -9 of a coordinator of groups or transactions, and sometimes of the next one as soon as it is elected."""

    async def inject(self, injection: FaultInjection) -> None:
        for _ in range(injection.rng.choice((1, 1, 2, 3))):
            name = None if injection.topics is None else injection.topics.coordinator_of_any(injection.rng)
            if name is not None:
                down_seconds = injection.rng.uniform(0, DOWN_SECONDS_MAX)
                injection.cluster.crash(injection.cluster.nodes[name], power=False, down_seconds=down_seconds)
            await trio.sleep(injection.rng.uniform(0, BETWEEN_KILLS_SECONDS_MAX))
