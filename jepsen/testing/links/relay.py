"""Puts a socket with faults between a client and the driver that serves its connection.

The driver serves connections by the kernel's sockets, as in production. When a fault first concerns a connection, the
driver goes on over another one, and tasks carry bytes between that and the client's.
"""

import socket
import struct
from typing import Final

import trio

from broker.net.socket_reactor import SocketTransport
from jepsen.testing.links.link_socket import LinkSocket, SocketLinks

_LOOPBACK: Final = "127.0.0.1"
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


def insert(transport: SocketTransport, links: SocketLinks) -> LinkSocket:
    """The client's socket, between which and the driver the tasks of `links` carry bytes from now on."""
    ours, drivers = _pair()
    client = LinkSocket(trio.socket.from_stdlib_socket(transport.exchange(drivers)), links)
    links.nursery.start_soon(_relay, client, trio.SocketStream(trio.socket.from_stdlib_socket(ours)))
    return client


def _pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets. They are of TCP, so that a reset of the one reaches the other."""
    with socket.create_server((_LOOPBACK, 0), backlog=1) as server:
        ours = socket.create_connection(server.getsockname())
        drivers, _ = server.accept()
    for each in (ours, drivers):
        each.setblocking(False)
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, drivers


async def _relay(client: LinkSocket, driver: trio.SocketStream) -> None:
    """Carry bytes until the driver closes the connection, or the client's is broken."""
    near = trio.SocketStream(client)
    async with near, driver, trio.open_nursery() as nursery:
        nursery.start_soon(_carry_in, near, driver)
        await _carry_out(driver, near)
        nursery.cancel_scope.cancel()


async def _carry_in(client: trio.SocketStream, driver: trio.SocketStream) -> None:
    try:
        while data := await client.receive_some():
            await driver.send_all(data)
        await driver.send_eof()
    except trio.BrokenResourceError:
        driver.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        await trio.aclose_forcefully(driver)


async def _carry_out(driver: trio.SocketStream, client: trio.SocketStream) -> None:
    try:
        while data := await driver.receive_some():
            await client.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
