"""Probes whether brokers whose connections broke are still listening.

The kernel of a host refuses connections to the port of a process that has ended. The controller then knows at once that
the broker is gone, and does not have to wait for a broker that has only lost a connection.
"""

import errno
from collections.abc import Iterable
from typing import Final

import trio

from metadata.controller import Controller
from metadata.image import BrokerImage
from metadata.records import BrokerEndpoint

# How long an attempt takes at most. If a host neither accepts nor refuses the connection, the probe has no result: the
# controller fences a suspected broker after a shorter time.
_PROBE_TIMEOUT_S: Final = 1.0
# The first pause between two attempts; each is twice as long as the one before.
_PAUSE_S: Final = 0.01


class BrokerProbes:
    """Connects to brokers that the controller suspects, with one attempt per broker at a time, in `nursery`.

    The kernel closes the sockets of a process that ends one after the other, while some are still in use. It may accept
    a connection after it has reset others, so a broker is probed again while it is suspected.
    """

    def __init__(self, controller: Controller, listener_name: str, nursery: trio.Nursery) -> None:
        self._controller = controller
        self._listener_name = listener_name
        self._nursery = nursery
        self._probed: dict[int, BrokerImage] = {}

    def probe(self, broker_id: int) -> None:
        """Start a probe of a broker that the controller suspects, unless one is running."""
        broker = self._controller.suspect_broker(broker_id)
        if broker is not None and broker_id not in self._probed:
            self._probed[broker_id] = broker
            self._nursery.start_soon(self._probe, broker)

    async def _probe(self, broker: BrokerImage) -> None:
        endpoint, pause_s = self._endpoint(broker), _PAUSE_S
        try:
            while endpoint is not None and self._is_suspect(broker):
                if await _is_refused(endpoint):
                    self._controller.expire_suspect_broker(broker.broker_id, broker.broker_epoch)
                    break
                await trio.sleep(pause_s)
                pause_s *= 2
        finally:
            del self._probed[broker.broker_id]

    def _is_suspect(self, broker: BrokerImage) -> bool:
        suspect = self._controller.suspect_broker(broker.broker_id)
        return suspect is not None and suspect.broker_epoch == broker.broker_epoch

    def _endpoint(self, broker: BrokerImage) -> BrokerEndpoint | None:
        return broker.end_points.get(self._listener_name)


async def _is_refused(endpoint: BrokerEndpoint) -> bool:
    with trio.move_on_after(_PROBE_TIMEOUT_S):
        try:
            stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
        except UnicodeError:  # the broker has registered a host name that is invalid
            return False
        except OSError as error:
            return all(each.errno == errno.ECONNREFUSED for each in _causes(error))
        with trio.move_on_after(0):
            await stream.aclose()
    return False


def _causes(error: OSError) -> Iterable[OSError]:
    """The errors of all addresses of the host."""
    causes = error.__cause__
    if isinstance(causes, BaseExceptionGroup):
        return [each for each in causes.exceptions if isinstance(each, OSError)]
    return [causes if isinstance(causes, OSError) else error]
