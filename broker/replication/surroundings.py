"""What the partitions of a broker share."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from broker.replication.in_sync import UNKNOWN_BROKER_EPOCH
from kraft.env import Tracer
from metadata.ids import is_online
from metadata.image import BrokerImage

if TYPE_CHECKING:
    from broker.replication.partition import Partition


@attrs.frozen(kw_only=True)
class Surroundings:
    """See the module's docstring.

    `now_ms` is a clock that does not go back, `lag_max_ms` is replica.lag.time.max.ms, `broker` finds a registration.
    `propose` has the partition's proposal of an ISR brought to the controller. `flush` has the partition's log flushed
    where its config asks for that, and the partition told by `flushed`.
    """

    local_id: int
    lag_max_ms: float
    now_ms: Callable[[], float]
    broker: Callable[[int], BrokerImage | None]
    propose: Callable[["Partition"], None]
    flush: Callable[["Partition"], None]
    trace: Tracer

    def may_join(self, broker_id: int, broker_epoch: int, directory: bytes) -> bool:
        """Whether a broker that fetches under this epoch may become a member of an ISR (KIP-841, KIP-903).

        Not where the log directory with its replica has failed (KIP-858).
        """
        broker = self.broker(broker_id)
        if broker is None or not broker.is_active:
            return False
        return broker_epoch in (UNKNOWN_BROKER_EPOCH, broker.broker_epoch) and is_online(directory, broker.log_dirs)

    def is_of_former_life(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self.broker(broker_id)
        return broker is not None and UNKNOWN_BROKER_EPOCH != broker_epoch < broker.broker_epoch
