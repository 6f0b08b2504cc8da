"""The operations of a client that round-trip tests need: write records, and read them."""

from collections.abc import Mapping
from typing import Protocol

from tests.support.records import ClientRecord, Consumed, Shape

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

# The time limit of a pass over a topic. Only a broker that has stopped responding exceeds it.
PASS_TIMEOUT_S = 180.0


class Driver(Protocol):
    """One third-party client, driven synchronously, without a consumer group."""

    name: str
    shape: Shape

    def produce(self, bootstrap: str, topic: str, records: list[ClientRecord], compression: str) -> None:
        """Write the records in order with acks=all. Raises unless the broker acknowledged all of them."""
        ...

    def consume(self, bootstrap: str, topic: str, counts: Mapping[int, int]) -> dict[int, list[Consumed]]:
        """Read `counts` records of each partition from its beginning."""
        ...


class Progress:
    """Collects the records of a consumer until every partition has returned its count."""

    def __init__(self, counts: Mapping[int, int]) -> None:
        self._missing = sum(counts.values())
        self.read: dict[int, list[Consumed]] = {partition: [] for partition in counts}

    @property
    def done(self) -> bool:
        return self._missing <= 0

    def add(self, consumed: Consumed) -> None:
        self.read[consumed.record.partition].append(consumed)
        self._missing -= 1

    def require(self, deadline_passed: bool) -> None:
        """Raises AssertionError if the deadline has passed before all records were read."""
        assert not deadline_passed, f"time is over with {self._missing} records still to come"
