"""Moves and changes the topics that clients use, and keeps the replicas without which data would be lost."""

from collections.abc import Sequence
from random import Random
from typing import Any, Final, Protocol

from broker.coordinator.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from jepsen.simulation.invariants import Committed
from jepsen.simulation.invariants.committed import CommittedLog
from jepsen.simulation.subjects.flipped_bits import FlippedBits
from jepsen.workloads.administration import configure, elect_preferred_leaders, move_log_dir, reassign

_COORDINATED: Final = (CONSUMER_OFFSETS, TRANSACTION_STATE)
# Configs that may be set on any topic without changing a promise.
_CONFIGS: Final = (
    ("segment.ms", ("700", "10000", "604800000")),
    ("segment.bytes", ("4000", "1073741824")),
    ("flush.ms", ("500", "9223372036854775807")),
    ("retention.ms", ("604800000", "900000000")),
)


class BrokerAccess(Protocol):
    """The administrator's access to brokers and their machines."""

    async def ask(self, task: Any, *args: Any) -> None:
        """Run `task(client, *args)` on the administrator's machine."""
        ...

    def lose_logs(self, name: str, directory: str) -> None:
        """Cut a node's power, and restart it without one of its log directories."""
        ...

    def break_logs(self, name: str, directory: str) -> None:
        """Fail all writes to one of a node's log directories until its disk is healed."""
        ...


class TopicMover:
    """Implements `jepsen.simulation.faults.fault.TopicAdministrator` for the partitions of `topics`."""

    def __init__(
        self,
        committed: Committed,
        topics: Sequence[str],
        log_directories: Sequence[str],
        flipped: FlippedBits,
        broker_access: BrokerAccess,
    ) -> None:
        self.flipped = flipped
        self._committed = committed
        self._topics = topics
        self.log_directories = log_directories
        self._broker_access = broker_access
        self._names = {broker_id: name for name, broker_id in committed.nodes.items()}

    def leader_of_any(self, rng: Random) -> str | None:
        return self._leader_of([log for _, log in self._used()], rng)

    def coordinator_of_any(self, rng: Random) -> str | None:
        return self._leader_of([log for _, log in self._used() if log.topic in _COORDINATED], rng)

    async def elect_leaders(self, rng: Random) -> None:
        used = self._used()
        index, log = rng.choice(used) if used else (0, None)
        await self._broker_access.ask(
            elect_preferred_leaders, None if log is None or rng.random() < 0.5 else log.topic, index
        )

    async def reassign(self, rng: Random) -> None:
        used = self._used()
        if used:
            index, log = rng.choice(used)
            await self._broker_access.ask(
                reassign, log.topic, index, None if rng.random() < 0.2 else self._target(log, rng)
            )

    async def move_log_dir(self, rng: Random) -> None:
        used = self._used()
        if used and len(self.log_directories) > 1:
            index, log = rng.choice(used)
            broker_id = rng.choice(log.image.replicas)
            await self._broker_access.ask(move_log_dir, log.topic, index, broker_id, rng.choice(self.log_directories))

    async def configure(self, rng: Random) -> None:
        name, values = rng.choice(_CONFIGS)
        await self._broker_access.ask(configure, rng.choice(self._topics), name, rng.choice(values))

    async def lose_log_dir(self, rng: Random) -> None:
        """Empty a log directory, only of a broker whose replicated partitions all have a full ISR."""
        choices = [name for broker_id, name in self._names.items() if self._is_dispensable(broker_id)]
        if choices:
            self._broker_access.lose_logs(rng.choice(choices), rng.choice(self.log_directories))

    def flip_bit(self, rng: Random) -> None:
        self.flipped.flip(rng)

    def break_log_dir(self, rng: Random) -> str:
        name = rng.choice(list(self._names.values()))
        self._broker_access.break_logs(name, rng.choice(self.log_directories))
        return name

    def _leader_of(self, logs: Sequence[CommittedLog], rng: Random) -> str | None:
        leaders = [log.image.leader for log in logs if log.image.leader in self._names]
        return self._names[rng.choice(leaders)] if leaders else None

    def _used(self) -> list[tuple[int, CommittedLog]]:
        """The partitions of the topics, with their indexes."""
        return [(key[1], log) for key, log in self._committed.logs.items() if log.topic in self._topics]

    def _target(self, log: CommittedLog, rng: Random) -> list[int]:
        """A random set of brokers, as many as the partition has replicas."""
        image = log.image
        count = len(image.replicas) - len(image.adding_replicas)
        return rng.sample(list(self._names), min(max(count, 1), len(self._names)))

    def _is_dispensable(self, broker_id: int) -> bool:
        for log in self._committed.logs.values():
            replicas = log.image.replicas
            is_well = sorted(log.image.isr) == sorted(replicas) and not log.unclean and not log.damaged
            if broker_id in replicas and len(replicas) > 1 and not is_well:
                return False
        return True
