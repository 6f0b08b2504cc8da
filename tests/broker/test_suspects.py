"""Whether a broker's process is gone, as a refused connection tells."""

import pytest
import trio

from broker.node.suspects import _is_refused
from jepsen.processes.ports import free_ports
from metadata.records import BrokerEndpoint


async def test_a_port_that_refuses_belongs_to_a_process_that_is_gone() -> None:
    (port,) = free_ports(1)
    assert await _is_refused(BrokerEndpoint("PLAINTEXT", "127.0.0.1", port, 0))


async def test_a_port_that_accepts_belongs_to_a_process_that_lives() -> None:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, lambda stream: stream.aclose(), 0)
        port = listeners[0].socket.getsockname()[1]
        assert not await _is_refused(BrokerEndpoint("PLAINTEXT", "127.0.0.1", port, 0))
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("host", ["two..dots", "x" * 300 + ".example", ""])
async def test_an_advertised_host_name_that_cannot_be_one_says_nothing_about_its_broker(host: str) -> None:
    assert not await _is_refused(BrokerEndpoint("PLAINTEXT", host, 9092, 0))
