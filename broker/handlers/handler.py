"""What a handler is: one API, the versions it serves, and a function from request to response."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import attrs

from broker.handlers.services import ControllerServices, NodeServices, Services
from broker.net.connection import Connection
from broker.net.reply import Part, Pending, frame_response
from metadata.errors import ApiError

if TYPE_CHECKING:
    from broker.handlers.dispatch import Dispatcher, Route

S = TypeVar("S", bound=NodeServices, covariant=True)


class Client(Protocol):
    """Who asks: a connection, or somebody whose request another node has forwarded."""

    @property
    def principal(self) -> str: ...
    @property
    def peer_host(self) -> str: ...
    @property
    def listener(self) -> str: ...


@attrs.frozen
class DistantClient:
    """The sender of a request that came by way of a broker: it has no connection here, and came through no listener."""

    principal: str
    peer_host: str
    listener: str = ""


class Context(Generic[S]):
    """A request's surroundings: who sent it, in which version, and how to answer it."""

    __slots__ = ("client", "client_id", "correlation_id", "dispatcher", "route", "services")

    def __init__(
        self,
        dispatcher: "Dispatcher[S]",
        client: Client,
        route: "Route",
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.dispatcher = dispatcher
        self.services = dispatcher.services
        self.client = client
        self.route = route
        self.correlation_id = correlation_id
        self.client_id = client_id

    @property
    def api_version(self) -> int:
        return self.route.version

    @property
    def connection(self) -> Connection | None:
        """The client's connection; None where another node has forwarded the request, or this one asks itself."""
        return self.client if isinstance(self.client, Connection) else None

    @property
    def own_connection(self) -> Connection:
        """The connection, for APIs that are never forwarded."""
        assert isinstance(self.client, Connection), "a forwarded request has no connection here"
        return self.client

    @property
    def principal(self) -> str:
        """Who the client is, as Kafka names principals: "User:ANONYMOUS" where nobody was asked."""
        return self.client.principal

    @property
    def client_host(self) -> str:
        """The client's address."""
        return self.client.peer_host

    @property
    def listener(self) -> str:
        """The name of the listener through which the client came; empty where it came through another node's."""
        return self.client.listener

    def defer(self, response: Awaitable["Message"]) -> Pending:
        """Answer with what `response` will return, in a task; the connection's next request waits for it."""
        return self.dispatcher.defer(self, response)

    def encode(self, response: "Message") -> bytes | list[Part]:
        """The whole response frame, for a reply that was parked."""
        route = self.route
        return frame_response(self.correlation_id, route.flexible_response_header, route.encode(response))


RequestContext: TypeAlias = Context[Services]
ControllerContext: TypeAlias = Context[ControllerServices]

# A handler is given and returns the message classes of its own module in broker/wire/api.
Message: TypeAlias = Any
Immediate: TypeAlias = Callable[[Context[Any], Message], "Message | Pending | None"]
Deferred: TypeAlias = Callable[[Context[Any], Message], Awaitable[Message]]
Refused: TypeAlias = Callable[[Context[Any], Message, ApiError], Message]


class Shortcut(Protocol):
    """A way around decoding and encoding for requests that are seen often."""

    def serve(
        self, connection: Connection, start: int, end: int, correlation_id: int
    ) -> bytes | list[Part] | Pending | Literal[False] | None:
        """The whole reply, perhaps later, None for none, or False: it has to go the general way, nothing was done."""
        ...

    def learn(self, context: RequestContext, request: Message, start: int, end: int) -> None:
        """A request has gone the general way; the next one like it may be served by the shortcut."""
        ...


@attrs.frozen
class Handler:
    """`immediate` answers at once or parks a reply; `deferred` is awaited, one at a time per connection.

    `refused` answers a request which the controller refused as a whole, or could not be asked: `deferred` lets such an
    error through. An API that is `forwarded` belongs to the controller, and brokers pass its requests on as they are.

    `concurrent` lets the connection go on with its next request before `deferred` has answered: for what one broker
    asks on behalf of many. Replies keep their order.

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
    concurrent: bool = False
    advertised_from: int | None = None
    shortcut: Callable[[Services, int, bool], Shortcut] | None = None

    def __attrs_post_init__(self) -> None:
        assert (self.immediate is None) != (self.deferred is None), "a handler is either immediate or deferred"
        assert not self.forwarded or self.refused is not None, "a controller may be out of reach"
