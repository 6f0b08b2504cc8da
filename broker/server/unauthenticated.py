"""Bounds the connections whose clients have not authenticated yet: their time, their number per address, their memory.

Otherwise a client without credentials could keep descriptors and buffers of a node for as long as it likes.
"""

from typing import Final

import trio

from broker.net.connection import Connection
from broker.net.receive_buffer import INITIAL_SIZE
from broker.security.sasl.exchange import SASL_MESSAGE_BYTES_MAX

# Clients give up after 30 s (`request.timeout.ms`), most of them earlier.
AUTHENTICATION_TIMEOUT_S: Final = 30.0
# As many as connections in a TLS handshake. Clients of one address that all start at once are served, as each
# needs some milliseconds.
UNAUTHENTICATED_PER_ADDRESS_MAX: Final = 256
_SWEEP_S: Final = 1.0
# The memory for what all clients have sent before they have authenticated. A single address could hold 150 MB in
# messages that it does not finish, and there may be many addresses. The first buffer of a connection does not count:
# passwords, and tokens of identity providers, fit into it.
UNAUTHENTICATED_MEMORY_MAX: Final = 64 * 1024 * 1024
# The largest request before authentication: a message of a mechanism, and a header with a client id.
UNAUTHENTICATED_BYTES_MAX: Final = SASL_MESSAGE_BYTES_MAX + 64 * 1024


class UnauthenticatedConnections:
    """The connections that have to authenticate, by address, in the order in which they came.

    A connection is removed when that is noticed to be no longer true: in the sweep of each second, or when its address
    has opened too many. Then the oldest one that still has to authenticate is closed.
    """

    def __init__(self) -> None:
        self._opened_at: dict[str, dict[Connection, float]] = {}
        self._has_some = trio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._opened_at.values()))

    def add(self, connection: Connection) -> None:
        opened_at = self._opened_at.setdefault(connection.peer_host, {})
        if len(opened_at) >= UNAUTHENTICATED_PER_ADDRESS_MAX:
            _make_room(opened_at)
        opened_at[connection] = trio.current_time()
        self._has_some.set()

    async def run(self) -> None:
        """Close connections that have not authenticated in time, until cancelled."""
        while True:
            await self._has_some.wait()  # nodes without SASL have no timer
            await trio.sleep(_SWEEP_S)
            self._sweep()
            self._free_memory()
            if not self._opened_at:
                self._has_some = trio.Event()

    def _sweep(self) -> None:
        due = trio.current_time() - AUTHENTICATION_TIMEOUT_S
        for address, opened_at in list(self._opened_at.items()):
            for connection, at in list(opened_at.items()):
                if _has_ended(connection):
                    del opened_at[connection]
                elif at <= due:
                    del opened_at[connection]
                    connection.close(f"the client has not authenticated in {AUTHENTICATION_TIMEOUT_S:.0f} s")
            if not opened_at:
                del self._opened_at[address]

    def _free_memory(self) -> None:
        """Close connections with large messages, of the addresses that hold most, until the bound is kept."""
        grown = {
            address: {each: size for each in opened_at if (size := len(each.buffer.data) - INITIAL_SIZE) > 0}
            for address, opened_at in self._opened_at.items()
        }
        totals = {address: sum(sizes.values()) for address, sizes in grown.items()}
        held = sum(totals.values())
        for address in sorted(totals, key=totals.__getitem__, reverse=True):
            for connection, size in grown[address].items():
                if held <= UNAUTHENTICATED_MEMORY_MAX:
                    return
                del self._opened_at[address][connection]
                connection.close("clients that have not authenticated have sent too much")
                held -= size


def _make_room(opened_at: dict[Connection, float]) -> None:
    """Remove the connections of an address that have ended; close the oldest one if there are none."""
    ended = [each for each in opened_at if _has_ended(each)]
    for connection in ended:
        del opened_at[connection]
    if not ended:
        oldest = next(iter(opened_at))
        count = len(opened_at)
        del opened_at[oldest]
        oldest.close(f"{count} connections of its address have not authenticated")


def _has_ended(connection: Connection) -> bool:
    return connection.closed or connection.session.is_authenticated
