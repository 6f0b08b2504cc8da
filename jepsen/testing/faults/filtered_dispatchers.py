"""The dispatchers of a node of a test cluster: each request passes through the node's `RequestFilter`."""

from functools import partial
from typing import Any, Protocol

from broker.net.connection import Connection
from broker.node import Dispatchers
from broker.server import ControllerDispatcher, Dispatcher, Handler, Services
from broker.server.context import Context, Message
from broker.server.scheduler import Frame, Work
from broker.server.session import Session
from broker.wire.codec import encode
from broker.wire.header import parse_request_header
from jepsen.testing.faults.request_filter import RequestFilter


class ClientObserver(Protocol):
    """Learns which client has which connection."""

    def connection_opened(self, connection: Connection) -> None:
        """A connection begins, in the task that serves it."""

    def client_named(self, connection: Connection, client_id: str) -> None:
        """A request has told the client id."""


def filtered_dispatchers(request_filter: RequestFilter, observer: ClientObserver | None = None) -> Dispatchers:
    """For `Node`: its dispatchers pass requests through this filter, in place of shortcuts."""
    return Dispatchers(
        broker=partial(_FilteredDispatcher, request_filter, observer),
        controller=partial(_FilteredControllerDispatcher, request_filter),
    )


class _FilteredDispatcher(Dispatcher[Services]):
    def __init__(
        self, request_filter: RequestFilter, observer: ClientObserver | None, *arguments: Any, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._filter = request_filter
        self._observer = observer
        request_filter.serves_with(self.services.loader)

    def open_session(self, connection: Connection) -> Session:
        if self._observer is not None:
            self._observer.connection_opened(connection)
        return super().open_session(connection)

    def carry_out(
        self, context: Context[Services], handler: Handler, request: Message, payload: bytes | bytearray
    ) -> Work[Message | Frame | None]:
        def proceed(remaining: Message) -> Any:
            rest = payload if remaining is request else _payload(context, handler, remaining, payload)
            return Dispatcher.carry_out(self, context, handler, remaining, rest)

        if self._observer is not None and context.connection is not None:
            self._observer.client_named(context.connection, context.client_id or "")
        return self._filter.serve(context, request, proceed)

    def may_learn(self, session: Session) -> bool:
        return False


class _FilteredControllerDispatcher(ControllerDispatcher):
    def __init__(self, request_filter: RequestFilter, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._filter = request_filter

    def carry_out(
        self, context: Context[Any], handler: Handler, request: Message, payload: bytes | bytearray
    ) -> Work[Message | Frame | None]:
        def proceed(remaining: Message) -> Any:
            return ControllerDispatcher.carry_out(self, context, handler, remaining, payload)

        return self._filter.serve(context, request, proceed)

    def may_learn(self, session: Session) -> bool:
        return False


def _payload(context: Context[Any], handler: Handler, remaining: Message, payload: bytes | bytearray) -> bytes:
    """The payload of the rest of a request, for the controller."""
    if not handler.forwarded:
        return b""
    header = payload[: parse_request_header(payload)[-1]]
    return b"".join([header, *map(bytes, encode(remaining, context.api_version))])
