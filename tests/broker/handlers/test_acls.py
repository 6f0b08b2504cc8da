"""DescribeAcls, CreateAcls and DeleteAcls over the wire, and the node's decisions that follow from them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.security.acls import STANDARD_AUTHORIZER
from broker.wire.api.create_acls import AclCreation, CreateAclsRequest
from broker.wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from broker.wire.api.describe_acls import DescribeAclsRequest
from broker.wire.errors import ErrorCode
from broker.wire.uuids import encode_uuid
from kraft.core import ReplicaKey
from kraft.handshake import Hello, decode_hello, hello
from kraft.message_codec import encode
from metadata.protocol import AclOperation as Op
from metadata.protocol import AclPermission, PatternType, ResourceType
from tests.support.acl_client import ADMIN_HOST, CLIENT_HOST, AclAdmin, connected_from, node_with_acls
from tests.support.authorization_table import GROUP, TOPIC, Right, on_cluster
from tests.support.linux import needs_loopback_addresses
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, framed, only

pytestmark = needs_loopback_addresses

ANY: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Op.ANY,
    "permission_type": AclPermission.ANY,
}
OF_CLIENT = {**ANY, "host_filter": CLIENT_HOST}
PREFIXED = AclCreation(
    resource_type=TOPIC,
    resource_name="or",
    resource_pattern_type=PatternType.PREFIXED,
    principal="User:alice",
    host="10.0.0.0/8",
    operation=Op.WRITE,
    permission_type=AclPermission.DENY,
)


@pytest.fixture
async def started(tmp_path: Path) -> AsyncIterator[tuple[RunningNode, AclAdmin]]:
    async with node_with_acls(tmp_path) as started:
        yield started


@pytest.fixture
def admin(started: tuple[RunningNode, AclAdmin]) -> AclAdmin:
    return started[1]


async def described(client: WireClient, version: int = 3, **changes: Any) -> list[tuple[Any, ...]]:
    """The entries that a filter finds."""
    response = await client.call(DescribeAclsRequest(**{**ANY, **changes}), version)
    assert (response.error_code, response.error_message) == (0, None)
    return [
        (resource.resource_type, resource.resource_name, resource.pattern_type, *fields)
        for resource in response.resources
        for fields in [(acl.principal, acl.host, acl.operation, acl.permission_type) for acl in resource.acls]
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_entries_are_created_described_and_deleted(admin: AclAdmin, version: int) -> None:
    bad = AclCreation(resource_type=TOPIC, resource_name="t", principal="User:a", host="*", operation=3)
    request = CreateAclsRequest(creations=[PREFIXED, bad, PREFIXED])
    response = await admin.client.call(request, version)
    assert [(each.error_code, each.error_message) for each in response.results] == [
        (0, None),
        (ErrorCode.INVALID_REQUEST, "Invalid permissionType UNKNOWN"),
        (0, None),
    ]
    told = (TOPIC, "or", PatternType.PREFIXED, "User:alice", "10.0.0.0/8", Op.WRITE, AclPermission.DENY)
    assert await described(admin.client, version, principal_filter="User:alice") == [told]
    matching = {"resource_type_filter": TOPIC, "pattern_type_filter": PatternType.MATCH}
    assert told in await described(admin.client, version, **matching, resource_name_filter="orders")
    assert told not in await described(admin.client, version, **matching, resource_name_filter="o")

    twice = DeleteAclsFilter(**{**ANY, "principal_filter": "User:alice"})
    unknown = DeleteAclsFilter(**{**ANY, "operation": 99})
    deleted = await admin.client.call(DeleteAclsRequest(filters=[twice, unknown, twice]), version)
    assert [(each.error_code, each.error_message) for each in deleted.filter_results] == [
        (0, None),
        (ErrorCode.INVALID_REQUEST, "Unknown entryFilter."),
        (0, None),
    ]
    for result in (deleted.filter_results[0], deleted.filter_results[2]):
        acl = only(result.matching_acls)
        assert (acl.error_code, acl.resource_name, acl.pattern_type, acl.host) == (
            0,
            "or",
            PatternType.PREFIXED,
            "10.0.0.0/8",
        )
    assert await described(admin.client, version, principal_filter="User:alice") == []


async def test_unknown_elements_of_a_filter_are_refused(admin: AclAdmin) -> None:
    response = await admin.client.call(DescribeAclsRequest(**{**ANY, "resource_type_filter": 0}), 3)
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")


async def test_entries_of_many_topics_are_changed_and_described(admin: AclAdmin) -> None:
    await admin.grant([Right(Op.READ, TOPIC, f"topic-{number}") for number in range(2_000)])
    assert len(await described(admin.client, host_filter=CLIENT_HOST)) == 2_000
    await admin.revoke_all()
    assert await described(admin.client, host_filter=CLIENT_HOST) == []


async def test_entries_outlive_a_restart_and_a_snapshot(tmp_path: Path) -> None:
    async with node_with_acls(tmp_path) as (_, admin):
        await admin.grant([Right(Op.READ, GROUP, "g")])
    async with (
        running_node(tmp_path, authorizer_class_name=STANDARD_AUTHORIZER) as node,
        connected_from(ADMIN_HOST, node.port) as client,
    ):
        assert len(await described(client, host_filter=CLIENT_HOST)) == 1


async def test_class_in_python_decides_and_has_no_entries(tmp_path: Path) -> None:
    named = "tests.broker.security.acls.test_authorizers:OwnAuthorizer"
    async with (
        running_node(tmp_path, authorizer_class_name=named, own_user="User:ANONYMOUS") as node,
        connected(node.port) as client,
    ):
        response = await client.call(DescribeAclsRequest(**ANY), 3)
        assert response.error_code == ErrorCode.SECURITY_DISABLED
    async with (
        running_node(tmp_path, authorizer_class_name=named, own_user="User:other") as node,
        connected(node.port) as client,
    ):
        response = await client.call(DescribeAclsRequest(**ANY), 3)
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def hello_of_replica(node: RunningNode) -> Hello:
    """The answer to a replica of the quorum that connects from CLIENT_HOST."""
    stream = await trio.open_tcp_stream("127.0.0.1", node.controller_port, local_address=CLIENT_HOST)
    async with stream:
        first = encode(hello(node.node.cluster_id, ReplicaKey(7, encode_uuid(b"d" * 16))))
        await stream.send_all(framed(first))
        with trio.fail_after(10):
            size = int.from_bytes(await stream.receive_some(4))
            return decode_hello(bytes(await stream.receive_some(size)))


async def test_replica_of_the_quorum_has_to_be_allowed_to_act_for_the_cluster(
    started: tuple[RunningNode, AclAdmin],
) -> None:
    node, admin = started

    reason = "User:ANONYMOUS is neither among super.users nor allowed CLUSTER_ACTION on the cluster"
    refused = await hello_of_replica(node)
    assert refused.refusal == reason
    assert (refused.cluster_id, refused.directory_id) == ("", "")
    assert node.traced.of("quorum_replica_refused") == [
        {"principal": "User:ANONYMOUS", "host": CLIENT_HOST, "reason": reason}
    ]
    await admin.grant([on_cluster(Op.CLUSTER_ACTION)])
    welcome = await hello_of_replica(node)
    assert (welcome.refusal, welcome.cluster_id) == ("", node.node.cluster_id)


async def test_node_outlives_an_authorizer_that_fails_to_decide_on_a_replica(tmp_path: Path) -> None:
    named = "tests.broker.security.acls.test_authorizers:FailingAuthorizer"
    async with (
        running_node(tmp_path, authorizer_class_name=named, own_user="User:ANONYMOUS") as node,
        connected(node.port) as client,
    ):
        assert (await hello_of_replica(node)).refusal == "the authorizer of this controller has failed"
        assert "ZeroDivisionError" in str(only(node.traced.of("handler_failed"))["error"])
        response = await client.call(DescribeAclsRequest(**ANY), 3)
        assert response.error_code == ErrorCode.SECURITY_DISABLED
