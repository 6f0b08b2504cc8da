"""APIs of missing features (ACLs, SCRAM) answer like a Kafka cluster that does not use these features."""

from typing import Any

import pytest

from broker.wire.api.create_acls import AclCreation, CreateAclsRequest
from broker.wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from broker.wire.api.describe_acls import DescribeAclsRequest
from broker.wire.api.describe_transactions import DescribeTransactionsRequest
from broker.wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from broker.wire.api.list_transactions import ListTransactionsRequest
from broker.wire.errors import ErrorCode
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, connected

ANY = 1


@pytest.mark.parametrize("listener", ["broker", "controller"])
@pytest.mark.parametrize("version", [1, 2, 3])
async def test_acls_without_an_authorizer_are_disabled(node: RunningNode, listener: str, version: int) -> None:
    async with connected(node.port if listener == "broker" else node.controller_port) as client:
        described = await client.call(DescribeAclsRequest(resource_type_filter=ANY, operation=ANY), version)
        created = await client.call(CreateAclsRequest(creations=[AclCreation(), AclCreation()]), version)
        deleted = await client.call(DeleteAclsRequest(filters=[DeleteAclsFilter()]), version)

    disabled = ErrorCode.SECURITY_DISABLED
    assert (described.error_code, described.error_message, described.resources) == (
        disabled,
        "No Authorizer is configured on the broker",
        [],
    )
    refusal = (disabled, "No Authorizer is configured.")
    assert [(each.error_code, each.error_message) for each in created.results] == [refusal] * 2
    assert [(each.error_code, each.error_message) for each in deleted.filter_results] == [refusal]


@pytest.mark.parametrize("listener", ["broker", "controller"])
async def test_no_user_has_scram_credentials(node: RunningNode, listener: str) -> None:
    async with connected(node.port if listener == "broker" else node.controller_port) as client:
        for everybody in (None, []):
            response = await client.call(DescribeUserScramCredentialsRequest(users=everybody), 0)
            assert (response.error_code, response.error_message, response.results) == (0, "", [])
        users = [UserName(name=name) for name in ("alice", "bob", "alice")]
        response = await client.call(DescribeUserScramCredentialsRequest(users=users), 0)

    assert [(each.user, each.error_code, each.error_message) for each in response.results] == [
        (
            "alice",
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: alice",
        ),
        ("bob", ErrorCode.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist: bob"),
    ]


async def test_user_name_of_the_largest_size_is_refused_with_a_message_that_can_be_read(client: WireClient) -> None:
    users = [UserName(name="x" * 32_767)]
    response = await client.call(DescribeUserScramCredentialsRequest(users=users), 0)
    assert [each.error_code for each in response.results] == [ErrorCode.RESOURCE_NOT_FOUND]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_no_transaction_is_listed(client: WireClient, version: int) -> None:
    filters: dict[str, Any] = {"state_filters": ["Ongoing", "Sleeping"], "producer_id_filters": [4]}
    response = await client.call(ListTransactionsRequest(**filters), version)

    assert (response.error_code, response.transaction_states) == (0, [])
    assert response.unknown_state_filters == ["Sleeping"]


async def test_no_transaction_is_described(client: WireClient) -> None:
    response = await client.call(DescribeTransactionsRequest(transactional_ids=["id", "", "id"]), 0)

    assert [(each.transactional_id, each.error_code) for each in response.transaction_states] == [
        ("id", ErrorCode.NOT_COORDINATOR),
        ("", ErrorCode.INVALID_REQUEST),
        ("id", ErrorCode.NOT_COORDINATOR),
    ]
