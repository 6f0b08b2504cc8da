"""Shortcuts for requests that clients repeat, kept apart for each kind of client.

A shortcut answers a request whose bytes it knows without decoding it. It learns from requests that succeeded, so its
knowledge holds for clients like the one that sent them, and as long as that client's rights and quotas stay as they
were. Each kind of client therefore has a table of its own, and all tables are emptied when rights or quotas
change: a session points to its table, so that a request pays nothing for it.
"""

from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias
from weakref import WeakValueDictionary

from broker.net.connection import Connection
from broker.net.reply import Part, PendingReply

# Entries in all tables together: one per client id and partition, of about 2 KB each. When there are more, all are
# forgotten: the requests in use teach theirs again, at the price of one request that goes the general way.
ENTRIES_MAX: Final = 16_384

ShortcutReply: TypeAlias = bytes | list[Part] | PendingReply | Literal[False] | None


class ClientKind(NamedTuple):
    """The properties of a client that decisions may depend on, as in Kafka's AuthorizableRequestContext."""

    principal: str
    client_host: str
    listener: str


class Shortcut(Protocol):
    """Answers requests of one API and version whose bytes it knows, for clients of one kind."""

    def serve(self, connection: Connection, start: int, end: int, correlation_id: int) -> ShortcutReply:
        """Return the reply, which may be completed later, or None if there is none to send.

        Returns False if the request has to go the general way; nothing was done then.
        """
        ...

    def learn(self, context: Any, request: Any, response: Any, start: int, end: int) -> bool:
        """Learn from a request that went the general way, if it succeeded. True if there is one entry more."""
        ...


class ShortcutTable(dict[int, Shortcut]):
    """The shortcuts for clients of one kind, by API key and version in one number, see `table_key`."""

    __slots__ = ("__weakref__",)


TableKey: TypeAlias = int


def table_key(api_key: int, version: int) -> TableKey:
    """The first four bytes of a request's header as one number: a dictionary finds it faster than a pair."""
    return api_key << 16 | version


class ShortcutTables:
    """The tables of all kinds of clients that are connected. A table goes when its last session does."""

    def __init__(self) -> None:
        self._tables: WeakValueDictionary[ClientKind, ShortcutTable] = WeakValueDictionary()
        self._entries = 0

    def table(self, kind: ClientKind) -> ShortcutTable:
        """The table of clients of this kind; its sessions keep it."""
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = ShortcutTable()
        return table

    def count_entry(self) -> None:
        """Count one entry more. Forgets all if there are too many; entries of tables that are gone are counted too."""
        self._entries += 1
        if self._entries > ENTRIES_MAX:
            self.forget()

    def forget(self) -> None:
        """Forget everything that was learned: the next request of each kind goes the general way."""
        for table in list(self._tables.values()):
            table.clear()
        self._entries = 0
