"""Fetch sessions (KIP-227) as clients use them: partitions are named once, and responses contain only changes."""

from typing import Any

import pytest

from broker.wire.api.delete_topics import DeleteTopicsRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, fetch_request, produce, produce_request, records_of
from tests.support.running_node import RunningNode
from tests.support.transaction_requests import Requests
from tests.support.wire_client import WireClient, connected, only

VERSION = 12
READ_COMMITTED = 1
FOREVER_MS = 600_000


def incremental(session_id: int, epoch: int, **fields: Any) -> FetchRequest:
    """An incremental request, which changes nothing unless `fields` say so."""
    settings = {"max_wait_ms": 0, "min_bytes": 1, **fields}
    return FetchRequest(session_id=session_id, session_epoch=epoch, **settings)


def at(offset: int, index: int = 0) -> list[FetchTopic]:
    return [
        FetchTopic(
            topic="topic", partitions=[FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)]
        )
    ]


def indexes(response: Any) -> list[int]:
    return [partition.partition_index for topic in response.responses for partition in topic.partitions]


async def open_session(client: WireClient, partitions: int = 1, **fields: Any) -> int:
    """Open a session that fetches all partitions of "topic" from the beginning. Returns its id."""
    request = fetch_request(indexes=range(partitions), session_epoch=0, **fields)
    response = await client.call(request, VERSION)
    assert response.error_code == 0
    assert response.session_id > 0
    assert indexes(response) == list(range(partitions))
    session_id: int = response.session_id
    return session_id


@pytest.mark.parametrize("version", range(7, 13))
async def test_a_session_goes_on_without_naming_its_partitions(client: WireClient, version: int) -> None:
    await create_topic(client)
    opened = await client.call(fetch_request(session_epoch=0), version)
    await produce(client, batch(b"value"))

    response = await client.call(incremental(opened.session_id, 1), version)

    assert (response.error_code, response.session_id) == (0, opened.session_id)
    topic = only(response.responses)
    assert topic.topic == "topic"
    assert only(records_of(only(topic.partitions))).value == b"value"


async def test_a_session_by_topic_ids(client: WireClient) -> None:
    topic_id = await create_topic(client)
    named = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])]
    opened = await client.call(incremental(0, 0, topics=named), 17)
    await produce(client, batch(b"value"))

    response = await client.call(incremental(opened.session_id, 1), 17)

    assert only(response.responses).topic_id == topic_id
    assert only(records_of(only(only(response.responses).partitions))).value == b"value"


