"""A refused connection shows that a broker's process is gone."""

import pytest
import trio

from broker.node.broker_probes import BrokerProbes, _is_refused
from jepsen.processes.ports import free_ports
from metadata.records import BrokerEndpoint
from tests.support.metadata import metadata_node, registration
from tests.support.volatile_disk import VolatileDisk

# Shorter than the session timeout of a broker, and far longer than some probes.
SOON_S = 8.0


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


async def test_process_that_ends_is_noticed_although_its_kernel_accepted_another_connection() -> None:
    """The listener is one of the last sockets that the kernel closes."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    endpoint = BrokerEndpoint("PLAINTEXT", "127.0.0.1", listener.socket.getsockname()[1], 0)
    async with (
        metadata_node(VolatileDisk(), watches_brokers=True, connection_lost_grace_ms=60_000) as node,
        trio.open_nursery() as nursery,
    ):
        epoch = await node.controller.register_broker(registration(1, node.rng, end_points=[endpoint]))
        await node.heartbeat(1, epoch)
        node.controller.broker_connection_lost(1, epoch)
        BrokerProbes(node.controller, "PLAINTEXT", nursery).probe(1)
        async with await listener.accept():
            await listener.aclose()
        with trio.fail_after(SOON_S):
            while not node.loader.image.cluster.brokers[1].fenced:
                await trio.sleep(0.01)


async def test_probes_end_when_the_broker_is_heard() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    endpoint = BrokerEndpoint("PLAINTEXT", "127.0.0.1", listener.socket.getsockname()[1], 0)
    async with metadata_node(VolatileDisk(), watches_brokers=True) as node:
        epoch = await node.controller.register_broker(registration(1, node.rng, end_points=[endpoint]))
        await node.heartbeat(1, epoch)
        node.controller.broker_connection_lost(1, epoch)
        async with trio.open_nursery() as nursery:
            BrokerProbes(node.controller, "PLAINTEXT", nursery).probe(1)
            async with await listener.accept():
                await node.heartbeat(1, epoch)
        assert not node.loader.image.cluster.brokers[1].fenced
    await listener.aclose()
