"""Tables of shortcuts for requests that clients repeat, one table per kind of client.

A shortcut serves a request whose bytes it knows without decoding them. It learns from requests that succeeded, so it is
valid only for clients with the same rights and quotas. Each kind of client therefore has a table of its own, and all
tables are emptied when rights or quotas change. A session refers to its table, so a request need not look it up.
"""

from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias
from weakref import WeakValueDictionary

from broker.net.connection import Connection
from broker.net.reply import Part, PendingReply

# Entries in all tables together: one per client id and partition, of about 2 KB each. When there are more, all are
# removed. Each one that is still in use is learned again from the next such request, which its handler serves.
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

        Returns False, with no effect, if the handler has to serve the request.
        """
        ...

    def learn(self, context: Any, request: Any, response: Any, start: int, end: int) -> bool:
        """Learn from a request that the handler served, if it succeeded. True if that added an entry."""
        ...


class ShortcutTable(dict[int, Shortcut]):
    """The shortcuts for clients of one kind, by API key and version in one number, see `table_key`."""

    __slots__ = ("__weakref__",)


TableKey: TypeAlias = int


def table_key(api_key: int, version: int) -> TableKey:
    """The first four bytes of a request's header as one number: a dictionary finds it faster than a pair."""
    return api_key << 16 | version


class ShortcutTables:
    """The tables of all kinds of clients that are connected. A table is dropped with its last session."""

    def __init__(self) -> None:
        self._tables: WeakValueDictionary[ClientKind, ShortcutTable] = WeakValueDictionary()
        self._entries = 0

    def table(self, kind: ClientKind) -> ShortcutTable:
        """The table of clients of this kind; the caller's session keeps it alive."""
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = ShortcutTable()
        return table

    def count_entry(self) -> None:
        """Count an added entry. Removes all entries if there are too many; those of dropped tables are counted too."""
        self._entries += 1
        if self._entries > ENTRIES_MAX:
            self.forget()

    def forget(self) -> None:
        """Remove all entries; handlers serve the next requests, from which shortcuts learn again."""
        for table in list(self._tables.values()):
            table.clear()
        self._entries = 0
