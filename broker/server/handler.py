"""The declaration of a handler: one API, the versions it serves, and a function from request to response."""

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction, isgeneratorfunction
from typing import Any, Final, TypeAlias

from broker.net.reply import PendingReply
from broker.server.context import Context, Message, Server
from broker.server.forwarding import TakeOwnPart
from broker.server.message_codec import MessageCodec
from broker.server.shortcut_tables import Shortcut
from broker.server.slices import Steps
from broker.wire.schema import MessageSpec, version_range
from metadata.errors import ApiError

# The largest request of an API that does not say otherwise: 10,000 topics or groups with names of 100 bytes.
REQUEST_BYTES_MAX: Final = 1024 * 1024
# For APIs whose requests name one resource, or a few.
SMALL_REQUEST_BYTES_MAX: Final = 64 * 1024

Immediate: TypeAlias = Callable[[Context[Any], Message], Message | PendingReply | None]
Sliced: TypeAlias = Callable[[Context[Any], Message], Steps[Message]]
Deferred: TypeAlias = Callable[[Context[Any], Message], Awaitable[Message]]
Refused: TypeAlias = Callable[[Context[Any], Message, ApiError], Message | Steps[Message]]
MakeShortcut: TypeAlias = Callable[[Server[Any], MessageCodec], Shortcut]


class Handler:
    """How the requests of one API are carried out: `Handler(FetchRequest, fetch)`.

    `request` is the class of the requests, which has the API's key. All versions with a schema are served, or those in
    `versions`, such as "4-18". A function `handle` returns a response or a pending reply (`immediate`). A generator
    function takes steps to the response; if there are many, they run in slices, as for an async function (`sliced`). An
    async function is awaited, one at a time per connection (`deferred`).

    `request_bytes_max` bounds the whole request; None: the listener's bound is the only one. A larger one closes its
    connection as soon as its size is known. `keeps_views` is true if requests hold views of the receive buffer,
    and so have to be served before it is reused.

    `refused` builds the response, at once or in steps, if the controller refused the whole request or cannot be
    reached. Brokers send requests of a `forwarded` API to the controller: unchanged, unless `take_own_part` carries out
    a part of them.

    `concurrent` lets the connection serve its next request before an async function has returned, for requests of
    brokers on behalf of many clients. Replies keep their order.

    `shortcut` makes the shortcut of one version, for clients of one kind.

    `unstable_max_version` is the highest version that is served and listed with `unstable.api.versions.enable`.

    `advertised_from` is the lowest version that ApiVersions lists, if clients need to see versions that are refused.
    """

    def __init__(
        self,
        request: type[Any],
        handle: Immediate | Sliced | Deferred,
        *,
        versions: str | None = None,
        request_bytes_max: int | None = REQUEST_BYTES_MAX,
        keeps_views: bool = False,
        refused: Refused | None = None,
        forwarded: bool = False,
        take_own_part: TakeOwnPart | None = None,
        concurrent: bool = False,
        advertised_from: int | None = None,
        unstable_max_version: int | None = None,
        shortcut: MakeShortcut | None = None,
    ) -> None:
        assert not forwarded or refused is not None, "a forwarded API needs a response for an unreachable controller"
        message: MessageSpec = request.__message__
        self.api_key = message.key
        self.min_version, self.max_version = message.versions if versions is None else version_range(versions)
        self.unstable_max_version = self.max_version if unstable_max_version is None else unstable_max_version
        self.deferred: Deferred | None = handle if iscoroutinefunction(handle) else None
        self.sliced: Sliced | None = handle if isgeneratorfunction(handle) else None
        self.immediate: Immediate | None = None if self.deferred or self.sliced else handle
        self.request_bytes_max, self.keeps_views = request_bytes_max, keeps_views
        self.refused = refused
        self.forwarded, self.take_own_part = forwarded, take_own_part
        self.concurrent = concurrent
        self.advertised_from = self.min_version if advertised_from is None else advertised_from
        self.shortcut = shortcut
