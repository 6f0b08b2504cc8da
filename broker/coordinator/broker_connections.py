"""Connections from this broker to others, for the requests that coordinators of different brokers send each other."""

from collections.abc import Callable
from typing import Any, Final

import attrs
import trio

from broker.client import Connection, ConnectionLost
from broker.client.connection_security import PLAINTEXT, ConnectionSecurity
from kraft import lazy_attrs
from kraft.background_tasks import BackgroundTasks
from metadata.image import BrokerImage

CONNECT_TIMEOUT_MS: Final = 1_000


@lazy_attrs.define(eq=False)
class _Link:
    """The connection to one incarnation of a broker; `opened` is set when the attempt to connect has ended."""

    broker_epoch: int
    opened: trio.Event = attrs.field(factory=trio.Event)
    connection: Connection | None = None
    error: ConnectionLost | None = None


class BrokerConnections:
    """One connection to each broker, made when it is needed. `run` must run.

    `broker` finds a broker's registration, `listener_name` names the endpoint to connect to.
    """

    def __init__(
        self,
        client_id: str,
        listener_name: str,
        broker: Callable[[int], BrokerImage | None],
        request_timeout_ms: Callable[[], float],
        security: ConnectionSecurity = PLAINTEXT,
    ) -> None:
        self._security = security
        self._client_id = client_id
        self._listener_name = listener_name
        self._broker = broker
        self._request_timeout_ms = request_timeout_ms
        self._links: dict[int, _Link] = {}
        self._tasks = BackgroundTasks()

    async def run(self) -> None:
        """Carry the connections, until cancelled."""
        await self._tasks.run()

    async def call(self, broker_id: int, request: Any, version: int) -> Any:
        """Send a request and return the response. Raises ConnectionLost."""
        broker = self._broker(broker_id)
        endpoint = None if broker is None else broker.end_points.get(self._listener_name)
        if broker is None or endpoint is None or broker.fenced or self._tasks.has_ended:
            raise ConnectionLost(f"broker {broker_id} is not registered")
        link = self._links.get(broker_id)
        if link is None or link.broker_epoch != broker.broker_epoch or _is_lost(link):
            link = self._links[broker_id] = _Link(broker.broker_epoch)
            self._tasks.start_soon(self._open, link, endpoint.host, endpoint.port)
        await link.opened.wait()
        if link.connection is None:
            raise link.error or ConnectionLost(f"broker {broker_id} cannot be reached")
        return await link.connection.call(request, version)

    async def _open(self, link: _Link, host: str, port: int) -> None:
        try:
            link.connection = await Connection.open(
                host,
                port,
                self._client_id,
                connect_timeout_ms=CONNECT_TIMEOUT_MS,
                request_timeout_ms=self._request_timeout_ms(),
                security=self._security,
            )
            link.opened.set()
            await link.connection.run()
        except ConnectionLost as error:
            link.error = error
        finally:
            link.opened.set()


def _is_lost(link: _Link) -> bool:
    return link.error is not None or (link.connection is not None and link.connection.is_lost)
