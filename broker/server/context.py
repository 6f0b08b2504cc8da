"""A request on its way through a handler: who sent it, in which version, and how to answer it."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from math import inf
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

import trio

from broker.net.connection import Connection
from broker.net.reply import Part, frame_response
from broker.server.authorizer import Authorizer
from broker.server.message_codec import MessageCodec
from broker.server.quotas import Allowance, Charging, MutationCharging, Usage
from broker.server.scheduler import Scheduler
from broker.server.services import ControllerServices, NodeServices, Services
from broker.server.session import Session
from broker.server.slices import Steps
from broker.wire.api.api_versions import ApiVersion
from broker.wire.api.names import api_name
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import Tracer
from metadata.protocol import CLUSTER_NAME, AclOperation, ResourceType

T = TypeVar("T")
S = TypeVar("S", bound=NodeServices, covariant=True)

# A handler is given and returns the message classes of its own module in broker/wire/api.
Message: TypeAlias = Any


class Server(Protocol[S]):
    """The server of the request, `broker.server.Dispatcher`. `advertised` are its APIs and their versions."""

    @property
    def services(self) -> S: ...
    @property
    def scheduler(self) -> Scheduler: ...
    @property
    def advertised(self) -> list[ApiVersion]: ...
    @property
    def authorizer(self) -> Authorizer | None: ...
    @property
    def charging(self) -> Charging | None: ...
    @property
    def mutation_charging(self) -> MutationCharging | None: ...
    @property
    def access_generation(self) -> int:
        """Grows whenever ACLs or quotas change."""
        ...

    def is_forwarded(self, payload: bytes) -> bool:
        """True if brokers forward requests like this one. Raises WireError."""
        ...

    async def execute(self, payload: bytes, *, principal: str, client_host: str, is_own: bool = False) -> bytes:
        """Answer the request of a client that is not connected here, or of this node."""
        ...


class Context(Generic[S]):
    """One request: its session, its API and version, its correlation id, its client id and its size.

    It is passed on to decisions, as their `metadata.request_context.RequestContext`. `deadline` is of Trio's clock, for
    requests to the controller that have a timeout. `throttle_time_ms` is set once the request was charged.
    """

    __slots__ = (
        "_mutations_throttled_until",
        "api_version",
        "client_id",
        "codec",
        "correlation_id",
        "deadline",
        "request_bytes",
        "server",
        "services",
        "session",
        "throttle_time_ms",
    )

    def __init__(
        self,
        server: Server[S],
        session: Session,
        codec: MessageCodec,
        correlation_id: int,
        client_id: str | None,
        request_bytes: int,
    ) -> None:
        self.server = server
        self.services = server.services
        self.session = session
        self.codec = codec
        self.api_version = codec.version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request_bytes = request_bytes
        self.throttle_time_ms: int | None = None
        self.deadline = inf
        self._mutations_throttled_until = 0.0

    @property
    def api_name(self) -> str:
        return api_name(self.codec.api_key)

    @property
    def connection(self) -> Connection | None:
        """The client's connection; None if another node has forwarded the request, or this node asks itself."""
        return self.session.connection

    @property
    def own_connection(self) -> Connection:
        """The connection, for APIs that are never forwarded."""
        connection = self.session.connection
        assert connection is not None, "a forwarded request has no connection here"
        return connection

    @property
    def principal(self) -> str:
        """The client's principal, as Kafka names it: "User:ANONYMOUS" if it has not authenticated."""
        return self.session.principal

    @property
    def client_host(self) -> str:
        """The client's address."""
        return self.session.client_host

    @property
    def listener(self) -> str:
        """The name of the listener that the client connected to; empty if another node has forwarded the request."""
        return self.session.listener

    def finish_later(self, steps: Steps[None]) -> None:
        """Take the steps in slices, in a task of their own: for what is left to do when a request has ended."""
        self.server.scheduler.finish_later(steps)

    def timed_call(self, call: Callable[[], T]) -> T:
        """The result of `call`; if a client has a request quota, its time is charged to the client of this request."""
        charging = self.server.charging
        return call() if charging is None or not charging.is_timed else charging.timed_call(self.session, call)

    def timed_task(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """As `timed_call`, for the time that a coroutine takes between the points where it waits."""
        charging = self.server.charging
        return work if charging is None or not charging.is_timed else charging.timed_task(self.session, work)

    def allows(
        self, operation: AclOperation, resource_type: ResourceType, resource_name: str, *, is_tried: bool = True
    ) -> bool:
        """True if the client may carry out the operation on the resource.

        A refusal is traced if the client has tried to: not if the answer only leaves something out, or if there is
        another operation or resource that may allow the same. Raises KafkaError if the authorizer is not ready.
        """
        authorizer = self.server.authorizer
        if authorizer is None or self.session.is_own:
            return True
        if authorizer.allows(self.session, operation, resource_type, resource_name):
            return True
        if is_tried:
            trace = self.services.env.trace
            trace_refusal(trace, self.session, operation, resource_type, resource_name, self.api_name)
        return False

    def allows_cluster(self, operation: AclOperation, *, is_tried: bool = True) -> bool:
        """True if the client may carry out the operation on the cluster; see `allows`."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME, is_tried=is_tried)

    def allows_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """True if the client may carry out the operation on at least one resource of the type."""
        authorizer = self.server.authorizer
        return authorizer is None or authorizer.allows_any(self.session, operation, resource_type)

    @property
    def topic_filter(self) -> Callable[[str], bool] | None:
        """See `metadata.request_context.RequestContext`."""
        if self.server.authorizer is None:
            return None
        return partial(self.allows, AclOperation.DESCRIBE, ResourceType.TOPIC, is_tried=False)

    def charge(self, fetched_bytes: int = 0, *, is_exempt: bool = False) -> int:
        """Charge the request to its client, the first time this is called, and return its `throttle_time_ms`.

        Responses are charged when they are packed. A handler calls it earlier if the response depends on it, or if
        the next request must not be carried out before.
        """
        if self.throttle_time_ms is None:
            charging = self.server.charging
            self.throttle_time_ms = 0 if charging is None else charging.charge(self._usage(fetched_bytes, is_exempt))
        return self.throttle_time_ms

    def allowance(self) -> Allowance | None:
        """The allowance of the client for requests like this one; None if such requests are not charged."""
        charging = self.server.charging
        return None if charging is None else charging.allowance(self.session, self.client_id, self.codec.api_key)

    def charge_mutations(self, count: int) -> None:
        """See `metadata.request_context.RequestContext`."""
        charging = self.server.mutation_charging
        if charging is None:
            return
        codec = self.codec
        is_allowed, throttle_time_ms = charging.charge(
            self.session, self.client_id, codec.api_key, codec.version, count
        )
        if throttle_time_ms:
            self._mutations_throttled_until = trio.current_time() + throttle_time_ms / 1000
        if not is_allowed:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")

    @property
    def mutations_throttle_time_ms(self) -> int:
        """The rest of the time for which the client has to pause after changes of metadata."""
        if not self._mutations_throttled_until:
            return 0
        return max(0, round((self._mutations_throttled_until - trio.current_time()) * 1000))

    @classmethod
    def charged(
        cls, server: Server[S], session: Session, codec: MessageCodec, correlation_id: int, throttle_time_ms: int = 0
    ) -> Self:
        """To pack the response to a request that was charged before, for which there is no context."""
        context = cls(server, session, codec, correlation_id, None, 0)
        context.throttle_time_ms = throttle_time_ms
        return context

    def _usage(self, fetched_bytes: int, is_exempt: bool) -> Usage:
        codec = self.codec
        return Usage(
            self.session, self.client_id, codec.api_key, codec.version, self.request_bytes, fetched_bytes, is_exempt
        )

    def _charge_response(self, response: Message) -> None:
        throttle_time_ms = self.charge()
        if throttle_time_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = max(throttle_time_ms, response.throttle_time_ms)

    def pack(self, response: Message) -> bytes | list[Part]:
        """Charge the request, and return the whole response frame."""
        if self.server.charging is not None:
            self._charge_response(response)
        codec = self.codec
        return frame_response(self.correlation_id, codec.flexible_response_header, codec.encode(response))

    def pack_in_steps(self, response: Message) -> Steps[bytes | list[Part]]:
        """As `pack`, in steps, for responses of any size."""
        if self.server.charging is not None:
            self._charge_response(response)
        codec = self.codec
        body = yield from codec.encode_sliced(response)
        return frame_response(self.correlation_id, codec.flexible_response_header, body)


def trace_refusal(
    trace: Tracer,
    session: Session,
    operation: AclOperation,
    resource_type: ResourceType,
    resource_name: str,
    request: str,
) -> None:
    """Trace that a client tried what it is not allowed to do."""
    trace(
        "authorization_refused",
        principal=session.principal,
        host=session.client_host,
        listener=session.listener,
        operation=operation.name,
        resource_type=resource_type.name,
        resource=resource_name,
        request=request,
    )


# The contexts on the listeners for clients and brokers, and on those of controllers.
BrokerContext: TypeAlias = Context[Services]
ControllerContext: TypeAlias = Context[ControllerServices]
