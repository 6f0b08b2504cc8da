"""An authorizer and quotas see every request, and changes apply to the next request on a warm connection.

Each test of a rule covers both paths: `shortcut` repeats a request until the node recognizes its bytes, and `general`
sends one that differs from those before it.
"""

from collections.abc import Sequence

import pytest
import trio

from broker.net.listener_security import ANONYMOUS
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from broker.wire.api.metadata import MetadataRequest
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.codec import encoder
from broker.wire.errors import ErrorCode
from metadata.protocol import CLUSTER_NAME, AclOperation, ResourceType
from tests.support.access import Access, install_access
from tests.support.requests import batch, create_topic, fetch, records_of
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, connected, only

PRODUCE, FETCH, CREATE_TOPICS = 0, 1, 19
REPEATS = 4  # the first request is learned, the others take the shortcut
WAYS = ("shortcut", "general")
THROTTLE_MS = 300


@pytest.fixture
def access(node: RunningNode) -> Access:
    return install_access(node)


def to_produce(topic_id: bytes, way: str, *, acks: int = -1) -> ProduceRequest:
    """For all versions. A batch to two partitions takes the general path."""
    indexes = (0,) if way == "shortcut" else (0, 1)
    data = [PartitionProduceData(index=index, records=batch(b"value")) for index in indexes]
    topic = TopicProduceData(name="topic", topic_id=topic_id, partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[topic])


def to_fetch(topic_id: bytes, way: str, *, offset: int = 0, session: Sequence[int] = (0, -1)) -> FetchRequest:
    """For all versions. A fetch of two partitions takes the general path."""
    indexes = (0,) if way == "shortcut" else (0, 1)
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20) for index in indexes
    ]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic="topic", topic_id=topic_id, partitions=partitions)],
    )


async def produced(client: WireClient, request: ProduceRequest, version: int = 12) -> ErrorCode:
    response = await client.call(request, version)
    (code,) = {answer.error_code for answer in only(response.responses).partition_responses}
    return ErrorCode(code)


async def fetched(client: WireClient, request: FetchRequest, version: int = 12) -> ErrorCode:
    response = await client.call(request, version)
    (code,) = {partition.error_code for partition in only(response.responses).partitions}
    return ErrorCode(code)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
async def test_next_produce_on_a_warm_connection_obeys_the_authorizer(
    client: WireClient, access: Access, way: str, version: int
) -> None:
    topic_id = await create_topic(client, partitions=2)
    request = to_produce(topic_id, way)
    for _ in range(REPEATS):
        assert await produced(client, request, version) is ErrorCode.NONE

    access.deny(ANONYMOUS, AclOperation.WRITE, ResourceType.TOPIC, "topic")
    for _ in range(REPEATS):  # a refusal is not learned
        answer = only((await client.call(request, version)).responses).partition_responses[0]
        assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (answer.base_offset, answer.log_start_offset) == (-1, -1)
    access.allow_all()

    assert await produced(client, request, version) is ErrorCode.NONE
    assert (await fetch(client)).high_watermark == REPEATS + 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", [4, 11, 12, 13])
async def test_next_fetch_on_a_warm_connection_obeys_the_authorizer(
    client: WireClient, access: Access, way: str, version: int
) -> None:
    topic_id = await create_topic(client, partitions=2)
    await produced(client, to_produce(topic_id, "general"))
    request = to_fetch(topic_id, way)
    for _ in range(REPEATS):
        assert await fetched(client, request, version) is ErrorCode.NONE

    access.deny(ANONYMOUS, AclOperation.READ, ResourceType.TOPIC, "topic")
    for _ in range(REPEATS):
        partition = only((await client.call(request, version)).responses).partitions[0]
        assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (partition.high_watermark, partition.records or b"") == (-1, b"")
    access.allow_all()

    assert await fetched(client, request, version) is ErrorCode.NONE


@pytest.mark.parametrize("way", WAYS)
async def test_shortcut_of_one_principal_does_not_serve_another(
    node: RunningNode, client: WireClient, access: Access, way: str
) -> None:
    topic_id = await create_topic(client, partitions=2)
    access.deny("User:mallory", AclOperation.WRITE, ResourceType.TOPIC, "topic")
    access.deny("User:mallory", AclOperation.READ, ResourceType.TOPIC, "topic")
    for _ in range(REPEATS):
        assert await produced(client, to_produce(topic_id, way)) is ErrorCode.NONE
        assert await fetched(client, to_fetch(topic_id, way)) is ErrorCode.NONE

    async with connected(node.port) as other:
        await other.call(MetadataRequest(topics=[]), 9)
        access.last_session.authenticate("User:mallory")
        assert await produced(other, to_produce(topic_id, way)) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await fetched(other, to_fetch(topic_id, way)) is ErrorCode.TOPIC_AUTHORIZATION_FAILED

        access.last_session.authenticate("User:alice")  # after another authentication, the principal has other rights
        assert await produced(other, to_produce(topic_id, way)) is ErrorCode.NONE
        access.last_session.authenticate("User:mallory")
        assert await produced(other, to_produce(topic_id, way)) is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    assert await produced(client, to_produce(topic_id, way)) is ErrorCode.NONE


