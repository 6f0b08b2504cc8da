"""Modules of tests that leave clients open are found."""

import pytest

from broker.client import ClosedError, SyncAdmin
from tests.support.open_clients import OpenClients

TEST = "tests/test_orders.py::test_order"


def test_client_that_a_module_leaves_open_is_found_at_its_end_and_closed() -> None:
    open_clients, client = OpenClients(), SyncAdmin("127.0.0.1:1")
    client.__enter__()
    assert open_clients.look(TEST, is_end_of_module=False) == []
    assert open_clients.look("tests/test_orders.py::test_later", is_end_of_module=True) == [TEST]
    assert open_clients.look("tests/test_others.py::test_other", is_end_of_module=True) == []
    client.close()
    with pytest.raises(ClosedError):
        client.list_topics()


def test_closed_client_is_not_reported() -> None:
    open_clients = OpenClients()
    with SyncAdmin("127.0.0.1:1"):
        assert open_clients.look(TEST, is_end_of_module=False) == []
    assert open_clients.look(TEST, is_end_of_module=True) == []
