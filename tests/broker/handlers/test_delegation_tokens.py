"""The APIs of delegation tokens, and clients that authenticate with one (KIP-48)."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.security.acls import STANDARD_AUTHORIZER
from broker.security.sasl.scram import ScramClient
from broker.wire.api.create_acls import AclCreation, CreateAclsRequest
from broker.wire.api.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from broker.wire.api.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from broker.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from broker.wire.api.metadata import MetadataRequest
from broker.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from broker.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker.wire.errors import ErrorCode
from metadata.protocol import AclOperation, AclPermission, ResourceType, ScramMechanism
from metadata.protocol.delegation_tokens import token_hmac
from tests.support.running_node import RunningNode
from tests.support.sasl import PASSWORD, USER, authenticate, handshake, sasl_node, sasl_port
from tests.support.wire_client import WireClient, connected

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
SECRET_KEY = "the secret of the cluster"
SECRET: dict[str, object] = {"delegation.token.secret.key": SECRET_KEY, "delegation.token.expiry.time.ms": 60_000}
MECHANISM = ScramMechanism.SCRAM_SHA_256


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


@pytest.fixture
async def token_node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with sasl_node(tmp_path, **SECRET) as node:
        yield node


@asynccontextmanager
async def client_of(node: RunningNode, user: str = USER, password: str = PASSWORD) -> AsyncIterator[WireClient]:
    """A client that has authenticated with PLAIN."""
    async with connected(sasl_port(node)) as client:
        assert (await authenticate(client, "PLAIN", user, password)).error_code == 0
        yield client


async def create(client: WireClient, **others: Any) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(**{"max_lifetime_ms": -1, **others})
    response: CreateDelegationTokenResponse = await client.call(request, 3)
    return response


async def log_in(client: WireClient, token_id: str, hmac: bytes) -> SaslAuthenticateResponse:
    """The last response of a client that authenticates with a token."""
    assert (await handshake(client, MECHANISM.sasl_name)).error_code == 0
    exchange = ScramClient(MECHANISM, token_id, b64encode(hmac).decode(), "nonce", by_token=True)
    message: bytes | None = exchange.first()
    while True:
        response: SaslAuthenticateResponse = await client.call(SaslAuthenticateRequest(auth_bytes=message), 2)
        if response.error_code or (message := exchange.answer(bytes(response.auth_bytes))) is None:
            return response


async def published(node: RunningNode, *token_ids: str) -> None:
    """Wait until the broker has exactly these tokens."""
    assert node.node.loader is not None
    with trio.fail_after(10):
        while set(node.node.loader.image.delegation_tokens.by_id) != set(token_ids):
            await trio.sleep(0.01)


async def test_a_token_authenticates_as_its_owner_but_may_not_ask_for_tokens(token_node: RunningNode) -> None:
    async with client_of(token_node) as client:
        created = await create(client)
        assert (created.error_code, created.principal_name, created.token_requester_principal_name) == (0, USER, USER)
        assert created.hmac == token_hmac(SECRET_KEY, created.token_id)
    await published(token_node, created.token_id)
    async with connected(sasl_port(token_node)) as holder:
        response = await log_in(holder, created.token_id, created.hmac)
        assert response.error_code == 0
        assert 50_000 < response.session_lifetime_ms <= 60_000
        assert (await holder.call(MetadataRequest(), 12)).brokers
        assert (await create(holder)).error_code == NOT_ALLOWED
        described = await holder.call(DescribeDelegationTokenRequest(owners=None), 3)
        assert described.error_code == NOT_ALLOWED


async def test_a_wrong_hmac_is_refused(token_node: RunningNode) -> None:
    async with client_of(token_node) as client:
        created = await create(client)
    await published(token_node, created.token_id)
    async with connected(sasl_port(token_node)) as holder:
        response = await log_in(holder, created.token_id, bytes(64))
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_tokens_are_described_renewed_and_expired_by_owner_and_renewer(token_node: RunningNode) -> None:
    bob = CreatableRenewers(principal_type="User", principal_name="bob")
    async with client_of(token_node) as alice, client_of(token_node, "bob", "bob-secret") as renewer:
        created = await create(alice, renewers=[bob])
        other = await create(renewer)
        await published(token_node, created.token_id, other.token_id)
        described = await renewer.call(DescribeDelegationTokenRequest(owners=None), 3)
        assert {token.token_id for token in described.tokens} == {created.token_id, other.token_id}
        alice_only = [DescribeDelegationTokenOwner(principal_type="User", principal_name=USER)]
        [token] = (await renewer.call(DescribeDelegationTokenRequest(owners=alice_only), 3)).tokens
        assert (token.hmac, [each.principal_name for each in token.renewers]) == (created.hmac, ["bob"])
        assert (await alice.call(DescribeDelegationTokenRequest(owners=[]), 3)).tokens == []

        renewed = await renewer.call(RenewDelegationTokenRequest(hmac=created.hmac, renew_period_ms=30_000), 2)
        assert renewed.error_code == 0
        assert renewed.expiry_timestamp_ms < created.expiry_timestamp_ms
        stranger = await alice.call(RenewDelegationTokenRequest(hmac=other.hmac, renew_period_ms=-1), 2)
        assert stranger.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        unknown = await alice.call(ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1), 2)
        assert unknown.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND

        expired = await alice.call(ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=-1), 2)
        assert expired.error_code == 0
        await published(token_node, other.token_id)
    async with connected(sasl_port(token_node)) as holder:
        response = await log_in(holder, created.token_id, created.hmac)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_a_session_ends_with_its_token_and_the_token_is_removed(tmp_path: Path) -> None:
    overrides = {"delegation.token.expiry.time.ms": 1_000, "delegation.token.expiry.check.interval.ms": 200}
    async with sasl_node(tmp_path, **{**SECRET, **overrides}) as node:
        async with client_of(node) as client:
            created = await create(client)
        await published(node, created.token_id)
        async with connected(sasl_port(node)) as holder:
            assert (await log_in(holder, created.token_id, created.hmac)).error_code == 0
            await published(node)
            await trio.sleep(0.2)
            await holder.send(MetadataRequest(), 12)
            await holder.expect_close()


async def test_without_a_secret_key_tokens_are_disabled(tmp_path: Path) -> None:
    async with sasl_node(tmp_path) as node, client_of(node) as client:
        disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert (await create(client)).error_code == disabled
        described = await client.call(DescribeDelegationTokenRequest(owners=None), 3)
        renewed = await client.call(RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1), 2)
        expired = await client.call(ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1), 2)
        assert {described.error_code, renewed.error_code, expired.error_code} == {disabled}


async def grant(node: RunningNode, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
    """Allow the operation to the user of the tests."""
    entry = AclCreation(
        resource_type=resource_type,
        resource_name=name,
        principal=f"User:{USER}",
        host="*",
        operation=operation,
        permission_type=AclPermission.ALLOW,
    )
    async with connected(node.port) as admin:
        response = await admin.call(CreateAclsRequest(creations=[entry]), 3)
    assert response.results[0].error_code == 0


async def test_tokens_of_other_owners_need_rights_kip_373(tmp_path: Path) -> None:
    overrides = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    async with (
        sasl_node(tmp_path, **{**SECRET, **overrides}) as node,
        client_of(node) as alice,
        client_of(node, "bob", "bob-secret") as bob,
    ):
        own = await create(alice)
        assert own.error_code == 0
        for_bob = {"owner_principal_type": "User", "owner_principal_name": "bob"}
        refused = await create(alice, **for_bob)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        await grant(node, AclOperation.CREATE_TOKENS, ResourceType.USER, "User:bob")
        created = await create(alice, **for_bob)
        assert (created.error_code, created.principal_name, created.token_requester_principal_name) == (0, "bob", USER)
        others = await create(bob)
        await published(node, own.token_id, created.token_id, others.token_id)

        async def seen() -> set[str]:
            described = await alice.call(DescribeDelegationTokenRequest(owners=None), 3)
            return {token.token_id for token in described.tokens}

        assert await seen() == {own.token_id}
        await grant(node, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, others.token_id)
        with trio.fail_after(10):
            while await seen() != {own.token_id, others.token_id}:
                await trio.sleep(0.01)
        await grant(node, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob")
        with trio.fail_after(10):
            while await seen() != {own.token_id, others.token_id, created.token_id}:
                await trio.sleep(0.01)
