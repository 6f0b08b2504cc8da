"""The tables of learned requests, one for each kind of client."""

import gc
from types import SimpleNamespace
from typing import Any

from broker.net.listener_security import ANONYMOUS
from broker.server.session import Session
from broker.server.shortcut_tables import ENTRIES_MAX, ClientKind, ShortcutTables

SHORTCUT: Any = SimpleNamespace()


def session(tables: ShortcutTables, principal: str = ANONYMOUS, host: str = "::1", listener: str = "PLAIN") -> Session:
    connection: Any = SimpleNamespace()
    return Session.authenticated(principal, host, listener, tables, connection)


def test_clients_share_a_table_if_authorizers_cannot_tell_them_apart() -> None:
    tables = ShortcutTables()
    first = session(tables)
    assert session(tables).shortcuts is first.shortcuts
    for other in (session(tables, "User:bob"), session(tables, host="::2"), session(tables, listener="SSL")):
        assert other.shortcuts is not first.shortcuts


def test_authentication_leads_to_another_table_and_back() -> None:
    tables = ShortcutTables()
    client = session(tables)
    before = client.shortcuts
    before[0] = SHORTCUT
    client.authenticate("User:bob")
    assert client.principal == "User:bob"
    assert client.shortcuts == {}
    other = session(tables, "User:bob")
    assert other.shortcuts is client.shortcuts


def test_forwarded_requests_have_no_table() -> None:
    tables = ShortcutTables()
    client = session(tables)
    client.shortcuts[0] = SHORTCUT
    assert Session.authenticated(ANONYMOUS, "::1", "PLAIN", tables).shortcuts == {}


def test_sessions_are_kept_when_everything_is_forgotten() -> None:
    tables = ShortcutTables()
    clients = [session(tables), session(tables, "User:bob")]
    for client in clients:
        client.shortcuts[0] = SHORTCUT
    tables.forget()
    assert [client.shortcuts for client in clients] == [{}, {}]
    clients[0].shortcuts[0] = SHORTCUT
    assert session(tables).shortcuts == {0: SHORTCUT}


def test_a_table_goes_with_its_last_session() -> None:
    tables = ShortcutTables()
    client = session(tables)
    client.shortcuts[0] = SHORTCUT
    del client
    gc.collect()
    assert tables.table(ClientKind(ANONYMOUS, "::1", "PLAIN")) == {}


def test_entries_of_all_tables_together_are_bounded() -> None:
    tables = ShortcutTables()
    first, second = session(tables), session(tables, "User:bob")
    for client in (first, second):
        client.shortcuts[0] = SHORTCUT
    for _ in range(ENTRIES_MAX):
        tables.count_entry()
    assert first.shortcuts
    assert second.shortcuts
    tables.count_entry()
    assert first.shortcuts == second.shortcuts == {}
    for _ in range(ENTRIES_MAX):
        first.shortcuts[0] = SHORTCUT
        tables.count_entry()
    assert first.shortcuts
