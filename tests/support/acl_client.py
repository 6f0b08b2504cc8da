"""A client whose rights a test sets, by the access control entries of a running node.

All clients have one principal, and two addresses: the entries of the administrator's allow everything, and those of the
other one are the test's.
"""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio

from broker.security.acls import STANDARD_AUTHORIZER
from broker.wire.api.create_acls import AclCreation, CreateAclsRequest
from broker.wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from metadata.protocol import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType
from tests.support.authorization_table import Right
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient

PRINCIPAL: Final = "User:ANONYMOUS"
ADMIN_HOST: Final = "127.0.0.2"
CLIENT_HOST: Final = "127.0.0.3"
_SETTINGS: Final = {"authorizer_class_name": STANDARD_AUTHORIZER, "group_initial_rebalance_delay_ms": 0}


class AclAdmin:
    """Changes the rights of clients at CLIENT_HOST, over a connection from ADMIN_HOST."""

    def __init__(self, client: WireClient) -> None:
        self.client = client

    async def grant(self, rights: Iterable[Right], permission: AclPermission = AclPermission.ALLOW) -> None:
        """Add entries for these rights."""
        creations = [creation(right, CLIENT_HOST, permission) for right in dict.fromkeys(rights)]
        if creations:
            response = await self.client.call(CreateAclsRequest(creations=creations), 3)
            assert {result.error_code for result in response.results} == {0}, response

    async def revoke_all(self) -> None:
        """Remove all entries of clients at CLIENT_HOST."""
        every = DeleteAclsFilter(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=CLIENT_HOST,
            operation=AclOperation.ANY,
            permission_type=AclPermission.ANY,
        )
        response = await self.client.call(DeleteAclsRequest(filters=[every]), 3)
        assert [result.error_code for result in response.filter_results] == [0], response

    async def set(self, rights: Iterable[Right]) -> None:
        """Let clients do this, and nothing else."""
        await self.revoke_all()
        await self.grant(rights)


def creation(right: Right, host: str, permission: AclPermission = AclPermission.ALLOW) -> AclCreation:
    return AclCreation(
        resource_type=right.resource_type,
        resource_name=right.name,
        principal=PRINCIPAL,
        host=host,
        operation=right.operation,
        permission_type=permission,
    )


async def allow_everything(client: WireClient, *hosts: str) -> None:
    """Add entries that allow clients at these addresses everything."""
    everything = [Right(AclOperation.ALL, ResourceType.CLUSTER, CLUSTER_NAME)]
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
        everything.append(Right(AclOperation.ALL, kind, "*"))
    made = [creation(right, host) for host in hosts for right in everything]
    response = await client.call(CreateAclsRequest(creations=made), 3)
    assert {result.error_code for result in response.results} == {0}, response


@asynccontextmanager
async def connected_from(host: str, port: int, client_id: str = "test") -> AsyncIterator[WireClient]:
    """A connection from another loopback address."""
    stream = await trio.open_tcp_stream("127.0.0.1", port, local_address=host)
    client = WireClient(stream, client_id)
    try:
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def node_with_acls(
    directory: Path, prepared: Path | None = None, **overrides: Any
) -> AsyncIterator[tuple[RunningNode, AclAdmin]]:
    """A node with the standard authorizer, and an administrator of its entries.

    The first start has super users, who are at every address; the entries of the administrator are made then. With
    `prepared`, a directory that `prepare_acls` has written, there is no first start.
    """
    if prepared is None:
        await prepare_acls(directory, **overrides)
    else:
        shutil.copytree(prepared, directory, dirs_exist_ok=True)
    async with (
        running_node(directory, **_SETTINGS, **overrides) as node,
        connected_from(ADMIN_HOST, node.port) as client,
    ):
        yield node, AclAdmin(client)
        assert not node.traced.of("handler_failed")


async def prepare_acls(
    directory: Path, create: Callable[[WireClient], Awaitable[None]] | None = None, **overrides: Any
) -> None:
    """Write the files of a node whose administrator may do everything, with what `create` makes by this client."""
    async with (
        running_node(directory, super_users=PRINCIPAL, **_SETTINGS, **overrides) as first,
        connected_from(ADMIN_HOST, first.port) as client,
    ):
        await allow_everything(client, ADMIN_HOST)
        if create is not None:
            await create(client)
