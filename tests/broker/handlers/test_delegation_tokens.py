"""The APIs of delegation tokens: clients that may not use them are refused as by Kafka (KIP-48)."""

import pytest

from broker.wire.api.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from broker.wire.api.describe_delegation_token import DescribeDelegationTokenRequest
from broker.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from broker.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from broker.wire.errors import ErrorCode
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, connected

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize("listener", ["broker", "controller"])
@pytest.mark.parametrize("version", [1, 2, 3])
async def test_anonymous_clients_may_not_create_tokens(node: RunningNode, listener: str, version: int) -> None:
    renewers = [CreatableRenewers(principal_type="User", principal_name="bob")]
    async with connected(node.port if listener == "broker" else node.controller_port) as client:
        response = await client.call(CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1), version)
    assert (response.error_code, response.hmac, response.max_timestamp_ms) == (NOT_ALLOWED, b"", -1)
    assert (response.principal_type, response.principal_name) == ("User", "ANONYMOUS")


@pytest.mark.parametrize("listener", ["broker", "controller"])
@pytest.mark.parametrize("version", [1, 2])
async def test_anonymous_clients_may_not_renew_or_expire(node: RunningNode, listener: str, version: int) -> None:
    async with connected(node.port if listener == "broker" else node.controller_port) as client:
        renewed = await client.call(RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1), version)
        expired = await client.call(ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1), version)
    for response in (renewed, expired):
        assert (response.error_code, response.expiry_timestamp_ms) == (NOT_ALLOWED, -1)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_anonymous_clients_may_not_describe(client: WireClient, version: int) -> None:
    response = await client.call(DescribeDelegationTokenRequest(owners=None), version)
    assert (response.error_code, response.tokens) == (NOT_ALLOWED, [])


def test_hmacs_are_not_in_representations() -> None:
    assert "secret" not in repr(RenewDelegationTokenRequest(hmac=b"secret"))
