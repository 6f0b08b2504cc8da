"""Logs requests that took longer than `request.log.slow.ms`, with the parts of their time as Kafka splits it."""

from typing import Final

from broker.net.turn_timer import RequestTime
from broker.wire.api import APIS
from kraft import lazy_attrs
from kraft.env import Tracer

# Fetch, JoinGroup and SyncGroup wait as long as their client allows, for records or for other members. Their remote
# time does not make them slow.
_WAITING_APIS: Final = frozenset({1, 11, 14})


@lazy_attrs.frozen
class SlowRequests:
    """`threshold_ms` is the time from which on a request is slow."""

    threshold_ms: float
    trace: Tracer

    def record(self, time: RequestTime) -> None:
        """Log a request whose response was sent, if it was slow."""
        counted_s = time.total_s - (time.remote_s if time.api_key in _WAITING_APIS else 0.0)
        if counted_s * 1000 < self.threshold_ms:
            return
        session = time.session
        self.trace(
            "slow_request",
            api=APIS[time.api_key].name,
            client=session.client_id,
            peer=session.client_host,
            listener=session.listener,
            total_ms=_ms(time.total_s),
            queue_ms=_ms(time.queue_s),
            local_ms=_ms(time.local_s),
            remote_ms=_ms(time.remote_s),
            throttle_ms=_ms(time.throttle_s),
            response_queue_ms=_ms(time.response_queue_s),
            response_send_ms=_ms(time.send_s),
        )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
