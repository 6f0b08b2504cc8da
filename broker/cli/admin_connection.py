"""A connection for the commands that ask a cluster for something."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from broker.cli.grammar import WrongSettings
from broker.client import Connection, ConnectionLost
from broker.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker.wire.errors import ErrorCode, KafkaError

CLIENT_ID: Final = "kraft-admin"
# How long the cluster may take for what it is asked.
REQUEST_TIMEOUT_MS: Final = 30_000
# Endpoint types of DescribeCluster (KIP-919).
BROKERS: Final = 1
CONTROLLERS: Final = 2

# Kafka's clients give up on a bootstrap server after ten seconds, too.
_CONNECT_TIMEOUT_MS: Final = 10_000
_PORT_MAX: Final = 65_535


def parse_servers(text: str) -> list[tuple[str, int]]:
    """Read `host:port,...`; an IPv6 address stands in brackets. Raises WrongSettings."""
    servers = []
    for entry in filter(None, map(str.strip, text.split(","))):
        host, colon, port = entry.rpartition(":")
        if not (colon and host and port.isdecimal() and int(port) <= _PORT_MAX):
            raise WrongSettings("Please provide valid host:port like host1:9091,host2:9092")
        servers.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not servers:
        raise WrongSettings("Please provide valid host:port like host1:9091,host2:9092")
    return servers


@asynccontextmanager
async def connected(servers: Sequence[tuple[str, int]]) -> AsyncIterator[Connection]:
    """A connection to the first of the servers that can be reached. Raises ConnectionLost where there is none."""
    connection = await _open_first(servers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_carry, connection)
        yield connection
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def connected_to_controller(controllers: Sequence[tuple[str, int]]) -> AsyncIterator[Connection]:
    """A connection to the active controller, whom one of `controllers` knows. Raises ConnectionLost, KafkaError."""
    async with connected(controllers) as connection:
        cluster = await describe_cluster(connection, CONTROLLERS)
    for node in cluster.brokers:
        if node.broker_id == cluster.controller_id:
            async with connected([(node.host, node.port)]) as to_leader:
                yield to_leader
            return
    raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "No controller is active.")


async def describe_cluster(connection: Connection, endpoint_type: int) -> DescribeClusterResponse:
    """Raises ConnectionLost, KafkaError."""
    response = await connection.call(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert isinstance(response, DescribeClusterResponse), "the answer to what was asked"
    check(response.error_code, response.error_message)
    return response


def check(code: int, message: str | None) -> None:
    """Raises KafkaError for an error code of a response."""
    if code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(code), message or "")


async def _open_first(servers: Sequence[tuple[str, int]]) -> Connection:
    failures = []
    for host, port in servers:
        try:
            return await Connection.open(
                host,
                port,
                CLIENT_ID,
                connect_timeout_ms=_CONNECT_TIMEOUT_MS,
                # The cluster's own limit comes first, so that its answer says what was wrong.
                request_timeout_ms=2 * REQUEST_TIMEOUT_MS,
            )
        except ConnectionLost as error:
            failures.append(f"{host}:{port}: {error}")
    raise ConnectionLost(f"No server can be reached: {'; '.join(failures)}")


async def _carry(connection: Connection) -> None:
    with suppress(ConnectionLost):  # who waits for an answer hears of it
        await connection.run()
