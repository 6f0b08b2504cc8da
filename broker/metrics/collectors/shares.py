"""The share sessions, and the share-partitions that this broker leads."""

from collections.abc import Iterable, Iterator
from typing import Final

from broker.metrics.catalogue import shares
from broker.metrics.metric import Family, Sample
from broker.share_partitions.manager import SharePartitionManager
from metadata.protocol import AcknowledgeType

_TYPES: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW)


class SharePartitionCollector:
    """Reads the sessions and share-partitions of `manager`."""

    def __init__(self, manager: SharePartitionManager) -> None:
        self._manager = manager

    def collect(self) -> Iterable[Family]:
        sessions, counts = self._manager.sessions, self._manager.counts
        yield shares.SESSION_COUNT.single(len(sessions))
        yield shares.SESSION_PARTITION_COUNT.single(sessions.partition_count)
        yield shares.SESSION_EVICTIONS.single(sessions.evicted)
        yield shares.IN_FLIGHT_RECORDS, self._in_flight_records()
        yield shares.IN_FLIGHT_BATCHES, self._in_flight_batches()
        yield shares.LOCK_TIMEOUTS.single(counts.locks_expired)
        yield (
            shares.ACKNOWLEDGEMENTS,
            [Sample((kind.name.capitalize(),), counts.acknowledged[kind]) for kind in _TYPES],
        )
        dead = list(self._manager.dead_letters.counts.items())
        yield shares.DEAD_LETTERS, [Sample((group,), each.records) for group, each in dead]
        yield shares.DEAD_LETTER_REQUESTS, [Sample((group,), each.requests) for group, each in dead]
        yield shares.DEAD_LETTER_FAILURES, [Sample((group,), each.failed_requests) for group, each in dead]

    def _in_flight_records(self) -> Iterator[Sample]:
        for labels, state in self._manager.loaded_states():
            yield Sample(labels, state.in_flight_count)

    def _in_flight_batches(self) -> Iterator[Sample]:
        for labels, state in self._manager.loaded_states():
            yield Sample(labels, state.batch_count)
