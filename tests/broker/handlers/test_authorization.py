"""Every API asks for the operations and resources that Kafka's documentation names, and refuses as Kafka does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.handlers.registry import CONTROLLER_HANDLERS, HANDLERS
from broker.wire.api import APIS
from tests.support.acl_client import CLIENT_HOST, AclAdmin, connected_from, node_with_acls, prepare_acls
from tests.support.authorization_table import CONTROLLER_TABLE, TABLE, Needs, grants, refusals, requirements
from tests.support.authorized_requests import CONTROLLER_REQUESTS, REQUESTS, create_resources
from tests.support.linux import needs_loopback_addresses
from tests.support.wire_client import WireClient

# These need an HTTP listener.
pytestmark = needs_loopback_addresses

UNSERVED = ("GetTelemetrySubscriptions", "PushTelemetry")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a node with the resources of the requests, of which each test has its own copy."""
    directory = tmp_path_factory.mktemp("prepared")
    trio.run(prepare_acls, directory, create_resources)
    return directory


def test_table_has_every_api() -> None:
    served = {APIS[handler.api_key].name for handler in (*HANDLERS, *CONTROLLER_HANDLERS)}
    assert set(TABLE) == served
    assert set(REQUESTS) | set(CONTROLLER_REQUESTS) == served


def test_handlers_that_need_an_operation_on_the_cluster_are_those_of_the_table() -> None:
    for handlers, requests, table in (
        (HANDLERS, REQUESTS, TABLE),
        (CONTROLLER_HANDLERS, CONTROLLER_REQUESTS, CONTROLLER_TABLE),
    ):
        for entry in handlers:
            name, operation = APIS[entry.api_key].name, entry.handler.operation
            if operation is not None:
                ((right,),) = [each.rights for each in requirements(*requests[name][0], table)]
                assert right.operation is operation, name


async def check(
    client: WireClient, admin: AclAdmin, request: Any, version: int, table: Mapping[str, Needs] = TABLE
) -> None:
    """The request is refused without each of its requirements, and not with all of them."""
    for rights, missing in grants(requirements(request, version, table)):
        await admin.set(rights)
        response = await client.call(request, version)
        if missing is not None and missing.code is None:
            assert not response.results
        else:
            expected = set() if missing is None else {missing.code}
            assert refusals(response) == expected, (version, rights, missing, response)


@pytest.mark.parametrize("api", [name for name in REQUESTS if name not in UNSERVED])
async def test_broker_asks_for_the_rights_of_the_table(tmp_path: Path, prepared: Path, api: str) -> None:
    """The APIs of the controller are forwarded."""
    async with (
        node_with_acls(tmp_path, prepared, auto_create_topics_enable=False) as (node, admin),
        connected_from(CLIENT_HOST, node.port) as client,
    ):
        for request, version in REQUESTS[api]:
            await check(client, admin, request, version)


@pytest.mark.parametrize("api", CONTROLLER_REQUESTS)
async def test_controller_asks_for_the_rights_of_the_table(tmp_path: Path, prepared: Path, api: str) -> None:
    async with (
        node_with_acls(tmp_path, prepared) as (node, admin),
        connected_from(CLIENT_HOST, node.controller_port) as client,
    ):
        for request, version in CONTROLLER_REQUESTS[api]:
            await check(client, admin, request, version, CONTROLLER_TABLE)
