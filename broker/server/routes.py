"""Which handler and codec serve a request, by its API key and version."""

from collections.abc import Iterable

from broker.net.connection import ProtocolError
from broker.server.handler import Handler
from broker.server.handler_entry import HandlerEntry
from broker.server.message_codec import MessageCodec, message_codec
from broker.server.shortcut_tables import TableKey, table_key
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersion
from broker.wire.api.names import api_name
from kraft import lazy_attrs

API_VERSIONS_KEY = 18


@lazy_attrs.frozen
class Route:
    """One API in one version, ready to serve. `key` stands for both in tables."""

    handler: Handler
    codec: MessageCodec
    key: TableKey


class UnservedVersion(ProtocolError):
    """The API is served, but not in this version. A client that has asked for the versions does not send it."""


class Routes:
    """The routes of one kind of listeners, made on first use; a handler is imported for its first request.

    With `serves_unstable`, versions of APIs that are still in development are served too. `advertised` is the answer to
    ApiVersions.
    """

    def __init__(self, entries: Iterable[HandlerEntry], *, serves_unstable: bool) -> None:
        self._entries = {entry.api_key: entry for entry in entries}
        self._handlers: dict[int, Handler] = {}
        self._serves_unstable = serves_unstable
        self._routes: dict[tuple[int, int], Route] = {}
        self.advertised = [
            ApiVersion(
                api_key=entry.api_key,
                min_version=entry.advertised_from,
                max_version=self._max_version(entry),
            )
            for entry in sorted(self._entries.values(), key=lambda entry: entry.api_key)
        ]

    def find(self, api_key: int, version: int) -> Route | None:
        """The route of a request; None for an unknown version of ApiVersions.

        Raises ProtocolError if the API is not served, and UnservedVersion.
        """
        return self._routes.get((api_key, version)) or self._make(api_key, version)

    def handler(self, api_key: int) -> Handler | None:
        """The handler of an API; None if it is not served."""
        handler = self._handlers.get(api_key)
        if handler is None and (entry := self._entries.get(api_key)) is not None:
            handler = self._handlers[api_key] = entry.handler
        return handler

    def check_size(self, api_key: int, size: int) -> None:
        """Raise ProtocolError for a request that is larger than its API allows."""
        handler = self.handler(api_key)
        size_max = None if handler is None else handler.request_bytes_max
        if size_max is not None and size > size_max:
            raise ProtocolError(f"a request of {size} bytes to {APIS[api_key].name}, which takes {size_max} at most")

    def _max_version(self, entry: HandlerEntry) -> int:
        return entry.unstable_max_version if self._serves_unstable else entry.max_version

    def _make(self, api_key: int, version: int) -> Route | None:
        entry = self._entries.get(api_key)
        if entry is None:
            raise ProtocolError(f"{api_name(api_key)} is not served")
        if not entry.min_version <= version <= self._max_version(entry):
            if api_key == API_VERSIONS_KEY:
                return None
            raise UnservedVersion(f"version {version} of {api_name(api_key)} is not served")
        route = self._routes[api_key, version] = Route(
            entry.handler, message_codec(api_key, version), table_key(api_key, version)
        )
        return route
