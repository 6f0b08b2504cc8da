"""What every client of a workload has: a name, a connection that is made anew when it breaks, chance, the history."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import attrs
import trio

from broker.client.environment import Environment
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.errors import ErrorCode
from jepsen.history import History
from jepsen.workloads.connection import Address, Connection, ConnectionLost

METADATA_VERSION = 12
_FIND_COORDINATOR_VERSION = 4
# How long a client waits after an attempt that came to nothing, at most.
BACK_OFF_SECONDS = 0.3
# Of a response that was given before a loss of storage, or after it.
AMBIGUOUS = "nobody knows on which side of a loss this was said"


@attrs.define(eq=False)
class Client:
    """`wall` is the client's wall clock, in seconds since 1970.

    `lives` tells, for a server by its host, how often its storage has lost what was not synced; see
    `jepsen.history.Operation`. `partition_life` tells the same of what a server knows of a partition, by host, topic,
    index, where that is another matter; None where it is not. Each client makes its connections to any server, unless
    it `seek`s one.
    """

    name: str
    servers: Sequence[Address]
    history: History
    rng: Random
    wall: Callable[[], float]
    lives: Callable[[str], int]
    partition_life: Callable[[str, str, int], int | None] = lambda host, topic, partition: None

    _connection: Connection | None = attrs.field(default=None, init=False)
    _target: Address | None = attrs.field(default=None, init=False)

    @property
    def bootstrap_servers(self) -> list[str]:
        """The servers, for the client library."""
        return [f"{host}:{port}" for host, port in self.servers]

    @property
    def environment(self) -> Environment:
        """The clock and the random numbers, for the client library."""
        return Environment(now_ms=lambda: int(self.wall() * 1000), rng=self.rng)

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

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def address(self) -> Address | None:
        """Of the server that it is connected to, or is to be."""
        return self._target if self._connection is None else self._connection.address

    def life(self, connection: Connection, topic: str, partition: int) -> int:
        """The life of a partition that what comes over a connection now is of."""
        life = self.partition_life(connection.address[0], topic, partition)
        return connection.life if life is None else life

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    async def seek_leader(self, topic: str, partition: int) -> int:
        """Go on at the leader of a partition, as any server knows it, and tell its epoch.

        The server may know of an earlier leader than the client does. Raises ConnectionLost, also where it knows of
        none: then the client goes on anywhere.
        """
        await self.aclose()
        self._target = None
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        async with self.connected() as connection:
            response = await connection.call(request, METADATA_VERSION)
        addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        leader_epoch = -1
        for told in response.topics[0].partitions:
            if told.partition_index == partition:
                self._target, leader_epoch = addresses.get(told.leader_id), int(told.leader_epoch)
        if connection.address != self._target:
            await self.aclose()
        if self._target is None:
            raise ConnectionLost(ErrorCode.LEADER_NOT_AVAILABLE.name)
        return leader_epoch

    async def seek_coordinator(self, group: str) -> None:
        """Go on at the coordinator of a group, as any server knows it. Raises ConnectionLost."""
        await self.aclose()
        self._target = None
        async with self.connected() as connection:
            request = FindCoordinatorRequest(coordinator_keys=[group])
            response = await connection.call(request, _FIND_COORDINATOR_VERSION)
        (found,) = response.coordinators
        if found.error_code:
            await self.aclose()
            raise ConnectionLost(ErrorCode(found.error_code).name)
        self._target = found.host, found.port
        if connection.address != self._target:
            await self.aclose()

    async def _connect(self) -> Connection:
        address, self._target = self._target or self.rng.choice(self.servers), None
        life = self.lives(address[0])
        connection = await Connection.open(address, life)
        if self.lives(address[0]) != life:
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