async def test_another_isolation_level_reads_all_partitions_of_a_session_again(client: WireClient) -> None:
    """A partition without committed records has news for a consumer that reads uncommitted ones."""
    await create_topic(client)
    producer = Requests(client)
    await producer.find("a")
    producer_id, epoch = await producer.init("a")
    records = batch(b"value", transactional=True, producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    request = produce_request(records)
    request.transactional_id = "a"
    assert only(only((await client.call(request, 12)).responses).partition_responses).error_code == 0
    session_id = await open_session(client, isolation_level=READ_COMMITTED)
    assert indexes(await client.call(incremental(session_id, 1, isolation_level=READ_COMMITTED), VERSION)) == []

    response = await client.call(incremental(session_id, 2), VERSION)

    assert only(records_of(only(only(response.responses).partitions))).value == b"value"


async def test_session_response_has_changed_partitions_only(client: WireClient) -> None:
    await create_topic(client, partitions=3)
    session_id = await open_session(client, 3)
    assert indexes(await client.call(incremental(session_id, 1), VERSION)) == []

    await produce(client, batch(b"value"), index=1)
    first = await client.call(incremental(session_id, 2), VERSION)
    again = await client.call(incremental(session_id, 3), VERSION)
    moved_on = await client.call(incremental(session_id, 4, topics=at(1, index=1)), VERSION)

    assert indexes(first) == [1]
    assert indexes(again) == [1]  # the client has not acknowledged the records
    assert indexes(moved_on) == []


async def test_partitions_are_added_and_forgotten(client: WireClient) -> None:
    await create_topic(client, partitions=3)
    for index in range(3):
        await produce(client, batch(b"value"), index=index)
    session_id = await open_session(client, 2)

    forgotten = [ForgottenTopic(topic="topic", partitions=[0])]
    request = incremental(session_id, 1, topics=at(0, index=2), forgotten_topics_data=forgotten)
    response = await client.call(request, VERSION)

    assert sorted(indexes(response)) == [1, 2]


async def test_partitions_with_records_take_turns_at_the_limit(client: WireClient) -> None:
    """A busy partition must not starve the partitions after it."""
    await create_topic(client, partitions=3)
    session_id = await open_session(client, 3)
    for index in range(3):
        await produce(client, batch(bytes(500)), index=index)

    served = []
    for epoch in range(1, 4):
        response = await client.call(incremental(session_id, epoch, max_bytes=100), VERSION)
        served += [
            part.partition_index for topic in response.responses for part in topic.partitions if len(part.records)
        ]
    assert sorted(served) == [0, 1, 2]


async def test_a_waiting_request_of_a_session_is_woken(node: RunningNode, client: WireClient) -> None:
    await create_topic(client, partitions=2)
    session_id = await open_session(client, 2)
    await client.send(incremental(session_id, 1, max_wait_ms=FOREVER_MS), VERSION)
    await client.expect_silence(0.05)

    async with connected(node.port) as producer:
        await produce(producer, batch(b"value"), index=1)

    assert indexes(await client.receive()) == [1]


async def test_errors_are_repeated_and_recovery_is_told(client: WireClient) -> None:
    await create_topic(client)
    session_id = await open_session(client)
    await client.call(DeleteTopicsRequest(topic_names=["topic"], timeout_ms=1_000), 4)

    for epoch in (1, 2):
        response = await client.call(incremental(session_id, epoch), VERSION)
        assert only(only(response.responses).partitions).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    await create_topic(client)
    response = await client.call(incremental(session_id, 3), VERSION)
    assert only(only(response.responses).partitions).error_code == 0
    assert indexes(await client.call(incremental(session_id, 4), VERSION)) == []


async def test_an_unknown_session_is_not_found(client: WireClient) -> None:
    response = await client.call(incremental(123, 1), VERSION)

    assert (response.error_code, response.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert response.responses == []


@pytest.mark.parametrize("epoch", [2, 7])
async def test_a_request_out_of_turn_is_refused_and_the_session_lives(client: WireClient, epoch: int) -> None:
    await create_topic(client)
    session_id = await open_session(client)

    response = await client.call(incremental(session_id, epoch), VERSION)

    assert (response.error_code, response.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    assert (await client.call(incremental(session_id, 1), VERSION)).error_code == 0


async def test_a_repeated_request_is_refused(client: WireClient) -> None:
    await create_topic(client)
    session_id = await open_session(client)
    await client.call(incremental(session_id, 1), VERSION)

    response = await client.call(incremental(session_id, 1), VERSION)

    assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


@pytest.mark.parametrize(("opened_in", "continued_in"), [(12, 13), (17, 12)])
async def test_a_session_keeps_to_names_or_to_ids(client: WireClient, opened_in: int, continued_in: int) -> None:
    topic_id = await create_topic(client)
    topics = [FetchTopic(topic="topic", topic_id=topic_id, partitions=[FetchPartition(partition=0)])]
    opened = await client.call(incremental(0, 0, topics=topics), opened_in)

    response = await client.call(incremental(opened.session_id, 1), continued_in)

    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert (await client.call(incremental(opened.session_id, 1), opened_in)).error_code == 0


async def test_epoch_minus_1_ends_a_session(client: WireClient) -> None:
    await create_topic(client)
    session_id = await open_session(client)

    ended = await client.call(fetch_request(session_id=session_id, session_epoch=-1), VERSION)

    assert (ended.error_code, ended.session_id) == (0, 0)
    response = await client.call(incremental(session_id, 1), VERSION)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_new_session_may_replace_an_old_one(client: WireClient) -> None:
    await create_topic(client)
    old = await open_session(client)

    new = await open_session(client, session_id=old)

    assert new != old
    assert (await client.call(incremental(old, 1), VERSION)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (await client.call(incremental(new, 1), VERSION)).error_code == 0


async def test_a_session_without_partitions_is_over(client: WireClient) -> None:
    await create_topic(client)
    session_id = await open_session(client)
    forgotten = [ForgottenTopic(topic="topic", partitions=[0])]

    response = await client.call(incremental(session_id, 1, forgotten_topics_data=forgotten), VERSION)

    assert (response.error_code, response.session_id, response.responses) == (0, 0, [])
    assert (await client.call(incremental(session_id, 2), VERSION)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_session_belongs_to_no_connection(node: RunningNode, client: WireClient) -> None:
    await create_topic(client)
    session_id = await open_session(client)

    async with connected(node.port) as other:
        assert (await other.call(incremental(session_id, 1), VERSION)).error_code == 0
