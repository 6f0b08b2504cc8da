"""A refused connection shows that a broker's process is gone."""

import pytest
import trio

from broker.node.broker_probes import _is_refused
from jepsen.processes.ports import free_ports
from metadata.records import BrokerEndpoint


async def test_refused_connection_means_the_process_is_gone() -> None:
    (port,) = free_ports(1)
    assert await _is_refused(BrokerEndpoint("PLAINTEXT", "127.0.0.1", port, 0))


async def test_accepted_connection_means_the_process_is_alive() -> None:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, lambda stream: stream.aclose(), 0)
        port = listeners[0].socket.getsockname()[1]
        assert not await _is_refused(BrokerEndpoint("PLAINTEXT", "127.0.0.1", port, 0))
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("host", ["two..dots", "x" * 300 + ".example", ""])
async def test_invalid_host_name_tells_nothing_about_the_process(host: str) -> None:
    assert not await _is_refused(BrokerEndpoint("PLAINTEXT", host, 9092, 0))
