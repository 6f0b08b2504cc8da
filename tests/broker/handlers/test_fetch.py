"""Fetch: the returned records within all limits, and errors."""

import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.net import send
from broker.net.reply import Part
from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.api.delete_topics import DeleteTopicsRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.errors import ErrorCode
from broker.wire.records import Compression
from tests.support.requests import (
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    read_values,
    records_of,
)
from tests.support.running_node import running_node
from tests.support.wire_client import WireClient, connected, only

READ_COMMITTED = 1


def by_id(topic_id: bytes, offset: int = 0, *, index: int = 0, **fields: Any) -> FetchRequest:
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
    settings = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, **fields}
    return FetchRequest(topics=[FetchTopic(topic_id=topic_id, partitions=[partition])], **settings)


def sizes_of(response: Any) -> dict[tuple[str, int], int]:
    """The size of the records of each partition in a response, in bytes."""
    return {
        (topic.topic, partition.partition_index): len(partition.records)
        for topic in response.responses
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", range(4, 13))
async def test_records_are_read_with_the_offsets_around_them(client: WireClient, version: int) -> None:
    await create_topic(client)
    await produce(client, batch(b"one", b"two"))
    await produce(client, batch(b"three"))

    partition = await fetch(client, 2, version)

    assert [(record.offset, record.value) for record in records_of(partition)] == [(2, b"three")]
    assert (partition.error_code, partition.high_watermark, partition.last_stable_offset) == (0, 3, 3)
    assert partition.aborted_transactions is None
    assert partition.preferred_read_replica == -1
    if version >= 5:
        assert partition.log_start_offset == 0


@pytest.mark.parametrize("version", range(13, 19))
async def test_topics_go_by_their_ids_from_version_13(client: WireClient, version: int) -> None:
    topic_id = await create_topic(client)
    await produce(client, batch(b"value"))

    topic = only((await client.call(by_id(topic_id), version)).responses)

    assert topic.topic_id == topic_id
    assert [record.value for record in records_of(only(topic.partitions))] == [b"value"]


async def test_the_batch_that_holds_the_offset_is_sent_whole(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"one", b"two", b"three", compression=Compression.GZIP))

    assert [record.offset for record in records_of(await fetch(client, 1))] == [0, 1, 2]


async def test_a_large_answer_from_several_partitions_arrives_whole(client: WireClient) -> None:
    """The response is so large that the kernel sends it from the file."""
    await create_topic(client, partitions=3)
    values = {index: b"%d" % index * 400_000 for index in range(3)}
    for index, value in values.items():
        await produce(client, batch(value), index=index)

    response = await client.call(fetch_request(indexes=range(3)), 12)

    read = {part.partition_index: only(records_of(part)).value for part in only(response.responses).partitions}
    assert read == values


async def test_small_response_of_several_partitions_is_one_buffer(
    client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent_in_parts = []
    send_mixed = send._send_mixed

    def counted(sock: socket.socket, queue: list[Part]) -> int:
        sent_in_parts.append(len(queue))
        return send_mixed(sock, queue)

    monkeypatch.setattr(send, "_send_mixed", counted)
    await create_topic(client, partitions=3)
    for size, in_parts in ((1_000, 0), (7_000, 1)):
        for index in range(3):
            await produce(client, batch(bytes(size)), index=index)
        response = await client.call(fetch_request(indexes=range(3)), 12)
        assert all(sizes_of(response).values())
        assert len(sent_in_parts) == in_parts


async def test_no_part_of_a_large_answer_is_held_back(client: WireClient) -> None:
    """The kernel would wait 200 ms for the rest of a segment if it was told that more data follows."""
    await create_topic(client)
    await produce(client, batch(bytes(300_000)))

    with trio.fail_after(8):
        for _ in range(50):
            assert len((await fetch(client)).records) > 300_000


# Limits


async def test_at_least_one_batch_is_sent_however_small_the_limits(client: WireClient) -> None:
    """KIP-74: otherwise a consumer could not read a batch larger than its limits."""
    await create_topic(client)
    await produce(client, batch(bytes(1000)))
    await produce(client, batch(b"next"))

    for limits in ({"partition_max_bytes": 1}, {"max_bytes": 1}, {"partition_max_bytes": 0}, {"max_bytes": 0}):
        partition = await fetch(client, **limits)
        assert [record.offset for record in records_of(partition)] == [0], limits


async def test_the_limit_of_a_partition_holds_apart_from_the_first_batch(client: WireClient) -> None:
    await create_topic(client)
    for _ in range(4):
        await produce(client, batch(bytes(100)))
    size = len((await fetch(client)).records) // 4

    assert len((await fetch(client, partition_max_bytes=2 * size)).records) == 2 * size
    # Clients know that the last batch may be truncated.
    assert len((await fetch(client, partition_max_bytes=2 * size + 5)).records) == 2 * size + 5


async def test_the_limit_of_the_request_is_shared_in_its_order(client: WireClient) -> None:
    await create_topic(client, partitions=4)
    for index in range(4):
        await produce(client, batch(bytes(1000)), index=index)
    size = len((await fetch(client)).records)

    order = [2, 0, 3, 1]
    response = await client.call(fetch_request(indexes=order, max_bytes=2 * size), 12)

    assert list(sizes_of(response).items()) == [
        (("topic", 2), size),
        (("topic", 0), size),
        (("topic", 3), 0),
        (("topic", 1), 0),
    ]


async def test_only_the_first_partition_with_records_may_exceed_the_limit(client: WireClient) -> None:
    await create_topic(client, partitions=3)
    for index in (1, 2):
        await produce(client, batch(bytes(1000)), index=index)

    response = await client.call(fetch_request(indexes=range(3), max_bytes=10), 12)

    sizes = sizes_of(response)
    assert sizes["topic", 0] == 0
    assert sizes["topic", 1] > 1000
    assert sizes["topic", 2] == 0


async def test_errors_show_when_the_limit_is_used_up_too(client: WireClient) -> None:
    await create_topic(client, partitions=2)
    await produce(client, batch(bytes(1000)))
    request = fetch_request(max_bytes=1)
    request.topics[0].partitions.append(FetchPartition(partition=1, fetch_offset=9, partition_max_bytes=1000))

    first, second = only((await client.call(request, 12)).responses).partitions

    assert (first.error_code, second.error_code) == (0, ErrorCode.OFFSET_OUT_OF_RANGE)


# Errors


@pytest.mark.parametrize("offset", [-1, 4, 2**63 - 1])
async def test_offsets_outside_of_the_log_are_out_of_range(client: WireClient, offset: int) -> None:
    await create_topic(client)
    await produce(client, batch(b"one", b"two", b"three"))

    partition = await fetch(client, offset)

    assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (partition.high_watermark, partition.last_stable_offset, partition.log_start_offset) == (-1, -1, -1)
    assert not partition.records


async def test_the_end_of_the_log_is_within_it(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"one"))

    partition = await fetch(client, 1)

    assert (partition.error_code, partition.high_watermark, len(partition.records)) == (0, 1, 0)


