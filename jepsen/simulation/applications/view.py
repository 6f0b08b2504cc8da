"""The state of a simulated cluster and of the application, for checks."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from broker.client.types import TopicPartition
from jepsen.simulation.applications.committed_records import CommittedRecord, CommittedRecords


class SimulatedCluster:
    """The state of a run at one instant of virtual time. Reading it takes no time and needs no client.

    Records and offsets are those that are committed, whether or not a node can serve them at present.
    """

    def __init__(
        self,
        records: CommittedRecords,
        observed: Mapping[str, Sequence[object]],
        finished: Mapping[str, None],
        now: Callable[[], float],
    ) -> None:
        self._records = records
        self._observed = observed
        self._finished = finished
        self._now = now

    @property
    def seconds(self) -> float:
        """The virtual seconds since the run began."""
        return self._now()

    def records(self, topic: str) -> list[CommittedRecord]:
        """The committed records of a topic, in the order of partitions and offsets; none if there is no such topic.

        Records of aborted transactions are left out, and those after the start of an open one (read_committed).
        """
        return list(self._records.records(topic))

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The committed offsets of a consumer group by partition; empty if it has none."""
        return self._records.offsets(group)

    def observed(self, name: str) -> list[object]:
        """The values that processes have passed to `Machine.observe` under this name, in their order."""
        return list(self._observed.get(name, ()))

    def has_finished(self, name: str) -> bool:
        """True if the function of a process has returned."""
        return name in self._finished


# A function that raises AssertionError if what it checks is not true.
Check: TypeAlias = Callable[[SimulatedCluster], object]
