"""Whether a broker whose connection broke is still there: somebody listens where it did, or nobody does.

The kernel of a host refuses connections to a process that has died. That is known at once, while a broker that lives
and has only lost a connection would have to be waited for.
"""

import errno
from collections.abc import Iterable
from typing import Final

import trio

from metadata.controller import Controller
from metadata.image import BrokerImage
from metadata.records import BrokerEndpoint

# Whoever neither answers nor refuses is left to what the controller grants a suspect, which is less than this.
_PATIENCE_S: Final = 1.0


class Suspects:
    """Tries to connect to brokers that the controller suspects, one attempt at a time each, in `nursery`."""

    def __init__(self, controller: Controller, listener_name: str, nursery: trio.Nursery) -> None:
        self._controller = controller
        self._listener_name = listener_name
        self._nursery = nursery
        self._asked: dict[int, BrokerImage] = {}

    def look_at(self, broker_id: int) -> None:
        """Find out about a broker, if it is suspected and that is not being done."""
        broker = self._controller.suspect(broker_id)
        if broker is not None and broker_id not in self._asked:
            self._asked[broker_id] = broker
            self._nursery.start_soon(self._ask, broker)

    async def _ask(self, broker: BrokerImage) -> None:
        endpoint = self._endpoint(broker)
        try:
            if endpoint is not None and await _is_refused(endpoint):
                self._controller.broker_gone(broker.broker_id, broker.broker_epoch)
        finally:
            del self._asked[broker.broker_id]

    def _endpoint(self, broker: BrokerImage) -> BrokerEndpoint | None:
        return broker.end_points.get(self._listener_name)


async def _is_refused(endpoint: BrokerEndpoint) -> bool:
    with trio.move_on_after(_PATIENCE_S):
        try:
            stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
        except UnicodeError:  # the host name, which the broker has registered, cannot be one
            return False
        except OSError as error:
            return all(each.errno == errno.ECONNREFUSED for each in _causes(error))
        with trio.move_on_after(0):
            await stream.aclose()
    return False


def _causes(error: OSError) -> Iterable[OSError]:
    """Of a host with several addresses, what each of them has said."""
    causes = error.__cause__
    if isinstance(causes, BaseExceptionGroup):
        return [each for each in causes.exceptions if isinstance(each, OSError)]
    return [causes if isinstance(causes, OSError) else error]
