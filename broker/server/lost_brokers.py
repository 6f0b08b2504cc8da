"""Brokers that have just died, and that the next Metadata response to each client still lists.

librdkafka first removes all brokers that a response does not list, and then moves partitions to the leaders that the
same response names. It does not move the partitions of a broker that it has just removed: they wait for its next look
at all topics, up to a second later. A response that lists the dead broker lets it move them at once. Apache Kafka lists
a dead broker until its session expires.

The response after that does not list the broker, so that librdkafka removes it. Otherwise librdkafka keeps it, with
pauses between attempts to connect that grow up to 10 s, even if the broker is back. Until a client has asked again, a
second death of the same broker that follows soon is therefore not treated in this way.
"""

from collections.abc import Sequence
from typing import Final

import trio

from broker.server.session import Session
from kraft import lazy_attrs
from metadata.image import ClusterImage, MetadataDelta, MetadataImage

# Clients ask at once when their connection breaks, or 0.1 s later if they have to connect to another broker first.
_LISTED_S: Final = 1.0
# librdkafka's pauses are short again reconnect.backoff.max.ms (10 s) after the end of the last one, which it may have
# begun half-way by connecting.
_PAUSES_S: Final = 25.0


@lazy_attrs.frozen
class _Loss:
    """Losses are numbered in their order; `until` is a time of Trio's clock."""

    number: int
    until: float


class LostBrokers:
    """Notes the brokers that are fenced without a controlled shutdown: after one, no partition is left to move.

    A publisher of the loader.
    """

    def __init__(self) -> None:
        self._count = 0
        self._losses: dict[int, _Loss] = {}

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for broker_id, broker in delta.cluster.changed.items():
            before = delta.cluster.base.brokers.get(broker_id)
            if broker is not None and broker.fenced and before is not None and before.is_active:
                self._count += 1
                self._losses[broker_id] = _Loss(self._count, trio.current_time() + _LISTED_S)
            else:
                self._losses.pop(broker_id, None)

    def to_list(self, session: Session, cluster: ClusterImage) -> Sequence[int]:
        """The ids of the fenced brokers of `cluster` that the next response to the client lists."""
        listed = session.listed_lost_brokers or {}
        if not self._losses and not listed:
            return ()
        now = trio.current_time()
        self._losses = {broker_id: loss for broker_id, loss in self._losses.items() if now < loss.until}
        ids = [
            broker_id
            for broker_id, loss in self._losses.items()
            if loss.number > session.losses_seen and now - listed.get(broker_id, -_PAUSES_S) >= _PAUSES_S
        ]
        session.losses_seen = self._count
        kept = {broker_id: at for broker_id, at in listed.items() if cluster.is_active(broker_id)}
        session.listed_lost_brokers = kept | dict.fromkeys(ids, now)
        return ids
