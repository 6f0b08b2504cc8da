"""Requests that need rights, as one client sends them: by new and by long connections, also as another user."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import aclosing
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from broker.client import ConnectionLost
from broker.wire.api.create_acls import AclCreation, CreateAclsRequest
from broker.wire.api.create_delegation_token import CreateDelegationTokenRequest
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.delete_groups import DeleteGroupsRequest
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.errors import ErrorCode
from broker.wire.records import Record, encode_batch
from jepsen.values import SHARED_NAMES, IssuedToken, OwnToken, Right
from jepsen.workloads.client import METADATA_VERSION
from jepsen.workloads.security.secured_client import LogInRefused, SecuredClient
from jepsen.workloads.security.users import ENDING, MECHANISMS
from metadata.protocol import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType

# Topics that exist from the start.
TOPICS: Final = ("sec-a", "sec-b", "other")
GROUPS: Final = ("group-a", "group-b")
# Topics that clients create and delete, and one that no entry allows any client to create.
CREATED: Final = (f"{SHARED_NAMES}a", f"{SHARED_NAMES}ab", f"{SHARED_NAMES}b")
CLOSED: Final = f"{SHARED_NAMES}closed"
# The principal of the entries that clients try to create.
STRANGER: Final = "User:stranger"

_PRODUCE_VERSION: Final = 12
_FETCH_VERSION: Final = 12
_COMMIT_VERSION: Final = 8
_TIMEOUT_MS: Final = 2_000
# Shares of requests: before a log-in, and after one as another user.
_UNAUTHENTICATED_SHARE: Final = 0.02
_OTHER_USER_SHARE: Final = 0.1
# The number and the share of a client's favourite requests. A node keeps decisions for requests that are repeated.
_FAVOURITES: Final = 4
_FAVOURITE_SHARE: Final = 0.8
# The share of requests after which the client asks for a delegation token.
_TOKEN_SHARE: Final = 0.03
# A refusal tells that the client was not authorized, and these that it was.
_REFUSALS: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
_AUTHORIZED: Final = (
    ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.OFFSET_OUT_OF_RANGE,
)

CodeOf: TypeAlias = Callable[[Any], int]
Needed: TypeAlias = tuple[Right, ...]


@attrs.frozen
class Asked:
    """A request, and the rights that it needs: one of each tuple. A refusal is about the resource type in its name."""

    request: Any
    version: int
    needs: Sequence[Needed]
    code_of: CodeOf
    is_forwarded: bool = False
    effect: str = ""


@attrs.frozen
class Wanted:
    """A kind of request, with the names that it is about. A topic to create or delete is another one."""

    make: Callable[["Wanted", str], Asked]
    topic: str
    group: str
    other_topic: str

    def asked(self, value: str) -> Asked:
        """The request; `value` is that of a record to write."""
        return self.make(self, value)


@attrs.define(eq=False)
class Requester:
    """A client that sends requests, most of them its favourite ones, over connections for about so many requests."""

    secured: SecuredClient
    requests_per_connection: int
    favourites: Sequence[Wanted]

    @property
    def name(self) -> str:
        return self.secured.client.name

    async def send_request(self) -> None:
        """Send one request, over a new connection if there is none or if its time has come."""
        secured, client = self.secured, self.secured.client
        rng = client.rng
        try:
            if not client.is_connected or rng.random() < 1 / self.requests_per_connection:
                await _connect(secured)
            elif rng.random() < _OTHER_USER_SHARE and secured.authenticated_as and secured.may_log_in_again:
                await secured.become(rng.choice(secured.users.names))
            else:
                await secured.refresh()
            wanted = rng.choice(self.favourites) if rng.random() < _FAVOURITE_SHARE else _any_request(rng)
            await _ask(secured, wanted.asked(f"{client.name}-{len(client.history.operations)}"))
            if secured.authenticated_as and rng.random() < _TOKEN_SHARE:
                await _create_token(secured)
        except (ConnectionLost, LogInRefused):
            await client.aclose()
            await client.back_off()


async def send_requests(requester: Requester, per_second: float) -> None:
    """Send requests until cancelled."""
    client = requester.secured.client
    async with aclosing(client):
        while True:
            await client.pause(per_second)
            await requester.send_request()


def favourite_requests(rng: Random) -> Sequence[Wanted]:
    return [_any_request(rng) for _ in range(_FAVOURITES)]


def _any_request(rng: Random) -> Wanted:
    return Wanted(rng.choice(_REQUESTS), rng.choice(TOPICS), rng.choice(GROUPS), rng.choice((*CREATED, CLOSED)))


async def _connect(secured: SecuredClient) -> None:
    rng = secured.client.rng
    if rng.random() < _UNAUTHENTICATED_SHARE:
        await secured.connect_without_log_in()
        return
    mechanism = ENDING if secured.is_careless else rng.choice(MECHANISMS)
    await secured.connect(mechanism, secured.users.secret(secured.user, mechanism, rng))


async def _ask(secured: SecuredClient, asked: Asked) -> None:
    """Send a request, and record what it tells about each right that it needs. Raises ConnectionLost."""
    history, name = secured.history, secured.client.name
    operations = [
        history.invoke(name, "access", secured.access(*needed, is_forwarded=asked.is_forwarded, effect=asked.effect))
        for needed in asked.needs
    ]
    try:
        code = ErrorCode(asked.code_of(await secured.call(asked.request, asked.version)))
    except ConnectionLost as error:
        for operation in operations:
            history.info(operation, str(error))
        raise
    for operation in operations:
        kind = operation.value.rights[0].resource_type.name
        if code in _AUTHORIZED or (code in _REFUSALS and not _is_about(code, kind) and operation is operations[0]):
            history.ok(operation, result=True)
        elif code in _REFUSALS and _is_about(code, kind):
            history.ok(operation, result=False)
        else:
            history.info(operation, code.name)


def _is_about(code: ErrorCode, kind: str) -> bool:
    return code.name.startswith(kind)


async def _create_token(secured: SecuredClient) -> None:
    """Ask for a delegation token of the client's own. Raises ConnectionLost."""
    history, user = secured.history, secured.authenticated_as
    operation = history.invoke(secured.client.name, "create-token", OwnToken(user))
    request = CreateDelegationTokenRequest(
        owner_principal_type=None, owner_principal_name=None, renewers=[], max_lifetime_ms=-1
    )
    try:
        response = await secured.call(request, 3)
    except ConnectionLost as error:
        history.info(operation, str(error))
        raise
    if response.error_code:
        history.info(operation, ErrorCode(response.error_code).name)
        return
    owner = f"{response.principal_type}:{response.principal_name}"
    token = IssuedToken(owner, response.token_id, _password(bytes(response.hmac)))
    history.ok(operation, token)
    secured.users.has_token(user, token)


