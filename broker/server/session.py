"""A client's identity, and the state that the server keeps for it while its connection lasts."""

from math import inf
from typing import Any, Final

from broker.net.connection import Connection
from broker.replication.refused_batches import RefusedBatches
from broker.server.sasl import SaslSession
from broker.server.shortcut_tables import ClientKind, ShortcutTable, ShortcutTables

UNKNOWN_SOFTWARE: Final = ("unknown", "unknown")


class HeldTime:
    """For how many seconds a client has held the event loop, as far as it is not charged for them yet."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


class Session:
    """One client's session, with the state that handlers keep of a client.

    A session begins unauthenticated, with no `principal`, and is served only what `RequestAdmission` allows then.
    `authenticated_until` is a time of Trio's clock; inf if the authentication does not expire. `client_host` is the
    client's address, and `listener` the name of the listener it connected to, empty for a request that another node
    forwarded. `client_id` is from the last request that was decoded, and `client_software` is the name and the
    version from ApiVersions (KIP-511). `refused_batches` are those that the client's producers have to send again
    before later ones are accepted. `prefix_length` is the number of bytes that the next request may have in common
    with the last one; `shortcuts` looks requests up by these bytes, and `follower_fetches` is what the shortcut of
    Fetch has learned from a follower's requests. The connection is muted until `throttled_until`, of Trio's clock.
    `held_time` is that of the client while it has a request quota. `is_own` is true for this node's own requests to its
    controller, which are not authorized. `sasl` is the client's authentication on a listener with SASL. `losses_seen`
    and `listed_lost_brokers` are what the client has been told of dead brokers (`broker/server/lost_brokers.py`).
    """

    __slots__ = (
        "_tables",
        "authenticated_until",
        "client_host",
        "client_id",
        "client_software",
        "connection",
        "follower_fetches",
        "held_time",
        "is_own",
        "listed_lost_brokers",
        "listener",
        "losses_seen",
        "prefix_length",
        "principal",
        "refused_batches",
        "sasl",
        "shortcuts",
        "throttled_until",
    )

    def __init__(
        self, client_host: str, listener: str, tables: ShortcutTables, connection: Connection | None = None
    ) -> None:
        self.principal = ""
        self.authenticated_until = 0.0
        self.client_host = client_host
        self.listener = listener
        self.client_id: str | None = None
        self.client_software = UNKNOWN_SOFTWARE
        self.connection = connection
        self.refused_batches: RefusedBatches | None = None
        self.prefix_length = 0
        self.follower_fetches: Any = None
        self.throttled_until = 0.0
        self.held_time: HeldTime | None = None
        self.is_own = False
        self.losses_seen = 0
        self.listed_lost_brokers: dict[int, float] | None = None
        self.sasl: SaslSession | None = None
        self.shortcuts = ShortcutTable()
        self._tables = tables

    @classmethod
    def authenticated(
        cls,
        principal: str,
        client_host: str,
        listener: str,
        tables: ShortcutTables,
        connection: Connection | None = None,
    ) -> "Session":
        """The session of a client whose principal is known from the beginning."""
        session = cls(client_host, listener, tables, connection)
        session.authenticate(principal)
        return session

    @property
    def is_authenticated(self) -> bool:
        return bool(self.principal)

    @property
    def user(self) -> str:
        """The name of the principal: "alice" of "User:alice"."""
        return self.principal.partition(":")[2]

    def authenticate(self, principal: str, until: float = inf) -> None:
        """Set the authenticated principal.

        If the authentication does not expire, the client uses the shortcuts that were learned for clients of that
        principal. They would serve others without admission.
        """
        self.principal, self.authenticated_until = principal, until
        if self.connection is None or until != inf:
            self.shortcuts = ShortcutTable()
        else:
            self.shortcuts = self._tables.table(ClientKind(principal, self.client_host, self.listener))
