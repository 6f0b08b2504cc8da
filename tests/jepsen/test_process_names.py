"""The names of nodes that a node's own process resolves, for its listeners and its connections to other nodes."""

import socket

import pytest
import trio

from broker.config.endpoints import parse_listeners
from broker.node.listeners import bind_listener, close
from jepsen.processes.names import resolve_in_process
from metadata.protocol import SecurityProtocol
from tests.support.linux import needs_loopback_addresses


@needs_loopback_addresses
async def test_a_node_listens_and_connects_at_the_addresses_of_its_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", socket.getaddrinfo)  # restored after the test
    resolve_in_process({"n1": "127.0.1.7"})
    (listener,) = parse_listeners("PLAINTEXT://n1:0", {"PLAINTEXT": SecurityProtocol.PLAINTEXT})
    bound = await bind_listener(listener, backlog=1)
    async with await trio.open_tcp_stream("n1", bound.port) as stream:
        assert stream.socket.getpeername() == ("127.0.1.7", bound.port)
    await close([bound])
