"""A pytest plugin that fails a module of tests that leaves clients open on the loop of its process.

Such a client tries to reach its broker, which has stopped, until the process ends. It takes processor time from later
tests, and its warnings appear at the end of the run.
"""

import sys
import threading
from collections.abc import Generator
from typing import Any, Final

import pytest

# The time limit for one turn of the loop, far longer than necessary on an idle machine.
_TURN_S: Final = 60.0


class OpenClients:
    """Knows after which test each open client was first seen. Fixtures may keep clients open until the module ends."""

    def __init__(self) -> None:
        self._first_seen: dict[Any, str] = {}
        self._reported: set[Any] = set()

    def look(self, test: str, *, is_end_of_module: bool) -> list[str]:
        """Look at the clients after a test. Returns the tests that left some open, if their module ends.

        These clients are closed, so that the next module is not blamed for them.
        """
        clients = [client for client in _open_clients() if client not in self._reported]
        self._first_seen = {client: self._first_seen.get(client, test) for client in clients}
        if not is_end_of_module:
            return []
        for client in clients:
            client.close_soon()
        self._reported.update(clients)
        return sorted(set(self._first_seen.values()))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
        yield
        if tests := self.look(item.nodeid, is_end_of_module=nextitem is None or nextitem.path != item.path):
            pytest.fail(f"clients were left open by {', '.join(tests)}", pytrace=False)


def _open_clients() -> list[Any]:
    """The clients of this process that are open and not about to close."""
    module = sys.modules.get("broker.client.hosted.loop")
    loop = None if module is None else module.PROCESS_LOOP._loop
    if loop is None or not loop.is_usable or not loop._clients:
        return []
    # A client that was dropped closes at the loop's next turn.
    has_turned = threading.Event()
    loop.call_soon(has_turned.set)
    assert has_turned.wait(_TURN_S), "the loop of the clients is held"
    return [client for client in list(loop._clients) if not client._closing.is_set()]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(OpenClients(), "open-clients")
