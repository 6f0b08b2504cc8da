"""The context of faults: the cluster, random numbers, and the processes that are affected at present."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Final, Protocol

import attrs
import trio

from jepsen.processes.cluster_status import (
    Coordinated,
    PartitionStatus,
    any_topic_status,
    coordinator_id,
    quorum_status,
)
from jepsen.processes.links import Pair
from jepsen.processes.nodes import NodeProcess, ProcessCluster
from jepsen.store import Fault as FaultRecord

# The timeout of a request for the leader: while faults occur, no node may know one.
_LOOK_SECONDS: Final = 2.0


@attrs.define(eq=False)
class FaultContext:
    """`faults` is what was broken so far. `now` is in seconds since the run began; `topic` and `groups` are what
    clients use, and `state_topics` the internal topics that groups rely on.

    `record_node_failure` records nodes that do not start or stop when requested.
    """

    cluster: ProcessCluster
    topic: str
    rng: Random
    now: Callable[[], float]
    record_node_failure: Callable[[str], None]
    groups: Sequence[str] = ()
    state_topics: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    faults: list[FaultRecord] = attrs.field(factory=list)
    _victims: list[NodeProcess] = attrs.field(factory=list, init=False)

    @property
    def coordinated(self) -> list[Coordinated]:
        groups = [Coordinated(group) for group in self.groups]
        return groups + [Coordinated(each, is_transactional=True) for each in self.transactional_ids]

    @property
    def names(self) -> list[str]:
        return list(self.cluster.nodes)

    def healthy(self) -> list[NodeProcess]:
        """The nodes whose processes no fault has affected."""
        return [each for each in self.cluster.nodes.values() if each not in self._victims and each.is_running]

    @contextmanager
    def recorded(self, kind: str, targets: Iterable[str], detail: str = "") -> Iterator[None]:
        """While something is broken."""
        at = len(self.faults)
        self.faults.append(FaultRecord(kind, tuple(targets), self.now(), detail=detail))
        try:
            yield
        finally:
            self.faults[at] = attrs.evolve(self.faults[at], ended_at=self.now())

    @contextmanager
    def claimed(self, victims: Sequence[NodeProcess]) -> Iterator[None]:
        """Within the block, no other fault may affect these processes."""
        self._victims += victims
        try:
            yield
        finally:
            for victim in victims:
                self._victims.remove(victim)

    @contextmanager
    def cut(self, pairs: Sequence[Pair]) -> Iterator[None]:
        """Within the block, hold the bytes from the first to the second of each pair."""
        self.cluster.links.shut(pairs)
        try:
            yield
        finally:
            self.cluster.links.open(pairs)

    async def controller(self) -> NodeProcess | None:
        """The node with the active controller, if one is known."""
        with trio.move_on_after(_LOOK_SECONDS):
            return self.cluster.by_id((await quorum_status(self.cluster)).leader_id)
        return None

    async def partition_leader(self) -> tuple[NodeProcess, PartitionStatus] | None:
        """The leader of a random partition, with the partition; None if no node knows one."""
        topic = self.rng.choice((self.topic, *self.state_topics))
        partitions = await any_topic_status(self.cluster, topic, within_seconds=_LOOK_SECONDS)
        led = [each for each in partitions if each.leader >= 0]
        if not led:
            return None
        partition = self.rng.choice(led)
        return self.cluster.by_id(partition.leader), partition

    async def coordinator(self) -> tuple[NodeProcess, Coordinated] | None:
        """The coordinator of a random group or transactional id, with that; None if there is none, or no node knows."""
        if not self.coordinated:
            return None
        coordinated = self.rng.choice(self.coordinated)
        with trio.move_on_after(_LOOK_SECONDS):
            node_id = await coordinator_id(self.cluster, coordinated)
            return None if node_id is None else (self.cluster.by_id(node_id), coordinated)
        return None


class Fault(Protocol):
    """A kind of fault. `inject` starts it, and ends it after about `seconds`."""

    async def inject(self, context: FaultContext, seconds: float) -> None: ...


def between(some: Sequence[str], others: Sequence[str]) -> list[Pair]:
    """All pairs of one name from each list, in both directions."""
    return [pair for one in some for other in others for pair in ((one, other), (other, one))]
