"""The context of new connections, which is made again when its settings or files change."""

import ssl
from collections.abc import Callable

from broker.security.tls.files import versions
from broker.security.tls.settings import TlsSettings


class ContextSource:
    """Holds the context that `make` makes of `settings`. Open connections keep the context that they began with.

    Raises TlsConfigError.
    """

    def __init__(self, make: Callable[[TlsSettings], ssl.SSLContext], settings: TlsSettings) -> None:
        self._make = make
        self.settings = settings
        self._versions = versions(settings.files)
        self._context = make(settings)

    def context(self) -> ssl.SSLContext:
        """The context for a new connection."""
        return self._context

    def configure(self, settings: TlsSettings) -> None:
        """Use other settings from now on. Raises TlsConfigError, and goes on as before."""
        if settings == self.settings:
            return
        before = versions(settings.files)
        self._context = self._make(settings)
        self.settings, self._versions = settings, before

    def check(self, settings: TlsSettings) -> None:
        """Raises TlsConfigError if `configure` would."""
        if settings != self.settings:
            self._make(settings)

    def refresh(self) -> bool:
        """Make the context again if a file has changed since the last call; True if so.

        Raises TlsConfigError once for each change of files that cannot be used, and goes on as before.
        """
        found = versions(self.settings.files)
        if found == self._versions:
            return False
        self._versions = found
        self._context = self._make(self.settings)
        return True
