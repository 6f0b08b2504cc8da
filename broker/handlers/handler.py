"""What a handler is: one API, the versions it serves, and a function from request to response."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import attrs

from broker.handlers.services import Services
from broker.net.connection import Connection
from broker.net.reply import ExclusivePending, Part, Pending, frame_response
from metadata.errors import ApiError

if TYPE_CHECKING:
    from broker.handlers.dispatch import Dispatcher, Route

# A handler is given and returns the message classes of its own module in broker/wire/api.
Message: TypeAlias = Any
Immediate: TypeAlias = Callable[["RequestContext", Message], "Message | Pending | None"]
Deferred: TypeAlias = Callable[["RequestContext", Message], Awaitable[Message]]
Refused: TypeAlias = Callable[["RequestContext", Message, ApiError], Message]


class RequestContext:
    """A request's surroundings: who sent it, in which version, and how to answer it."""

    __slots__ = ("client_id", "connection", "correlation_id", "dispatcher", "route", "services")

    def __init__(
        self,
        dispatcher: "Dispatcher",
        connection: Connection,
        route: "Route",
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.dispatcher = dispatcher
        self.services = dispatcher.services
        self.connection = connection
        self.route = route
        self.correlation_id = correlation_id
        self.client_id = client_id

    @property
    def api_version(self) -> int:
        return self.route.version

    def defer(self, response: Awaitable[Message]) -> ExclusivePending:
        """Answer with what `response` will return, in a task; the connection's next request waits for it."""
        return self.dispatcher.defer(self, response)

    def encode(self, response: Message) -> bytes | list[Part]:
        """The whole response frame, for a reply that was parked."""
        route = self.route
        return frame_response(self.correlation_id, route.flexible_response_header, route.encode(response))


class Shortcut(Protocol):
    """A way around decoding and encoding for requests that are seen often."""

    def serve(
        self, connection: Connection, start: int, end: int, correlation_id: int
    ) -> bytes | list[Part] | Literal[False] | None:
        """The whole reply, None for none, or False: the request has to go the general way, nothing was done."""
        ...

    def learn(self, context: RequestContext, request: Message, start: int, end: int) -> None:
        """A request has gone the general way; the next one like it may be served by the shortcut."""
        ...


@attrs.frozen
class Handler:
    """`immediate` answers at once or parks a reply; `deferred` is awaited, one at a time per connection.

    `refused` answers a request which the controller refused as a whole, or could not be asked: `deferred` lets such an
    error through. An API that is `forwarded` belongs to the controller, and brokers pass its requests on as they are.

    `shortcut` makes the shortcut of one version, given whether that version is flexible.

    `advertised_from` lists versions that exist and are refused, where clients need to see them listed.
    """

    api_key: int
    min_version: int
    max_version: int
    immediate: Immediate | None = None
    deferred: Deferred | None = None
    refused: Refused | None = None
    forwarded: bool = False
    advertised_from: int | None = None
    shortcut: Callable[[Services, int, bool], Shortcut] | None = None
