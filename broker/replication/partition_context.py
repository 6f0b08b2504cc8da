"""The state that all partitions of a broker share: its id, its clock, registrations of brokers, background tasks."""

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

from broker.replication.in_sync_replicas import UNKNOWN_BROKER_EPOCH
from broker.replication.topic_traffic import IsrChanges
from kraft import lazy_attrs
from kraft.env import Tracer
from metadata.ids import is_online
from metadata.image import BrokerImage

P = TypeVar("P")


@lazy_attrs.frozen(kw_only=True)
class PartitionTasks(Generic[P]):
    """The background tasks to which a partition, of type P, hands work.

    `propose_isr` sends the partition's ISR proposal to the controller. `flush` flushes its log if the config requires
    it, and calls `PartitionRole.flushed` then. `check_log` reads its log again at an offset, where damage is suspected;
    `check_old` does so, unless that was done a short time ago, because old records are read there.
    """

    propose_isr: Callable[[P], None]
    flush: Callable[[P], None]
    check_log: Callable[[P, int], None]
    check_old: Callable[[P, int], None]


@lazy_attrs.frozen(kw_only=True)
class PartitionContext:
    """`now_ms` is a monotonic clock, `lag_max_ms` is replica.lag.time.max.ms, `broker` finds a registration.

    `isr_changes` counts for metrics.
    """

    local_id: int
    lag_max_ms: float
    now_ms: Callable[[], float]
    broker: Callable[[int], BrokerImage | None]
    trace: Tracer
    isr_changes: IsrChanges = attrs.field(factory=IsrChanges)

    def may_join(self, broker_id: int, broker_epoch: int, directory: bytes) -> bool:
        """Whether a broker that fetches under this epoch may join an ISR (KIP-841, KIP-903).

        It may not while the log directory with its replica is offline (KIP-858).
        """
        broker = self.broker(broker_id)
        if broker is None or not broker.is_active:
            return False
        return broker_epoch in (UNKNOWN_BROKER_EPOCH, broker.broker_epoch) and is_online(directory, broker.log_dirs)

    def is_former_incarnation(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the broker has registered again since it got this epoch."""
        broker = self.broker(broker_id)
        return broker is not None and UNKNOWN_BROKER_EPOCH != broker_epoch < broker.broker_epoch
