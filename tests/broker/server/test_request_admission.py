"""Which requests may run, by the state of the client's session."""

from types import SimpleNamespace
from typing import Any

import pytest
from trio.testing import MockClock

from broker.handlers import CONTROLLER_HANDLERS, HANDLERS
from broker.net.connection import ProtocolError
from broker.net.listener_security import ANONYMOUS
from broker.server.handler import SMALL_REQUEST_BYTES_MAX
from broker.server.request_admission import RequestAdmission
from broker.server.routes import Routes, UnservedVersion
from broker.server.session import Session
from broker.server.shortcut_tables import ShortcutTables

API_VERSIONS, METADATA, HEARTBEAT, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 3, 12, 17, 36


@pytest.fixture
def admission() -> RequestAdmission:
    return RequestAdmission(Routes(HANDLERS, serves_unstable=False), lambda listener: None)


def unauthenticated() -> Session:
    connection: Any = SimpleNamespace()
    return Session("127.0.0.1", "SASL", ShortcutTables(), connection)


async def test_unauthenticated_client_may_ask_for_versions_only(admission: RequestAdmission) -> None:
    client = unauthenticated()
    route = admission.admit(client, API_VERSIONS, 3, 50)
    assert route is not None
    assert route.handler.api_key == API_VERSIONS
    for api_key in (METADATA, HEARTBEAT):
        with pytest.raises(ProtocolError, match="before the client has authenticated"):
            admission.admit(client, api_key, 1, 50)


async def test_unauthenticated_client_may_begin_to_authenticate(admission: RequestAdmission) -> None:
    for api_key in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
        route = admission.admit(unauthenticated(), api_key, 1, 50)
        assert route is not None
        assert route.handler.api_key == api_key


async def test_unknown_version_of_api_versions_has_no_route(admission: RequestAdmission) -> None:
    assert admission.admit(unauthenticated(), API_VERSIONS, 99, 50) is None


async def test_authenticated_client_is_admitted(admission: RequestAdmission) -> None:
    client = unauthenticated()
    client.authenticate("User:alice")
    assert admission.admit(client, METADATA, 12, 50) is not None


async def test_session_that_expires_is_served_until_then(
    admission: RequestAdmission, autojump_clock: MockClock
) -> None:
    client = unauthenticated()
    client.authenticate("User:alice", until=autojump_clock.current_time() + 10)
    assert admission.admit(client, METADATA, 12, 50) is not None
    autojump_clock.jump(10)
    for api_key in (METADATA, API_VERSIONS):
        with pytest.raises(ProtocolError, match="authentication has expired"):
            admission.admit(client, api_key, 3, 50)
    client.authenticate("User:alice", until=autojump_clock.current_time() + 10)
    assert admission.admit(client, METADATA, 12, 50) is not None


def test_session_that_expires_shares_no_shortcuts() -> None:
    tables = ShortcutTables()
    connection: Any = SimpleNamespace()
    lasting = Session.authenticated(ANONYMOUS, "127.0.0.1", "SASL", tables, connection)
    expiring = Session("127.0.0.1", "SASL", tables, connection)
    expiring.authenticate(ANONYMOUS, until=10.0)
    assert expiring.shortcuts is not lasting.shortcuts
    lasting.authenticate("User:bob", until=10.0)
    assert lasting.shortcuts == {}
    assert lasting.shortcuts is not expiring.shortcuts


async def test_session_is_checked_before_the_size_and_the_size_before_the_version(admission: RequestAdmission) -> None:
    with pytest.raises(ProtocolError, match="before the client has authenticated"):
        admission.admit(unauthenticated(), HEARTBEAT, 99, 1 << 20)
    client = Session.authenticated(ANONYMOUS, "127.0.0.1", "PLAINTEXT", ShortcutTables())
    with pytest.raises(ProtocolError, match="takes 65536 at most"):
        admission.admit(client, HEARTBEAT, 99, 1 << 20)
    with pytest.raises(UnservedVersion):
        admission.admit(client, HEARTBEAT, 99, 50)


def test_no_bound_is_below_the_size_from_which_bounds_are_checked() -> None:
    bounds = [entry.handler.request_bytes_max for entry in (*HANDLERS, *CONTROLLER_HANDLERS)]
    assert min(bound for bound in bounds if bound is not None) == SMALL_REQUEST_BYTES_MAX
