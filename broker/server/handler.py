"""What a handler is: one API, the versions it serves, and a function from request to response."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import attrs

from broker.net.connection import Connection
from broker.net.reply import Part, Pending, frame_response
from broker.server.services import ControllerServices, NodeServices, Services
from broker.server.slices import Steps
from metadata.errors import ApiError

if TYPE_CHECKING:
    from broker.server.dispatch import Dispatcher, Route

T = TypeVar("T")
S = TypeVar("S", bound=NodeServices, covariant=True)

# The largest request of an API that does not say otherwise: 10,000 topics or groups with names of 100 bytes.
REQUEST_BYTES_MAX: Final = 1024 * 1024
# For APIs that name one thing, or a few.
SMALL_REQUEST_BYTES_MAX: Final = 64 * 1024


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
        return self.dispatcher.later.defer(self, response)

    def answer_in_steps(self, response: Steps["Message"]) -> Pending:
        """Answer with what the steps lead to; the connection's next request waits for it."""
        return self.dispatcher.later.answer_in_steps(self, response)

    def take_turns(self, response: Steps[T]) -> T | Pending:
        """The response that the steps lead to, or a parked reply: several turns of the connection take a slice each.

        For work that appends, or sees what others have appended: what a turn has staged is written at its end. The
        connection's next request waits until all steps are taken. Views of the receive buffer stay valid.
        """
        return self.dispatcher.later.take_turns(self, response)

    def complete(self, pending: Pending, respond: Callable[[], "Message"]) -> None:
        """Complete a reply that was parked with the response that `respond` makes. A failure ends the connection."""
        self.dispatcher.later.complete(self, pending, respond)

    def complete_in_steps(self, pending: Pending, response: Steps["Message"]) -> None:
        """Complete a reply that was parked with what the steps lead to, taken in slices."""
        self.dispatcher.later.complete_in_steps(self, pending, response)

    def finish_later(self, steps: Steps[None]) -> None:
        """Take the steps in slices, in a task of their own."""
        self.dispatcher.later.finish_later(steps)

    def slice(self) -> AbstractAsyncContextManager[None]:
        """Wait until the event loop may be held for a slice, for decisions that a deferred handler asks for."""
        return self.dispatcher.slices.slice()

    async def finish(self, steps: Steps[T]) -> T:
        """Take the steps of long work, in slices; for handlers that are deferred."""
        return await self.dispatcher.slices.finish(steps)

    def encode(self, response: "Message") -> bytes | list[Part]:
        """The whole response frame, for a reply that was parked."""
        route = self.route
        return frame_response(self.correlation_id, route.flexible_response_header, route.encode(response))

    def encode_sliced(self, response: "Message") -> Steps[bytes | list[Part]]:
        """As `encode`, in steps, for responses of any size."""
        route = self.route
        body = yield from route.encode_sliced(response)
        return frame_response(self.correlation_id, route.flexible_response_header, body)


RequestContext: TypeAlias = Context[Services]
ControllerContext: TypeAlias = Context[ControllerServices]

# A handler is given and returns the message classes of its own module in broker/wire/api.
Message: TypeAlias = Any
Immediate: TypeAlias = Callable[[Context[Any], Message], "Message | Pending | None"]
Sliced: TypeAlias = Callable[[Context[Any], Message], Steps[Message]]
Deferred: TypeAlias = Callable[[Context[Any], Message], Awaitable[Message]]
Refused: TypeAlias = Callable[[Context[Any], Message, ApiError], Message | Steps[Message]]


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
    """`immediate` answers at once or parks a reply; `deferred` is awaited, one at a time per connection; `sliced` takes
    steps to the response, at once where they are few, and otherwise as if it were deferred.

    `request_bytes_max` bounds the whole request; None: the listener's bound is the only one. What is larger closes its
    connection as soon as its size is known. `keeps_views` says that requests hold views of the receive buffer, and so
    have to be carried out where they arrive.

    `refused` answers a request which the controller refused as a whole, or could not be asked, at once or in steps:
    `deferred` lets such an error through. An API that is `forwarded` belongs to the controller, and brokers pass its
    requests on as they are.

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
    sliced: Sliced | None = None
    request_bytes_max: int | None = REQUEST_BYTES_MAX
    keeps_views: bool = False
    refused: Refused | None = None
    forwarded: bool = False
    concurrent: bool = False
    advertised_from: int | None = None
    shortcut: Callable[[Services, int, bool], Shortcut] | None = None

    def __attrs_post_init__(self) -> None:
        kinds = (self.immediate, self.deferred, self.sliced)
        assert sum(kind is not None for kind in kinds) == 1, "a handler is either immediate, deferred or sliced"
        assert not self.forwarded or self.refused is not None, "a controller may be out of reach"