async def test_deleted_records_are_out_of_range(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"one", b"two", b"three"))
    deleted = DeleteRecordsTopic(name="topic", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
    await client.call(DeleteRecordsRequest(topics=[deleted], timeout_ms=1_000), 2)

    assert (await fetch(client, 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    partition = await fetch(client, 2)
    assert (partition.error_code, partition.log_start_offset) == (0, 2)
    assert await read_values(client, 2) == [b"three"]


async def test_unknown_ids_and_unknown_partitions_of_known_ids_are_told_apart(client: WireClient) -> None:
    topic_id = await create_topic(client)

    unknown_id = await client.call(by_id(bytes(15) + b"\1"), 13)
    unknown_index = await client.call(by_id(topic_id, index=3), 13)

    assert only(only(unknown_id.responses).partitions).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert only(unknown_id.responses).topic_id == bytes(15) + b"\1"
    assert only(only(unknown_index.responses).partitions).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_id_does_not_outlive_its_topic(client: WireClient) -> None:
    """The purpose of KIP-516: a topic that is created again with the same name is a different topic."""
    old_id = await create_topic(client)
    await client.call(DeleteTopicsRequest(topic_names=["topic"], timeout_ms=1_000), 4)
    new_id = await create_topic(client)

    assert (
        only(only((await client.call(by_id(old_id), 13)).responses).partitions).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    )
    assert only(only((await client.call(by_id(new_id), 13)).responses).partitions).error_code == 0


async def test_readers_of_committed_records_get_a_list_of_aborted_transactions(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"value"))

    partition = await fetch(client, isolation_level=READ_COMMITTED)

    assert partition.aborted_transactions == []
    assert [record.value for record in records_of(partition)] == [b"value"]


async def test_versions_before_10_get_no_zstd(client: WireClient) -> None:
    """KIP-110."""
    await create_topic(client, configs={"compression.type": "zstd"})
    await produce(client, batch(b"value" * 100))

    assert (await fetch(client, version=9)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (await fetch(client, version=10)).error_code == 0


# Leader epochs (KIP-320)


def with_epoch(epoch: int, version: int, topic_id: bytes) -> FetchRequest:
    request = by_id(topic_id) if version >= 13 else fetch_request()
    request.topics[0].partitions[0].current_leader_epoch = epoch
    return request


@pytest.mark.parametrize("version", [9, 12, 16, 18])
@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-2, 0), (-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
async def test_the_leader_epoch_that_a_client_knows_is_checked(
    client: WireClient, version: int, epoch: int, code: int
) -> None:
    topic_id = await create_topic(client)

    response = await client.call(with_epoch(epoch, version, topic_id), version)

    assert only(only(response.responses).partitions).error_code == code


async def test_negative_last_fetched_epoch_stands_for_none(client: WireClient) -> None:
    await create_topic(client)
    request = fetch_request(offset=1)
    request.topics[0].partitions[0].last_fetched_epoch = -2

    partition = only(only((await client.call(request, 12)).responses).partitions)

    assert (partition.error_code, partition.diverging_epoch) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)


@pytest.mark.parametrize("version", [12, 15, 16, 18])
async def test_fetch_with_an_old_leader_epoch_gets_the_leader(tmp_path: Path, version: int) -> None:
    """KIP-951: earlier versions could carry the leader too, but Kafka sends it only from version 16 on."""
    async with running_node(tmp_path) as first, connected(first.port) as client:
        topic_id = await create_topic(client)
        first.crash()

    async with running_node(tmp_path) as node, connected(node.port) as client:
        response = await client.call(with_epoch(0, version, topic_id), version)

        answer = only(only(response.responses).partitions)
        assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
        if version < 16:
            assert answer.current_leader is None
        else:
            assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 2)
            endpoint = only(response.node_endpoints)
            assert (endpoint.node_id, endpoint.host, endpoint.port) == (1, "127.0.0.1", node.port)
