"""Apache Kafka's standard authorizer refuses the requests that this project's refuses, with the same errors."""

import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import pytest
import trio

from benchmarks import apache_kafka
from broker.security.acls import STANDARD_AUTHORIZER
from broker.wire.api.describe_acls import DescribeAclsRequest
from broker.wire.errors import ErrorCode
from metadata.protocol import AclOperation, AclPermission, PatternType, ResourceType
from tests.differential.servers import Ports, running_servers
from tests.support.acl_client import ADMIN_HOST, CLIENT_HOST, AclAdmin, allow_everything, connected_from
from tests.support.authorization_table import CONTROLLER_TABLE, TABLE, Right, grants, refusals, requirements
from tests.support.authorized_requests import CONTROLLER_REQUESTS, REQUESTS, create_resources
from tests.support.wire_client import WireClient

# Without entries everything is allowed, so that the first ones can be made.
CONFIGS: Final = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
OWN_HOST: Final = "127.0.0.1"
OF_CLIENT: Final = DescribeAclsRequest(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=CLIENT_HOST,
    operation=AclOperation.ANY,
    permission_type=AclPermission.ANY,
)
# Requests that are not compared, and why.
LEFT_OUT: Final = {
    "GetTelemetrySubscriptions": "Kafka needs an exporter of metrics",
    "PushTelemetry": "likewise",
    "ShareGroupHeartbeat": "there are no share groups here",
    "ShareFetch": "likewise",
    "ShareAcknowledge": "likewise",
    "CreateAcls": "Kafka closes the connection for unknown elements, which the requests have",
    "Envelope": "Kafka's nodes have another format for principals",
}
# Kafka's controllers do not answer these.
NOT_OF_CONTROLLERS: Final = ("DescribeUserScramCredentials",)


@pytest.fixture(scope="module")
def ports(full: bool) -> Iterator[Ports]:
    if shutil.which("java") is None:
        pytest.skip("no java on PATH")
    if not full and not apache_kafka.DIRECTORY.exists():
        pytest.skip("Apache Kafka's jars are not here: `make test-differential`, or --full, fetches them")
    try:
        apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        pytest.skip(str(why))
    with running_servers(CONFIGS) as ports:
        trio.run(_prepare, ports)
        yield ports


async def _prepare(ports: Ports) -> None:
    for port in (ports.kafka, ports.ours):
        async with connected_from(ADMIN_HOST, port) as client:
            await create_resources(client)
            await allow_everything(client, ADMIN_HOST, OWN_HOST)


class Server:
    """A server, and connections to its broker and its controller from both addresses."""

    def __init__(self, admins: Sequence[WireClient], clients: Sequence[WireClient]) -> None:
        self._admins, self._clients = admins, clients
        self._admin = AclAdmin(admins[0])

    async def grant_only(self, rights: Sequence[Right]) -> None:
        """Let the clients do this, and wait until broker and controller know it."""
        await self._admin.set(rights)
        for admin in self._admins:
            with trio.fail_after(10):
                while await _rights(admin) != set(rights):
                    await trio.sleep(0.002)

    async def refusals_of(self, listener: int, request: Any, version: int) -> set[ErrorCode]:
        response = await self._clients[listener].call(request, version)
        return refusals(response)


async def _rights(admin: WireClient) -> set[Right]:
    """The rights of clients, as this listener of the server knows them."""
    return {
        Right(AclOperation(acl.operation), ResourceType(resource.resource_type), resource.resource_name)
        for resource in (await admin.call(OF_CLIENT, 3)).resources
        for acl in resource.acls
    }


@asynccontextmanager
async def connected_server(port: int, controller_port: int) -> AsyncIterator[Server]:
    async with AsyncExitStack() as stack:
        connections = {
            host: [await stack.enter_async_context(connected_from(host, each)) for each in (port, controller_port)]
            for host in (ADMIN_HOST, CLIENT_HOST)
        }
        yield Server(connections[ADMIN_HOST], connections[CLIENT_HOST])


# A controller that is registered without features is in the way of new entries.
_LAST: Final = "ControllerRegistration"
CASES: Final = [
    *(("broker", api) for api in REQUESTS if api not in LEFT_OUT),
    *(("controller", api) for api in CONTROLLER_REQUESTS if api not in (*LEFT_OUT, *NOT_OF_CONTROLLERS, _LAST)),
    ("controller", _LAST),
]


@pytest.mark.parametrize(("listener", "api"), CASES)
async def test_refusals_are_those_of_apache_kafka(ports: Ports, listener: str, api: str) -> None:
    number = int(listener == "controller")
    differences = []
    for request, version in (CONTROLLER_REQUESTS if number else REQUESTS)[api]:
        for rights, _ in grants(requirements(request, version, CONTROLLER_TABLE if number else TABLE)):
            codes = []
            for each in ((ports.kafka, ports.kafka_controller), (ports.ours, ports.our_controller)):
                async with connected_server(*each) as server:
                    await server.grant_only(rights)
                    codes.append(await server.refusals_of(number, request, version))
            if codes[0] != codes[1]:
                differences.append((version, rights, *codes))
    assert not differences
