"""Batches that idempotent producers have to send again before their later ones are accepted (KAFKA-15591).

A producer has several batches of a partition in flight. A broker that does not lead yet refuses the first one, leads a
moment later, and receives the second one. It does not know the producer, and has to accept any sequence
number from an unknown producer, because its records may have been deleted (KIP-360). The first batch could not be
appended after that: it would be lost, although the producer retries. So once a batch was refused, later batches on the
same connection are refused too, until that batch was sent again.

Kafka refuses them from 4.5 on, but only if the partition was never written to. It also refuses them after a topic was
created again, although producers may continue with their sequence numbers then.

A later batch that was in flight gets the error of the refused batch. Kafka answers OUT_OF_ORDER_SEQUENCE_NUMBER, also
if it knows the producer. After that error librdkafka increments its epoch, and sends the unacknowledged records of all
partitions again with the new epoch. A record that another partition has appended, and not acknowledged yet, is not
recognized as a duplicate then. After the error of the refused batch, clients retry both batches in their order.
"""

from typing import Final, TypeAlias

import attrs

from broker.replication.partition import Partition
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import BatchHeader
from kraft import lazy_attrs

# No client keeps a connection in use after waiting longer than this for a response (`request.timeout.ms`, 30 s).
REMEMBERED_MS: Final = 60_000
# The most requests that a connection may have in flight. Beyond that the oldest refusals are forgotten, and the rules
# are those of Kafka.
REMEMBERED_MAX: Final = 1024

# All clients retry after these errors. After other errors some clients drop the batch and continue.
RETRIED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

# A topic by name or id, a partition's index, a producer's id and epoch.
_Key: TypeAlias = tuple[str | bytes, int, int, int]


@lazy_attrs.frozen
class _Refusal:
    """The least and the greatest sequence number that were refused, and the latest error and time."""

    least: int
    greatest: int
    code: ErrorCode
    refused_at_ms: int


@lazy_attrs.define(eq=False)
class RefusedBatches:
    """The refused batches of each producer in each partition on one connection."""

    _refused: dict[_Key, _Refusal] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self._refused)

    def add(self, topic: str | bytes, index: int, header: BatchHeader, code: ErrorCode, now_ms: int) -> None:
        key = _key(topic, index, header)
        sequence = header.base_sequence
        least = greatest = sequence
        if (known := self._refused.pop(key, None)) is not None:
            least, greatest = min(known.least, sequence), max(known.greatest, sequence)
        self._refused[key] = _Refusal(least, greatest, code, now_ms)
        if len(self._refused) > REMEMBERED_MAX:
            del self._refused[next(iter(self._refused))]

    def check(self, topic: str | bytes, partition: Partition, header: BatchHeader, now_ms: int) -> None:
        """Raise KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER if a batch of an unknown producer comes too early.

        It comes too early if an earlier batch was refused and not sent again yet. If the producer is known, its
        sequence numbers decide. The refusal is forgotten if this is the refused batch, or if no batch is missing.
        """
        self._forget_before(now_ms - REMEMBERED_MS)
        key = _key(topic, partition.index, header)
        refusal = self._refused.get(key)
        if refusal is None:
            return
        log = partition.log
        state = None if log is None else log.producers.get(header.producer_id)
        is_next = state is not None and (state.epoch, state.next_sequence) == (
            header.producer_epoch,
            header.base_sequence,
        )
        if is_next or header.base_sequence <= refusal.least:
            del self._refused[key]
        elif state is None:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id} in partition {partition}: "
                f"{header.base_sequence} (incoming seq. number), {refusal.least} (refused before, not sent again yet)",
            )

    def error_in_flight(self, topic: str | bytes, index: int, header: BatchHeader) -> KafkaError | None:
        """The error for a batch that is out of order because an earlier one was refused while both were in flight.

        Batches in flight arrive in ascending order. A batch that was refused itself was sent again without the earlier
        one; its producer has dropped that one, and None is returned.
        """
        refusal = self._refused.get(_key(topic, index, header))
        if refusal is None or header.base_sequence <= refusal.greatest:
            return None
        return KafkaError(
            refusal.code,
            f"A batch of producer {header.producer_id} with sequence number {refusal.least} was refused with "
            f"{refusal.code.name}, and has to be sent again before sequence number {header.base_sequence}",
        )

    def _forget_before(self, time_ms: int) -> None:
        while self._refused:
            key, refusal = next(iter(self._refused.items()))
            if refusal.refused_at_ms > time_ms:
                return
            del self._refused[key]


def _key(topic: str | bytes, index: int, header: BatchHeader) -> _Key:
    return topic, index, header.producer_id, header.producer_epoch