async def test_unknown_topics_are_told_only_to_clients_that_may_use_them(client: WireClient, access: Access) -> None:
    """For a name, the authorizer is asked first, as in Kafka; an unknown id has no name to ask about."""
    access.deny(ANONYMOUS, AclOperation.WRITE, ResourceType.TOPIC, "topic")
    access.deny(ANONYMOUS, AclOperation.READ, ResourceType.TOPIC, "topic")

    assert await produced(client, to_produce(bytes(16), "shortcut"), 12) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert await fetched(client, to_fetch(bytes(16), "shortcut"), 12) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert await produced(client, to_produce(b"i" * 16, "shortcut"), 13) is ErrorCode.UNKNOWN_TOPIC_ID
    assert await fetched(client, to_fetch(b"i" * 16, "shortcut"), 13) is ErrorCode.UNKNOWN_TOPIC_ID


async def test_fetch_session_hears_of_changed_acls_although_nothing_was_produced(
    client: WireClient, access: Access
) -> None:
    topic_id = await create_topic(client)
    opened = await client.call(to_fetch(topic_id, "shortcut", session=(0, 0)), 12)
    following = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=opened.session_id, session_epoch=1, topics=[])
    assert (await client.call(following, 12)).responses == []

    access.deny(ANONYMOUS, AclOperation.READ, ResourceType.TOPIC, "topic")
    following.session_epoch = 2

    assert await fetched(client, following) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_follower_needs_to_be_allowed_to_act_for_the_cluster(client: WireClient, access: Access) -> None:
    topic_id = await create_topic(client)
    access.deny(ANONYMOUS, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    request = to_fetch(topic_id, "shortcut")
    request.replica_state = ReplicaState(replica_id=7, replica_epoch=1)

    assert await fetched(client, request, 15) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", [3, 9, 13])
async def test_next_produce_on_a_warm_connection_is_throttled(
    client: WireClient, access: Access, way: str, version: int
) -> None:
    """KIP-219: the response is sent at once, and the connection is muted for the throttle time in it."""
    topic_id = await create_topic(client, partitions=2)
    request = to_produce(topic_id, way)
    for _ in range(REPEATS):
        assert (await client.call(request, version)).throttle_time_ms == 0

    access.quotas.throttle_ms[PRODUCE] = THROTTLE_MS
    begun = trio.current_time()
    await client.pipeline((request, version), (MetadataRequest(topics=[]), 9))
    response = await client.receive()
    assert response.throttle_time_ms == THROTTLE_MS
    assert {each.error_code for each in only(response.responses).partition_responses} == {ErrorCode.NONE}
    await client.receive()

    assert trio.current_time() - begun >= THROTTLE_MS / 1000
    assert (await fetch(client)).high_watermark == REPEATS + 1
    assert [usage.request_bytes for usage in access.quotas.usages if usage.api_key == PRODUCE] == [
        len(client.frame(request, version, is_answered=False)) - 4
    ] * (REPEATS + 1)


@pytest.mark.parametrize("way", WAYS)
async def test_throttled_produce_without_an_answer_mutes_its_connection(
    client: WireClient, access: Access, way: str
) -> None:
    topic_id = await create_topic(client, partitions=2)
    for _ in range(REPEATS):
        await client.send_unanswered(to_produce(topic_id, way, acks=0), 9)
    await client.call(MetadataRequest(topics=[]), 9)

    access.quotas.throttle_ms[PRODUCE] = THROTTLE_MS
    begun = trio.current_time()
    await client.send_unanswered(to_produce(topic_id, way, acks=0), 9)
    await client.call(MetadataRequest(topics=[]), 9)

    assert trio.current_time() - begun >= THROTTLE_MS / 1000
    assert (await fetch(client)).high_watermark == REPEATS + 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", [4, 11, 13])
async def test_next_fetch_on_a_warm_connection_is_throttled(
    client: WireClient, access: Access, way: str, version: int
) -> None:
    """The response has no records, so the consumer requests them again."""
    topic_id = await create_topic(client, partitions=2)
    await produced(client, to_produce(topic_id, "general"))
    request = to_fetch(topic_id, way)
    for _ in range(REPEATS):
        assert (await client.call(request, version)).throttle_time_ms == 0

    access.quotas.throttle_ms[FETCH] = THROTTLE_MS
    begun = trio.current_time()
    await client.pipeline((request, version), (MetadataRequest(topics=[]), 9))
    response = await client.receive()
    assert (response.throttle_time_ms, response.responses) == (THROTTLE_MS, [])
    await client.receive()
    assert trio.current_time() - begun >= THROTTLE_MS / 1000

    access.quotas.throttle_ms.clear()
    again = await client.call(request, version)
    assert only(records_of(only(again.responses).partitions[0])).offset == 0
    size = 4 + sum(map(len, encoder(FetchResponse, version)(again)))
    (charged,) = {usage.fetched_bytes for usage in access.quotas.usages if usage.api_key == FETCH}
    assert size - 4 <= charged <= size, "the whole response, apart from long forms of lengths"


async def test_throttled_fetch_leaves_its_session_as_it_was(client: WireClient, access: Access) -> None:
    topic_id = await create_topic(client)
    await produced(client, to_produce(topic_id, "shortcut"))
    access.quotas.throttle_ms[FETCH] = 1
    unopened = await client.call(to_fetch(topic_id, "shortcut", session=(0, 0)), 12)
    assert (unopened.session_id, unopened.responses) == (0, [])
    assert len(access.dispatcher.services.fetch_sessions) == 0

    access.quotas.throttle_ms.clear()
    opened = await client.call(to_fetch(topic_id, "shortcut", offset=1, session=(0, 0)), 12)
    await produced(client, to_produce(topic_id, "shortcut"))
    access.quotas.throttle_ms[FETCH] = 1
    following = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=opened.session_id, session_epoch=1, topics=[])
    throttled = await client.call(following, 12)
    assert (throttled.session_id, throttled.throttle_time_ms, throttled.responses) == (opened.session_id, 1, [])

    access.quotas.throttle_ms.clear()
    following.session_epoch = 2
    told = only(only((await client.call(following, 12)).responses).partitions)
    assert only(records_of(told)).offset == 1


