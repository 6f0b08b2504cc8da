"""The declaration of a handler: one API, the versions it serves, and a function from request to response."""

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

import trio

from broker.server.context import Context, Message, Server
from broker.server.message_codec import MessageCodec
from broker.server.scheduler import Work
from broker.server.shortcut_tables import Shortcut
from broker.server.slices import Steps
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.schema import MessageSpec, version_range
from kraft import lazy_attrs
from metadata.protocol import AclOperation

# The largest request of an API that does not say otherwise: 10,000 topics or groups with names of 100 bytes.
REQUEST_BYTES_MAX: Final = 1024 * 1024
# For APIs whose requests name one resource, or a few. No bound is smaller.
SMALL_REQUEST_BYTES_MAX: Final = 64 * 1024


@lazy_attrs.frozen
class OwnPart:
    """The part of a forwarded request that a broker carries out itself.

    `remaining` is the request without that part; None if nothing is left to forward. `respond` builds the response to
    the whole request, in steps, from the controller's response to `remaining`.
    """

    remaining: Message | None
    respond: Callable[[Message | None], Steps[Message]]


Handle: TypeAlias = Callable[[Context[Any], Message], Message | Work[Message | None] | None]
Refused: TypeAlias = Callable[[Context[Any], Message, KafkaError], Message | Steps[Message]]
TakeOwnPart: TypeAlias = Callable[[Context[Any], Message], Steps[OwnPart | None]]
MakeShortcut: TypeAlias = Callable[[Server[Any], MessageCodec], Shortcut]


class Handler:
    """How the requests of one API are carried out: `Handler(FetchRequest, fetch)`.

    `request` is the class of the requests, which has the API's key. All versions with a schema are served, or those in
    `versions`, such as "4-18". `handle` returns the response, or is a generator function that yields what it waits for
    and returns the response then, see `broker.server.scheduler`. None is no response. A handler `in_turns` appends to
    logs, or reads what other requests of a turn have appended.

    `carry_out` is `handle`, with the response of `refused` where that raises KafkaError. It raises KafkaError itself if
    the API has no such response, and NOT_CONTROLLER for a request that a broker has forwarded: the broker knows better
    than its client which controller to ask next.

    `request_bytes_max` bounds the whole request; None: the listener's bound is the only one. A larger one closes its
    connection as soon as its size is known. `keeps_views` is true if requests hold views of the receive buffer,
    and so have to be served before it is reused.

    `refused` builds the response, at once or in steps, if the controller refused the whole request or cannot be
    reached. Brokers send requests of a `forwarded` API to the controller: unchanged, unless `take_own_part` carries out
    a part of them.

    `concurrent` lets the connection serve its next request whatever the handler waits for, for requests of brokers on
    behalf of many clients. Replies keep their order.

    `shortcut` makes the shortcut of one version, for clients of one kind.

    `unstable_max_version` is the highest version that is served and listed with `unstable.api.versions.enable`.

    `operation` is the operation on the cluster that a client has to be allowed; without that right, the request is
    `refused`. A forwarded request is authorized by the controller.

    `advertised_from` is the lowest version that ApiVersions lists, if clients need to see versions that are refused.
    """

    def __init__(
        self,
        request: type[Any],
        handle: Handle,
        *,
        versions: str | None = None,
        request_bytes_max: int | None = REQUEST_BYTES_MAX,
        keeps_views: bool = False,
        refused: Refused | None = None,
        forwarded: bool = False,
        take_own_part: TakeOwnPart | None = None,
        in_turns: bool = False,
        concurrent: bool = False,
        advertised_from: int | None = None,
        unstable_max_version: int | None = None,
        shortcut: MakeShortcut | None = None,
        operation: AclOperation | None = None,
    ) -> None:
        assert refused is not None or not (forwarded or operation), "an API that is refused needs a response for it"
        message: MessageSpec = request.__message__
        self.api_key = message.key
        self.min_version, self.max_version = message.versions if versions is None else version_range(versions)
        self.unstable_max_version = self.max_version if unstable_max_version is None else unstable_max_version
        self.carry_out: Handle = handle if refused is None else self._carry_out_or_refuse
        self._handle = handle
        self.request_bytes_max, self.keeps_views = request_bytes_max, keeps_views
        self.refused, self.forwarded, self.take_own_part = refused, forwarded, take_own_part
        self.in_turns, self.concurrent = in_turns, concurrent
        self.advertised_from = self.min_version if advertised_from is None else advertised_from
        self.shortcut, self.operation = shortcut, operation

    def _carry_out_or_refuse(self, context: Context[Any], request: Message) -> Work[Message]:
        timeout_ms = getattr(request, "timeout_ms", None)
        if timeout_ms is not None:
            context.deadline = trio.current_time() + timeout_ms / 1000
        try:
            if self.operation is not None and not context.allows_cluster(self.operation):
                raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
            response = self._handle(context, request)
            return (yield from response) if isinstance(response, Generator) else response
        except KafkaError as error:
            if error.code is ErrorCode.NOT_CONTROLLER and context.connection is None:
                raise
            return (yield from self.refuse(context, request, error))

    def refuse(self, context: Context[Any], request: Message, error: KafkaError) -> Work[Message]:
        """The response to a request that the controller has refused."""
        if self.refused is None:
            raise error
        response = self.refused(context, request, error)
        return (yield from response) if isinstance(response, Generator) else response
