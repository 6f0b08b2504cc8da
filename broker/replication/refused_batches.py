"""Batches that idempotent producers have to send again before their later ones are accepted (KAFKA-15591).

A producer has several batches of a partition in flight. A broker that does not lead yet refuses the first one, leads a
moment later, and receives the second one. It does not know the producer, and has to accept any sequence
number from an unknown producer, because its records may have been deleted (KIP-360). The first batch could not be
appended after that: it would be lost, although the producer retries. So once a batch was refused, later batches on the
same connection are refused too, until that batch was sent again.

Kafka refuses them from 4.5 on, but only if the partition was never written to. It also refuses them after a topic was
created again, although producers may continue with their sequence numbers then.
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


@lazy_attrs.define(eq=False)
class RefusedBatches:
    """The least sequence number that was refused for each producer in each partition on one connection, and when."""

    _refused: dict[_Key, tuple[int, int]] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self._refused)

    def add(self, topic: str | bytes, index: int, header: BatchHeader, now_ms: int) -> None:
        key = topic, index, header.producer_id, header.producer_epoch
        least, _ = self._refused.pop(key, (header.base_sequence, now_ms))
        self._refused[key] = min(least, header.base_sequence), now_ms
        if len(self._refused) > REMEMBERED_MAX:
            del self._refused[next(iter(self._refused))]

    def check(self, topic: str | bytes, partition: Partition, header: BatchHeader, now_ms: int) -> None:
        """Raise KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER if an earlier batch was refused and not sent again yet.

        If this is the refused batch, its refusal is forgotten.
        """
        self._forget_before(now_ms - REMEMBERED_MS)
        key = topic, partition.index, header.producer_id, header.producer_epoch
        if key not in self._refused:
            return
        least, _ = self._refused[key]
        log = partition.log
        is_known = log is not None and log.producers.get(header.producer_id) is not None
        if not is_known and header.base_sequence > least:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id} in partition {partition}: "
                f"{header.base_sequence} (incoming seq. number), {least} (refused before, and not sent again yet)",
            )
        del self._refused[key]

    def _forget_before(self, time_ms: int) -> None:
        while self._refused:
            key, (_, refused_at_ms) = next(iter(self._refused.items()))
            if refused_at_ms > time_ms:
                return
            del self._refused[key]
