"""The links of one node: its sockets, and the faults that are in force on them."""

import socket as kernel
from collections.abc import Callable, Mapping
from typing import Any, Final

import trio

from broker.net.connection import Connection
from broker.net.socket_reactor import SocketTransport
from jepsen.testing.links.active_link import ActiveLink, Effect, LinkFiring
from jepsen.testing.links.conditions import LinkFault
from jepsen.testing.links.link_socket import LinkSocket
from jepsen.testing.links.relay import insert

# Connections that are remembered before closed ones are looked for.
_CLIENTS_MIN: Final = 64


class NodeLinks(trio.abc.SocketFactory):
    """`ports` has the node that listens on each port. `wall` is the wall clock.

    `run` carries the bytes that faults concern. `when_changed` is called when a fault has affected another connection,
    or holds more or fewer.
    """

    nursery: trio.Nursery

    def __init__(
        self,
        node: int,
        ports: Mapping[int, int],
        wall: Callable[[], float],
        when_changed: Callable[[ActiveLink], None] = lambda active: None,
    ) -> None:
        self.faults: dict[str, ActiveLink] = {}
        self._node = node
        self._ports = ports
        self._wall = wall
        self._when_changed = when_changed
        # With the connections of clients; None for those that this node has opened.
        self._sockets: dict[LinkSocket, Connection | None] = {}
        self._relayed: dict[Connection, LinkSocket] = {}
        # The client ids of connections; None before a first request.
        self._clients: dict[Connection, str | None] = {}
        self._clients_max = _CLIENTS_MIN
        self._changed = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry bytes, until cancelled."""
        async with trio.open_nursery() as self.nursery:
            task_status.started()
            await trio.sleep_forever()

    @property
    def open_sockets(self) -> int:
        """The connections whose sockets of the kernel are open."""
        return len(self._sockets)

    # Faults

    def begin(self, fault_id: str, words: Mapping[str, Any]) -> None:
        """Put a fault in force, on open connections as on later ones."""
        active = ActiveLink(fault_id, LinkFault.of(words), self._node, self._when_changed)
        self.faults[fault_id] = active
        for sock, connection in list(self._sockets.items()):
            if connection is None:
                self._begin_on(sock, active)
        for connection, client_id in list(self._clients.items()):
            self._begin_on_client(connection, client_id, active)
        self._notify()

    def end(self, active: ActiveLink) -> None:
        """End a fault: bytes and connects that it holds go on, connections that have lost bytes are reset."""
        self.faults.pop(active.id, None)
        for sock in list(self._sockets):
            sock.end(active)
        self._notify()

    def _begin_on(self, sock: LinkSocket, active: ActiveLink) -> None:
        inbound, outbound = active.fault.directions(self._node, sock.peer, sock.client_id, sock.address)
        sock.begin(active, inbound=inbound, outbound=outbound)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # Clients

    def connection_opened(self, connection: Connection) -> None:
        """A connection of a client or a broker begins."""
        self._clients[connection] = None
        if len(self._clients) > self._clients_max:
            self._clients = {each: client_id for each, client_id in self._clients.items() if not each.closed}
            self._clients_max = 2 * len(self._clients) + _CLIENTS_MIN

    def client_named(self, connection: Connection, client_id: str) -> None:
        """A request of the client tells its id. Faults concern the connection from its answer on."""
        if self._clients.get(connection, client_id) is None:
            self._clients[connection] = client_id
            for active in list(self.faults.values()):
                if not active.conditions.half_open:
                    self._begin_on_client(connection, client_id, active)

    def _begin_on_client(self, connection: Connection, client_id: str | None, active: ActiveLink) -> None:
        transport = connection.transport
        if connection.closed or not isinstance(transport, SocketTransport):
            return
        sock = self._relayed.get(connection)
        try:
            address = transport.sock.getpeername()[:2] if sock is None else sock.address
        except OSError:
            return  # the client has reset it
        inbound, outbound = active.fault.directions(self._node, None, client_id, address)
        if inbound or outbound:
            if sock is None:
                sock = self._relayed[connection] = insert(transport, self)
                sock.client_id, sock.address = client_id, address
                self._sockets[sock] = connection
            sock.begin(active, inbound=inbound, outbound=outbound)

    # See `SocketLinks`

    def socket(
        self, family: int = kernel.AF_INET, type: int = kernel.SOCK_STREAM, proto: int = 0
    ) -> trio.socket.SocketType:
        return LinkSocket(trio.socket.from_stdlib_socket(kernel.socket(family, type, proto)), self)

    def opened(self, sock: LinkSocket) -> None:
        self._sockets[sock] = None
        if sock.peer is not None:
            for active in self.faults.values():
                if not active.conditions.half_open:
                    self._begin_on(sock, active)

    def closed(self, sock: LinkSocket) -> None:
        connection = self._sockets.pop(sock, None)
        if connection is not None:
            self._relayed.pop(connection, None)

    async def may_connect(self, sock: LinkSocket, address: Any) -> None:
        """Wait until both directions of the link carry packets, and for their latency."""
        sock.peer = self._ports.get(address[1])
        if sock.peer is None:
            return
        sock.address = address[:2]
        known: set[str] = set()
        while holding := [each for each in self._concerning(sock) if each.conditions.holds_connects]:
            for each in holding:
                if each.id not in known:
                    self.fired(sock, each, Effect.CONNECT_HELD)
                known.add(each.id)
                each.hold(1)
            try:
                await self._changed.wait()
            finally:
                for each in holding:
                    each.hold(-1)
        now, round_trip_s = trio.current_time(), 0.0
        for each in self._concerning(sock):
            directions = sum(each.fault.directions(self._node, sock.peer, None, sock.address))
            round_trip_s += directions * (each.arrival(now, 0, is_inbound=False) - now)
        await trio.sleep(round_trip_s)

    def fired(self, sock: LinkSocket, active: ActiveLink, effect: Effect) -> None:
        host, port = sock.address
        active.fire(LinkFiring(self._wall(), self._node, sock.peer, sock.client_id, f"{host}:{port}", effect))

    def _concerning(self, sock: LinkSocket) -> list[ActiveLink]:
        return [
            each
            for each in self.faults.values()
            if any(each.fault.directions(self._node, sock.peer, sock.client_id, sock.address))
        ]
