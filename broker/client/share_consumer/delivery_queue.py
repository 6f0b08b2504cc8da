"""The acquired records that the application has not been given yet, and why some of them cannot be given."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic

from broker.client.serializers import Deserializer, deserialized
from broker.client.share_consumer.acknowledgements import Outcome
from broker.client.share_consumer.acquired_records import AcquiredPartition, AcquiredRange
from broker.client.share_consumer.deliveries import Deliveries, Delivery
from broker.client.share_consumer.errors import UnreadableRecords
from broker.client.types import ConsumerRecord, K, ShareRecord, V
from metadata.protocol import AcknowledgeType


class DeliveryQueue(Generic[K, V]):
    """See the module's docstring.

    Records whose locks have ended are dropped: other consumers are given them. Times are those of Trio's clock.
    """

    def __init__(
        self,
        deliveries: Deliveries[K, V],
        key_deserializer: Deserializer[K] | None,
        value_deserializer: Deserializer[V] | None,
        *,
        is_limited: bool,
    ) -> None:
        self._deliveries = deliveries
        self._is_limited = is_limited
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._acquired: deque[AcquiredPartition] = deque()
        self._ready: deque[Delivery[K, V]] = deque()
        self._failures: deque[tuple[UnreadableRecords, AcquiredPartition, list[Outcome]]] = deque()

    @property
    def is_empty(self) -> bool:
        return not (self._acquired or self._ready or self._failures)

    def add(self, acquired: AcquiredPartition) -> None:
        self._acquired.append(acquired)

    def put_back(self, deliveries: Iterable[Delivery[K, V]]) -> None:
        """Has these records given next."""
        self._ready.extendleft(reversed(list(deliveries)))

    def has_ready(self, now: float) -> bool:
        """True if `take_one` has a record to return."""
        while self._ready and self._ready[0].lock_ends <= now:
            self._ready.popleft()
        return bool(self._ready)

    def take_one(self) -> Delivery[K, V]:
        return self._ready.popleft()

    def take(self, limit: int, now: float) -> list[Delivery[K, V]]:
        """The next records: whole acquired ranges, until there are `limit` records, and no more if it `is_limited`.

        Raises UnreadableRecords. Where an error comes after some records, the next call raises it.
        """
        self._ready = deque(each for each in self._ready if each.lock_ends > now)
        while len(self._ready) < limit and self._acquired and not self._failures:
            acquired = self._acquired[0]
            if not acquired.is_exhausted and acquired.lock_ends > now:
                self._read(acquired)
            if acquired.is_exhausted or acquired.lock_ends <= now:
                self._acquired.popleft()
        if not self._ready and self._failures:
            error, acquired, outcomes = self._failures.popleft()
            self._deliveries.add_unreadable(acquired.source, outcomes)
            raise error
        count = min(limit, len(self._ready)) if self._is_limited else len(self._ready)
        return [self._ready.popleft() for _ in range(count)]

    def _read(self, acquired: AcquiredPartition) -> None:
        found = acquired.read()
        for first, last in found.gaps():
            self._deliveries.add_gap(acquired.source, first, last)
        if found.unreadable is not None:
            first, last, outcome, error = found.first, found.last, found.unreadable.outcome, found.unreadable.error
            self._failed(acquired, range(first, last + 1), [Outcome(first, last, outcome)], error)
        failed: list[int] = []
        cause: Exception | None = None
        for record in found.records:
            try:
                self._ready.append(self._delivery(acquired, found, record))
            except Exception as error:  # noqa: BLE001 - of the application's deserializer; it is told
                failed.append(record.offset)
                cause = cause or error
        if cause is not None:
            outcomes = [Outcome(offset, offset, AcknowledgeType.RELEASE) for offset in failed]
            self._failed(acquired, failed, outcomes, cause)

    def _delivery(self, acquired: AcquiredPartition, found: AcquiredRange, record: ConsumerRecord) -> Delivery[K, V]:
        key = deserialized(self._key_deserializer, record.topic, record.key)
        value = deserialized(self._value_deserializer, record.topic, record.value)
        shared: ShareRecord[K, V] = ShareRecord(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            timestamp_type=record.timestamp_type,
            key=key,
            value=value,
            headers=record.headers,
            leader_epoch=record.leader_epoch,
            delivery_count=found.delivery_count,
        )
        return Delivery(shared, acquired.source, acquired.lock_ends)

    def _failed(
        self, acquired: AcquiredPartition, offsets: Sequence[int], outcomes: list[Outcome], cause: Exception
    ) -> None:
        what = "released" if outcomes[0].type is AcknowledgeType.RELEASE else "rejected"
        error = UnreadableRecords(str(cause) or type(cause).__name__, acquired.source.partition, offsets, what)
        error.__cause__ = cause
        self._failures.append((error, acquired, outcomes))
