"""The entry of a handler in a registry, which is known before the handler is imported."""

from collections.abc import Callable
from functools import cached_property
from typing import Final

from broker.server.handler import Handler
from broker.wire.api import APIS
from broker.wire.schema import version_range

_KEYS: Final = {api.name: key for key, api in APIS.items()}


class HandlerEntry:
    """The API by its name, the versions that are served, and `load`, which imports the handler at its first use.

    `versions`, `advertised_from` and `unstable_max_version` are those of the handler, where it declares them
    (`broker.server.handler.Handler`): ApiVersions lists them before the handler is imported.
    """

    def __init__(
        self,
        api: str,
        load: Callable[[], Handler],
        *,
        versions: str | None = None,
        advertised_from: int | None = None,
        unstable_max_version: int | None = None,
    ) -> None:
        self.api_key = _KEYS[api]
        known = APIS[self.api_key]
        served = (known.min_version, known.max_version) if versions is None else version_range(versions)
        self.min_version, self.max_version = served
        self.advertised_from = self.min_version if advertised_from is None else advertised_from
        self.unstable_max_version = self.max_version if unstable_max_version is None else unstable_max_version
        self._load = load

    @cached_property
    def handler(self) -> Handler:
        handler = self._load()
        for name in ("api_key", "min_version", "max_version", "advertised_from", "unstable_max_version"):
            assert getattr(handler, name) == getattr(self, name), f"{name} of a handler is not that of its entry"
        return handler
