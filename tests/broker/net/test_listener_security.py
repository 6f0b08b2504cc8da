"""The bound on unfinished TLS handshakes of an address."""

import ssl
from collections import Counter
from functools import partial

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from broker.net import listener_security
from broker.net.listener_security import Handshakes, ListenerSecurity, NotSecured

SECURITY = ListenerSecurity(tls=partial(ssl.SSLContext, ssl.PROTOCOL_TLS_SERVER))


async def test_connections_that_come_at_once_keep_the_bound_on_unfinished_handshakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each takes the place of another one, although no task of a connection runs between them."""
    monkeypatch.setattr(listener_security, "UNFINISHED_PER_ADDRESS_MAX", 4)
    handshakes, unfinished = Handshakes(), Counter[str]()

    async def secure(address: str) -> None:
        ours, _ = memory_stream_pair()
        unfinished[address] += 1
        with pytest.raises(NotSecured, match="4 newer connections from there have not finished the handshake"):
            await handshakes.secure(SECURITY, ours, address)
        unfinished[address] -= 1

    async with trio.open_nursery() as nursery:
        for burst in range(3):
            for _ in range(20):
                nursery.start_soon(secure, "192.0.2.1")
            nursery.start_soon(secure, f"192.0.2.{burst + 2}")
            await wait_all_tasks_blocked()
            assert unfinished["192.0.2.1"] == 4
            assert unfinished.total() == 4 + burst + 1, "an address does not take the places of others"
        nursery.cancel_scope.cancel()
