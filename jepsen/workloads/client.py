"""The base of all clients: a name, a connection that is replaced when it breaks, random numbers, the history."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import attrs
import trio

from broker.client import ConnectionLost
from broker.client.connection_security import ConnectionSecurity
from broker.client.environment import Environment
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.errors import ErrorCode
from jepsen.history import History
from jepsen.workloads.connection import CLIENT_ID, Address, Connection, read_security

METADATA_VERSION = 12
_FIND_COORDINATOR_VERSION = 4
# The longest wait after a failed attempt.
BACK_OFF_SECONDS = 0.3
# The reason for an unknown outcome when the server lost storage around the time of its response.
AMBIGUOUS = "the response may be from before or after a loss of storage"


@attrs.define(eq=False)
class Client:
    """`wall` is the client's wall clock, in seconds since 1970.

    `incarnations` returns, for a server's host, the number of losses of its unsynced storage; see
    `jepsen.history.Operation`. `partition_incarnation` returns the same for the server's replica of a partition, by
    host, topic and index; None if the server's number applies. A client connects to any server, unless it uses one of
    the `seek` methods. `configs` are those of the client library for TLS and SASL.
    """

    name: str
    servers: Sequence[Address]
    history: History
    rng: Random
    wall: Callable[[], float]
    incarnations: Callable[[str], int]
    partition_incarnation: Callable[[str, str, int], int | None] = lambda host, topic, partition: None
    client_id: str = CLIENT_ID
    configs: Mapping[str, str] = attrs.field(factory=dict)

    _security: ConnectionSecurity = attrs.field(
        default=attrs.Factory(lambda self: read_security(self.configs), takes_self=True), init=False
    )
    _connection: Connection | None = attrs.field(default=None, init=False)
    _target: Address | None = attrs.field(default=None, init=False)

    @property
    def bootstrap_servers(self) -> list[str]:
        """The servers, in the form that the client library takes."""
        return [f"{host}:{port}" for host, port in self.servers]

    @property
    def environment(self) -> Environment:
        """The clock and the random numbers, in the form that the client library takes."""
        return Environment(now_ms=lambda: int(self.wall() * 1000), rng=self.rng)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        """The client's open connection to one of the servers; opens one if necessary, and keeps it.

        The connection is closed if the block fails, because it is unknown which responses will still arrive. Over a
        kept connection, a request may arrive although its response does not. Raises ConnectionLost.
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
        """The address of the connected server, or of the one to connect to next."""
        return self._target if self._connection is None else self._connection.address

    def incarnation(self, connection: Connection, topic: str, partition: int) -> int:
        """The incarnation of a partition that applies to responses arriving over this connection now."""
        incarnation = self.partition_incarnation(connection.address[0], topic, partition)
        return connection.incarnation if incarnation is None else incarnation

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    async def seek(self, address: Address) -> None:
        """Connect to this server next."""
        await self.aclose()
        self._target = address

    async def seek_leader(self, topic: str, partition: int) -> int:
        """Connect to the leader of a partition, as reported by any server, and return the leader epoch.

        That server's metadata may be older than what the client knows. Raises ConnectionLost, also if the server knows
        no leader; the next connection then goes to any server.
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
        """Connect to the coordinator of a group, as reported by any server. Raises ConnectionLost."""
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
        incarnation = self.incarnations(address[0])
        connection = await Connection.open(address, incarnation, self.client_id, self._security)
        if self.incarnations(address[0]) != incarnation:
            await connection.aclose()
            raise ConnectionLost("the connection may be from before or after a power cut")
        return connection

    async def back_off(self) -> None:
        await trio.sleep(self.rng.uniform(0.02, BACK_OFF_SECONDS))

    async def pause(self, per_second: float) -> None:
        """Wait for a random time, so that a loop runs `per_second` times a second on average."""
        await trio.sleep(self.rng.expovariate(per_second))

    async def call_until_answered(self, request: Any, version: int) -> tuple[Any, int]:
        """Repeat the request until a response arrives; return it and its incarnation. For idempotent requests."""
        while True:
            try:
                async with self.connected() as connection:
                    return await connection.call(request, version), connection.incarnation
            except ConnectionLost:
                await self.back_off()
