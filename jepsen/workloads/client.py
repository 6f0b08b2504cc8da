"""What every client of a workload has: a name, a connection that is made anew when it breaks, chance, the history."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import attrs
import trio

from jepsen.history import History
from jepsen.workloads.connection import Address, Connection, ConnectionLost

# How long a client waits after an attempt that came to nothing, at most.
BACK_OFF_SECONDS = 0.3


@attrs.define(eq=False)
class Client:
    """`wall` is the client's wall clock, in seconds since 1970.

    `lives` tells how often storage has lost what was not synced; see `jepsen.history.Operation`.
    """

    name: str
    servers: Sequence[Address]
    history: History
    rng: Random
    wall: Callable[[], float]
    lives: Callable[[], int]

    _connection: Connection | None = attrs.field(default=None, init=False)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        """The client's connection to one of the servers, made if there is none, and kept for the next time.

        It is given up where the block fails: nobody knows which responses are still to come. A connection that stays is
        one over which a request may arrive, and its response not. Raises ConnectionLost.
        """
        if self._connection is None:
            self._connection = await self._connect()
        try:
            yield self._connection
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    async def _connect(self) -> Connection:
        life = self.lives()
        connection = await Connection.open(self.rng.choice(self.servers), life)
        if self.lives() != life:
            await connection.aclose()
            raise ConnectionLost("nobody knows on which side of a power cut this was made")
        return connection

    async def back_off(self) -> None:
        await trio.sleep(self.rng.uniform(0.02, BACK_OFF_SECONDS))

    async def pause(self, per_second: float) -> None:
        """Wait as long as somebody does who acts `per_second` times a second on average."""
        await trio.sleep(self.rng.expovariate(per_second))

    async def call_until_answered(self, request: Any, version: int) -> tuple[Any, int]:
        """The first response that comes, however many connections it takes, and its life. For what may be repeated."""
        while True:
            try:
                async with self.connected() as connection:
                    return await connection.call(request, version), connection.life
            except ConnectionLost:
                await self.back_off()
