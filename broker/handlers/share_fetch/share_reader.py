"""Acquires records of the partitions of one share fetch, within the limits of the request."""

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from broker.handlers.authorization import check
from broker.handlers.topic_names import topic_name
from broker.server.context import BrokerContext
from broker.server.slices import Steps
from broker.share_partitions.acquisition import Acquisition, Delivery, Limits
from broker.share_partitions.led_partition import LedSharePartition
from broker.share_partitions.share_sessions import PartitionId
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType, ShareAcquireMode

_ABSENT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
# Partitions that one step takes up or reads: about 1 ms.
_STEP_PARTITIONS: Final = 64


@attrs.frozen
class FetchLimits:
    """The limits of a request, for all its partitions together."""

    records_max: int
    bytes_max: int
    batch_size: int
    mode: ShareAcquireMode


class ShareReader:
    """Acquires records for one member. `deliveries` and `errors` are the results by partition.

    `must_repeat` is true if a partition has records that may be acquired after those that were passed over.
    """

    __slots__ = (
        "_context",
        "_count",
        "_limits",
        "_size",
        "deliveries",
        "errors",
        "group_id",
        "led",
        "member_id",
        "must_repeat",
    )

    def __init__(self, context: BrokerContext, group_id: str, member_id: str, limits: FetchLimits) -> None:
        self._context = context
        self._limits = limits
        self._size = self._count = 0
        self.group_id = group_id
        self.member_id = member_id
        self.led: dict[LedSharePartition, PartitionId] = {}
        self.deliveries: dict[PartitionId, Delivery] = {}
        self.errors: dict[PartitionId, KafkaError] = {}
        self.must_repeat = False

    @property
    def size(self) -> int:
        """The size of the records in `deliveries`, in bytes."""
        return self._size

    @property
    def can_respond(self) -> bool:
        """True if the response need not wait.

        An unknown partition does not end the wait for the others, as a consumer of a deleted topic would send one fetch
        after the other. All other errors are sent at once.
        """
        if self.deliveries or not self.led:
            return True
        return any(error.code not in _ABSENT for error in self.errors.values())

    @property
    def has_loaded(self) -> bool:
        """True if a share-partition of the request is loaded."""
        return any(led.state is not None for led in self.led)

    def open(self, partitions: Iterable[PartitionId]) -> Steps[None]:
        """Take up the share-partitions; those that are new begin to load."""
        manager, finish_later = self._context.services.shares.partitions, self._context.finish_later
        for number, partition_id in enumerate(partitions, 1):
            try:
                name = topic_name(self._context, partition_id[0])
                if name is not None:
                    check(self._context, AclOperation.READ, ResourceType.TOPIC, name)
                self.led[manager.led(self.group_id, partition_id, finish_later)] = partition_id
            except KafkaError as error:
                self.errors[partition_id] = error
            if not number % _STEP_PARTITIONS:
                yield

    def sendable_bytes(self, led: LedSharePartition, size_max: int) -> int:
        """The bytes of records of one share-partition that can be sent now; `size_max` at most, and for an error."""
        try:
            return min(size_max, led.readable_bytes(self._limits.bytes_max))
        except KafkaError:
            return size_max

    def acquire_all(self, watched: Sequence[LedSharePartition] | None = None) -> Steps[None]:
        """Acquire records of all share-partitions, as far as the limits allow."""
        self.must_repeat = False
        for number, led in enumerate(list(self.led if watched is None else watched), 1):
            self.acquire(led)
            while self.must_repeat:
                yield
                self.must_repeat = False
                self.acquire(led)
            if not number % _STEP_PARTITIONS:
                yield

    def acquire(self, led: LedSharePartition) -> None:
        """Acquire records of one share-partition, unless it has a result already."""
        limits, partition_id = self._limits, self.led[led]
        records_left, bytes_left = limits.records_max - self._count, limits.bytes_max - self._size
        if partition_id in self.deliveries or records_left <= 0 or bytes_left <= 0:
            return
        acquisition = Acquisition(self.member_id, records_left, limits.batch_size, limits.mode)
        try:
            delivery = led.acquire(Limits(acquisition, bytes_left, min_one_batch=not self._size))
        except KafkaError as error:
            self.errors[partition_id] = error
            return
        if delivery is None:
            return
        if delivery.records is None:
            self.must_repeat = True
        else:
            self.deliveries[partition_id] = delivery
            self._count += acquisition.count
            self._size += len(delivery.records)
