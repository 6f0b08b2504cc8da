"""Quotas are altered by an Admin; access control and credentials are absent."""

from pathlib import Path

import pytest
import trio

from broker.client import AclBinding, AclFilter, AclOperation, ClientQuota, KafkaError, QuotaMatch, ResourceType
from broker.client.admin import ALL_ACLS
from broker.wire.errors import ErrorCode
from tests.support.running_admin import admin_of_a_node

BINDING = AclBinding(ResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)


async def test_a_cluster_without_an_authorizer_says_that_security_is_disabled(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        with pytest.raises(KafkaError) as raised:
            await admin.describe_acls()
        assert raised.value.code == ErrorCode.SECURITY_DISABLED
        created = await admin.create_acls([BINDING])
        assert _code(created[BINDING]) == ErrorCode.SECURITY_DISABLED
        deleted = await admin.delete_acls([ALL_ACLS, AclFilter(ResourceType.TOPIC, "orders")])
        assert [_code(outcome) for outcome in deleted.values()] == [ErrorCode.SECURITY_DISABLED] * 2


async def test_quotas_are_set_described_and_removed(tmp_path: Path) -> None:
    entity = {"user": "alice", "client-id": None}
    quotas = {"producer_byte_rate": 1000.0, "request_percentage": 12.5}
    async with admin_of_a_node(tmp_path) as admin:
        await admin.alter_client_quotas(entity, quotas, validate_only=True)
        await admin.alter_client_quotas(entity, quotas)
        with trio.fail_after(10):
            while not (described := await admin.describe_client_quotas({"user": QuotaMatch.ANY})):
                await trio.sleep(0.01)
        assert described == [ClientQuota(entity, quotas)]
        assert await admin.describe_client_quotas({"user": "alice"}, strict=True) == []

        with pytest.raises(KafkaError, match="Invalid configuration key dogs") as raised:
            await admin.alter_client_quotas(entity, {"dogs": 1.0})
        assert raised.value.code == ErrorCode.INVALID_REQUEST

        await admin.alter_client_quotas(entity, dict.fromkeys(quotas))
        with trio.fail_after(10):
            while await admin.describe_client_quotas():
                await trio.sleep(0.01)


async def test_quotas_and_credentials_that_are_not_there(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        assert await admin.describe_client_quotas({"user": "alice", "client-id": QuotaMatch.DEFAULT}) == []
        with pytest.raises(KafkaError) as raised:
            await admin.describe_client_quotas({"nonsense": QuotaMatch.ANY})
        assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
        assert len(await admin.describe_user_scram_credentials()) == 0
        assert len(await admin.describe_user_scram_credentials([])) == 0
        described = await admin.describe_user_scram_credentials(["alice"])
        assert _code(described["alice"]) == ErrorCode.RESOURCE_NOT_FOUND


async def test_transactions_are_listed_described_and_fenced(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        assert (await admin.list_transactions(states=["Ongoing"], open_for_ms=5)).chained() == []
        listed = await admin.list_transactions(states=["Nonsense"], transactional_id_pattern="a.*")
        with pytest.raises(KafkaError, match="Nonsense"):
            listed.chained()
        described = await admin.describe_transactions(["t"])
        assert _code(described["t"]) == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        for epoch in range(2):
            fenced = (await admin.fence_producers(["t"])).value("t")
            assert fenced.epoch == epoch
        described = await admin.describe_transactions(["t"])
        assert described.value("t").state == "Empty"
        assert [each.transactional_id for each in (await admin.list_transactions(states=["Empty"])).chained()] == ["t"]
        assert (await admin.list_transactions(transactional_id_pattern="x.*")).chained() == []
        # KIP-994: as in Kafka, an id without a transaction so far passes every duration.
        assert len((await admin.list_transactions(open_for_ms=10**9)).chained()) == 1
        with pytest.raises(KafkaError) as raised:
            (await admin.list_transactions(transactional_id_pattern="(")).chained()
        assert raised.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


def _code(outcome: object) -> ErrorCode:
    assert isinstance(outcome, KafkaError), outcome
    return outcome.code