@pytest.mark.parametrize("way", WAYS)
async def test_fetch_returns_no_more_than_a_quota_lets_through_at_once(
    client: WireClient, access: Access, way: str
) -> None:
    topic_id = await create_topic(client, partitions=2)
    for _ in range(3):
        await produced(client, to_produce(topic_id, "shortcut"))
    access.quotas.fetched_max = 10  # less than a batch
    access.dispatcher.access_changed()

    for _ in range(REPEATS):
        partitions = only((await client.call(to_fetch(topic_id, way), 12)).responses).partitions
        assert len(records_of(partitions[0])) == 1


async def test_follower_is_counted_and_never_throttled(client: WireClient, access: Access) -> None:
    topic_id = await create_topic(client)
    access.quotas.throttle_ms[FETCH] = 60_000
    request = to_fetch(topic_id, "shortcut")
    request.replica_state = ReplicaState(replica_id=7, replica_epoch=1)

    response = await client.call(request, 15)
    await client.call(MetadataRequest(topics=[]), 9)

    assert response.throttle_time_ms == 0
    assert only([usage.is_exempt for usage in access.quotas.usages if usage.api_key == FETCH])


async def test_request_that_waits_for_acknowledgement_is_charged_before_the_next_one_runs(
    client: WireClient, access: Access
) -> None:
    """Otherwise all requests in flight of a client would be appended before the first one is charged."""
    await create_topic(client, configs={"flush.messages": "1"})
    access.quotas.throttle_ms[PRODUCE] = THROTTLE_MS
    request = to_produce(bytes(16), "shortcut")

    begun = trio.current_time()
    await client.pipeline((request, 12), (request, 12))
    first, second = await client.receive(), await client.receive()

    assert (first.throttle_time_ms, second.throttle_time_ms) == (THROTTLE_MS, THROTTLE_MS)
    assert trio.current_time() - begun >= THROTTLE_MS / 1000


async def test_forwarded_request_is_charged_and_throttled_by_the_broker(client: WireClient, access: Access) -> None:
    access.quotas.throttle_ms[CREATE_TOPICS] = 5
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)], timeout_ms=5_000
    )

    response = await client.call(request, 7)

    assert (response.throttle_time_ms, only(response.topics).error_code) == (5, ErrorCode.NONE)
    assert [usage.api_key for usage in access.quotas.usages] == [CREATE_TOPICS]


async def test_connection_that_is_throttled_twice_is_muted_for_the_longer_time(
    client: WireClient, access: Access
) -> None:
    await client.call(MetadataRequest(topics=[]), 9)
    session, charging = access.last_session, access.dispatcher.charging
    assert charging is not None
    begun = trio.current_time()
    for throttle_time_ms in (10, THROTTLE_MS, 20):
        charging.throttle(session, throttle_time_ms)

    await client.call(MetadataRequest(topics=[]), 9)

    assert trio.current_time() - begun >= THROTTLE_MS / 1000


async def test_throttled_connection_that_is_closed_stays_closed(
    node: RunningNode, client: WireClient, access: Access
) -> None:
    async with connected(node.port) as other:
        await other.call(MetadataRequest(topics=[]), 9)
        session, charging = access.last_session, access.dispatcher.charging
        assert session.connection is not None
        assert charging is not None
        charging.throttle(session, 20)
        session.connection.close("the test is done with it")
        await other.expect_close()
    await trio.sleep(0.05)
    await client.call(MetadataRequest(topics=[]), 9)