def _password(hmac: bytes) -> str:
    """The password of a token: its HMAC in Base64."""
    return b64encode(hmac).decode()


def _topic(operation: AclOperation, name: str) -> Right:
    return Right(operation, ResourceType.TOPIC, name)


def _cluster(operation: AclOperation) -> Right:
    return Right(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def _group(operation: AclOperation, name: str) -> Right:
    return Right(operation, ResourceType.GROUP, name)


def _produce(wanted: Wanted, value: str) -> Asked:
    topic = wanted.topic
    records = memoryview(encode_batch([Record(value=f"{value}/".encode())]))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    request = ProduceRequest(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[data])
    return Asked(
        request,
        _PRODUCE_VERSION,
        [(_topic(AclOperation.WRITE, topic),)],
        lambda response: response.responses[0].partition_responses[0].error_code,
        effect=value,
    )


def _fetch(wanted: Wanted, value: str) -> Asked:
    topic = wanted.topic
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=topics)
    return Asked(
        request,
        _FETCH_VERSION,
        [(_topic(AclOperation.READ, topic),)],
        lambda response: response.responses[0].partitions[0].error_code,
    )


def _describe(wanted: Wanted, value: str) -> Asked:
    topic = wanted.topic
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    needs = [(_topic(AclOperation.DESCRIBE, topic),)]
    return Asked(request, METADATA_VERSION, needs, lambda response: response.topics[0].error_code)


def _commit(wanted: Wanted, value: str) -> Asked:
    topic, group = wanted.topic, wanted.group
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    return Asked(
        OffsetCommitRequest(group_id=group, topics=topics),
        _COMMIT_VERSION,
        [(_group(AclOperation.READ, group),), (_topic(AclOperation.READ, topic),)],
        lambda response: response.topics[0].partitions[0].error_code,
    )


def _delete_group(wanted: Wanted, value: str) -> Asked:
    group = wanted.group
    needs = [(_group(AclOperation.DELETE, group),)]
    return Asked(DeleteGroupsRequest(groups_names=[group]), 2, needs, lambda response: response.results[0].error_code)


def _create_topic(wanted: Wanted, value: str) -> Asked:
    topic = wanted.other_topic
    creation = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    return Asked(
        CreateTopicsRequest(topics=[creation], timeout_ms=_TIMEOUT_MS),
        7,
        [(_topic(AclOperation.CREATE, topic), _cluster(AclOperation.CREATE))],
        lambda response: response.topics[0].error_code,
        is_forwarded=True,
        effect=topic,
    )


def _delete_topic(wanted: Wanted, value: str) -> Asked:
    topic = wanted.other_topic
    return Asked(
        DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=_TIMEOUT_MS),
        6,
        [(_topic(AclOperation.DELETE, topic), _cluster(AclOperation.DELETE))],
        lambda response: response.responses[0].error_code,
        is_forwarded=True,
    )


def _create_acl(wanted: Wanted, value: str) -> Asked:
    """An entry about nothing, since clients that may not change entries must not create any."""
    creation = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name="stranger",
        resource_pattern_type=PatternType.LITERAL,
        principal=STRANGER,
        host="*",
        operation=AclOperation.READ,
        permission_type=AclPermission.ALLOW,
    )
    needs = [(_cluster(AclOperation.ALTER),)]
    return Asked(
        CreateAclsRequest(creations=[creation]),
        3,
        needs,
        lambda response: response.results[0].error_code,
        is_forwarded=True,
    )


_REQUESTS: Final = (
    *(_produce, _produce, _fetch, _fetch, _describe, _commit, _delete_group),
    *(_create_topic, _create_topic, _delete_topic, _create_acl),
)
