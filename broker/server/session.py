"""A client's identity, and the state that the server keeps for it while its connection lasts."""

from typing import Final

from broker.net.connection import Connection
from broker.replication.refused_batches import RefusedBatches
from broker.server.shortcut_tables import ClientKind, ShortcutTable, ShortcutTables

# The principal of a client that has not authenticated, as Kafka names it.
ANONYMOUS: Final = "User:ANONYMOUS"
UNKNOWN_SOFTWARE: Final = ("unknown", "unknown")


class HeldTime:
    """For how many seconds a client has held the event loop, as far as it is not charged for them yet."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


class Session:
    """One client's session, with the state that handlers keep of a client.

    `client_host` is the client's address, and `listener` the name of the listener it connected to, empty for a request
    that another node forwarded. `client_id` is from the last request that was decoded, and `client_software` is the
    name and the version from ApiVersions (KIP-511). `refused_batches` are those that the client's producers have to
    send again before later ones are accepted. `prefix_length` is the number of bytes that the next request may have in
    common with the last one; `shortcuts` looks requests up by these bytes. The connection is muted until
    `throttled_until`, of Trio's clock. `held_time` is that of the client while it has a request quota.
    """

    __slots__ = (
        "_tables",
        "client_host",
        "client_id",
        "client_software",
        "connection",
        "held_time",
        "listener",
        "prefix_length",
        "principal",
        "refused_batches",
        "shortcuts",
        "throttled_until",
    )

    def __init__(
        self,
        principal: str,
        client_host: str,
        listener: str,
        tables: ShortcutTables,
        connection: Connection | None = None,
    ) -> None:
        self.principal = principal
        self.client_host = client_host
        self.listener = listener
        self.client_id: str | None = None
        self.client_software = UNKNOWN_SOFTWARE
        self.connection = connection
        self.refused_batches: RefusedBatches | None = None
        self.prefix_length = 0
        self.throttled_until = 0.0
        self.held_time: HeldTime | None = None
        self.shortcuts = ShortcutTable()
        self._tables = tables
        if connection is not None:
            self.authenticate(principal)

    @property
    def user(self) -> str:
        """The name of the principal: "alice" of "User:alice"."""
        return self.principal.partition(":")[2]

    def authenticate(self, principal: str) -> None:
        """Set the authenticated principal, and use the shortcuts that were learned for clients of that principal."""
        self.principal = principal
        self.shortcuts = self._tables.table(ClientKind(principal, self.client_host, self.listener))
