"""Valid requests about ACLs, SCRAM users, client quotas, producers, transactions and telemetry."""

from typing import Any

from broker.wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from broker.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from broker.wire.api.create_acls import AclCreation, CreateAclsRequest
from broker.wire.api.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from broker.wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from broker.wire.api.describe_acls import DescribeAclsRequest
from broker.wire.api.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from broker.wire.api.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from broker.wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from broker.wire.api.describe_transactions import DescribeTransactionsRequest
from broker.wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from broker.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from broker.wire.api.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from broker.wire.api.list_transactions import ListTransactionsRequest
from broker.wire.api.push_telemetry import PushTelemetryRequest
from broker.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from broker.wire.api.sasl_authenticate import SaslAuthenticateRequest
from broker.wire.api.sasl_handshake import SaslHandshakeRequest
from tests.support.otlp import gauge, metrics_data, point

Messages = list[tuple[Any, tuple[int, ...]]]

HOSTILE_ID = b"hostile".ljust(16)


def security_messages(topic: str) -> Messages:
    """Requests to any node, with the versions to send each in."""
    created = AclCreation(resource_type=2, resource_name=topic, principal="User:hostile", host="*", operation=3)
    deleted = DeleteAclsFilter(resource_type_filter=2, resource_name_filter=topic, operation=1, permission_type=1)
    described = DescribeAclsRequest(resource_type_filter=2, resource_name_filter=topic, operation=1, permission_type=1)
    renewer = CreatableRenewers(principal_type="User", principal_name="hostile")
    users = [UserName(name="hostile"), UserName(name="alice")]
    # A mutation that sets a quota in place of removing one is refused, because the value has to be above 0.
    removed = EntryData(
        entity=[EntityData(entity_type="user", entity_name="hostile")],
        ops=[OpData(key="producer_byte_rate", value=0.0, remove=True)],
    )
    unknown = ScramCredentialDeletion(name="absent", mechanism=1)
    credential = ScramCredentialUpsertion(
        name="hostile", mechanism=2, iterations=4096, salt=b"salt", salted_password=b"salted"
    )
    return [
        (described, (1, 2, 3)),
        (CreateAclsRequest(creations=[created]), (1, 3)),
        (DeleteAclsRequest(filters=[deleted]), (1, 3)),
        (DescribeUserScramCredentialsRequest(users=users), (0,)),
        (CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1), (1, 2, 3)),
        (RenewDelegationTokenRequest(hmac=b"hmac", renew_period_ms=-1), (1, 2)),
        (ExpireDelegationTokenRequest(hmac=b"hmac", expiry_time_period_ms=-1), (1, 2)),
        (AlterUserScramCredentialsRequest(deletions=[unknown], upsertions=[credential]), (0,)),
        (SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), (0, 1)),
        (SaslAuthenticateRequest(auth_bytes=b"n,,n=hostile,r=nonce"), (0, 1, 2)),
        (AlterClientQuotasRequest(entries=[removed]), (0, 1)),
    ]


def broker_messages(topic: str) -> Messages:
    """Requests to brokers only, with the versions to send each in."""
    quota = ComponentData(entity_type="user", match="hostile")
    owner = DescribeDelegationTokenOwner(principal_type="User", principal_name="hostile")
    producers = TopicRequest(name=topic, partition_indexes=[0, 1])
    listed = ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[1], transactional_id_pattern="h.*")
    return [
        (DescribeClientQuotasRequest(components=[quota]), (0, 1)),
        (DescribeDelegationTokenRequest(owners=[owner]), (1, 2, 3)),
        (DescribeProducersRequest(topics=[producers]), (0,)),
        (DescribeTransactionsRequest(transactional_ids=["hostile"]), (0,)),
        (listed, (0, 1, 2)),
        (GetTelemetrySubscriptionsRequest(client_instance_id=HOSTILE_ID), (0,)),
        (PushTelemetryRequest(client_instance_id=HOSTILE_ID, metrics=metrics_data(gauge("h", point(1)))), (0,)),
    ]
