"""Every API asks for the operations and resources that Kafka's documentation names, and refuses as Kafka does."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.registry import CONTROLLER_HANDLERS, HANDLERS
from broker.wire.api import APIS
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from broker.wire.codec import decode
from broker.wire.header import parse_request_header
from tests.support.acl_client import CLIENT_HOST, AclAdmin, connected_from, node_with_acls
from tests.support.authorization_table import (
    REFUSALS,
    TABLE,
    Requirement,
    Requirements,
    Right,
    error_codes,
    requirements,
)
from tests.support.requests import create_topic
from tests.support.valid_group_requests import GROUP
from tests.support.valid_requests import controller_frames, frames
from tests.support.wire_client import WireClient

TOPIC_NAME = "topic"
# These need an HTTP listener.
UNSERVED = ("GetTelemetrySubscriptions", "PushTelemetry")


def requests_by_api(made: Iterable[bytes]) -> dict[str, list[tuple[Any, int]]]:
    """The decoded requests of frames with their versions, by the names of their APIs."""
    found: dict[str, list[tuple[Any, int]]] = {}
    for frame in made:
        key, version, _, _, position = parse_request_header(frame[4:])
        request, _ = decode(APIS[key].request, version, frame[4:], position)
        found.setdefault(APIS[key].name, []).append((request, version))
    return found


REQUESTS = requests_by_api(frames(TOPIC_NAME))
CONTROLLER_REQUESTS = requests_by_api(controller_frames(TOPIC_NAME))


def test_table_has_every_api() -> None:
    served = {APIS[handler.api_key].name for handler in (*HANDLERS, *CONTROLLER_HANDLERS)}
    assert set(TABLE) == served
    assert set(REQUESTS) | set(CONTROLLER_REQUESTS) == served


def test_handlers_that_need_an_operation_on_the_cluster_are_those_of_the_table() -> None:
    for handler in (*HANDLERS, *CONTROLLER_HANDLERS):
        name = APIS[handler.api_key].name
        if handler.operation is not None:
            request, version = (REQUESTS.get(name) or CONTROLLER_REQUESTS[name])[0]
            ((right,),) = [each.rights for each in requirements(request, version)]
            assert right.operation is handler.operation, name


def rights_for(needed: Requirements, without: Requirement | None = None) -> list[Right]:
    """A right for each requirement, but none that meets `without`."""
    missing = () if without is None else without.rights
    return [next(right for right in each.rights if right not in missing) for each in needed if each.rights != missing]


async def check(client: WireClient, admin: AclAdmin, request: Any, version: int) -> None:
    """The request is refused without each of its requirements, and not with all of them."""
    needed = requirements(request, version)
    refused = set(REFUSALS.values())
    for missing in needed:
        await admin.set(rights_for(needed, missing))
        response = await client.call(request, version)
        if missing.code is None:
            assert not response.results
        else:
            assert set(error_codes(response)) & refused == {missing.code}, (version, missing, response)
    for alternative in range(max([len(each.rights) for each in needed], default=1)):
        rights = [each.rights[min(alternative, len(each.rights) - 1)] for each in needed]
        await admin.set(rights)
        response = await client.call(request, version)
        assert not set(error_codes(response)) & refused, (version, rights, response)


@pytest.mark.parametrize("api", [name for name in REQUESTS if name not in UNSERVED])
async def test_broker_asks_for_the_rights_of_the_table(tmp_path: Path, api: str) -> None:
    """The APIs of the controller are forwarded."""
    async with (
        node_with_acls(tmp_path, auto_create_topics_enable=False) as (node, admin),
        connected_from(CLIENT_HOST, node.port) as client,
    ):
        await create_topic(admin.client, TOPIC_NAME)
        for key_type in (0, 1):
            await admin.client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"]), 4)
        offset = OffsetCommitRequestTopic(name=TOPIC_NAME, partitions=[OffsetCommitRequestPartition()])
        await admin.client.call(OffsetCommitRequest(group_id=GROUP, topics=[offset]), 8)  # the group exists
        for request, version in REQUESTS[api]:
            await check(client, admin, request, version)


@pytest.mark.parametrize("api", CONTROLLER_REQUESTS)
async def test_controller_asks_for_the_rights_of_the_table(tmp_path: Path, api: str) -> None:
    async with node_with_acls(tmp_path) as (node, admin), connected_from(CLIENT_HOST, node.controller_port) as client:
        await create_topic(admin.client, TOPIC_NAME)
        for request, version in CONTROLLER_REQUESTS[api]:
            await check(client, admin, request, version)
