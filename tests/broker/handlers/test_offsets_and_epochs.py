"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: the start and end of a log, and the ends of its
leader epochs.
"""

from pathlib import Path
from typing import Any

import pytest

from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, fetch, produce, produce_request
from tests.support.running_node import running_node
from tests.support.transaction_requests import Requests
from tests.support.wire_client import WireClient, connected, only

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
READ_COMMITTED = 1
HIGH_WATERMARK = -1


def list_request(*timestamps: int, topic: str = "topic", index: int = 0, **fields: Any) -> ListOffsetsRequest:
    """A request for the same partition with each of `timestamps`."""
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for timestamp in timestamps]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)], **fields)


async def list_offset(client: WireClient, timestamp: int, version: int = 11, **fields: Any) -> Any:
    response = await client.call(list_request(timestamp, **fields), version)
    return only(only(response.topics).partitions)


async def delete_records(client: WireClient, offset: int, *, topic: str = "topic", index: int = 0) -> Any:
    partitions = [DeleteRecordsPartition(partition_index=index, offset=offset)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=1_000)
    return only(only((await client.call(request, 2)).topics).partitions)


async def end_of_epoch(
    client: WireClient, epoch: int, *, current: int = -1, topic: str = "topic", index: int = 0, version: int = 4
) -> Any:
    partition = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
    topics = [OffsetForLeaderTopic(topic=topic, partitions=[partition])]
    response = await client.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), version)
    return only(only(response.topics).partitions)


async def three_records(client: WireClient) -> None:
    """Produce three records at 100, 300 and 200 ms, and delete offset 0."""
    await create_topic(client)
    for timestamp in (50, 100, 300, 200):
        await produce(client, batch(b"value", timestamp=timestamp))
    await delete_records(client, 1)


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(("timestamp", "expected"), [(LATEST, (-1, 4, 0)), (EARLIEST, (-1, 1, 0))])
async def test_the_ends_of_a_log(
    client: WireClient, version: int, timestamp: int, expected: tuple[int, int, int]
) -> None:
    await three_records(client)

    found = await list_offset(client, timestamp, version)

    assert (found.error_code, found.partition_index) == (0, 0)
    assert (found.timestamp, found.offset) == expected[:2]
    assert found.leader_epoch == (expected[2] if version >= 4 else -1)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, (100, 1, 0)),
        (100, (100, 1, 0)),
        (101, (300, 2, 0)),
        (300, (300, 2, 0)),
        (301, (-1, -1, -1)),
        (MAX_TIMESTAMP, (300, 2, 0)),
        (EARLIEST_LOCAL, (-1, 1, 0)),
        (LATEST_TIERED, (-1, -1, -1)),
        (EARLIEST_PENDING_UPLOAD, (-1, -1, -1)),
    ],
)
async def test_the_first_record_of_a_time(client: WireClient, timestamp: int, expected: tuple[int, int, int]) -> None:
    await three_records(client)

    found = await list_offset(client, timestamp)

    assert found.error_code == 0
    assert (found.timestamp, found.offset, found.leader_epoch) == expected


async def test_within_a_batch_too(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"a", b"b", timestamp=100))
    await produce(client, batch(b"c", b"d", timestamp=200))

    assert (await list_offset(client, 150)).offset == 2
    assert (await list_offset(client, MAX_TIMESTAMP)).offset == 2


async def test_an_empty_log(client: WireClient) -> None:
    await create_topic(client)

    assert [
        (await list_offset(client, timestamp)).offset
        for timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL, MAX_TIMESTAMP, LATEST_TIERED, 0)
    ] == [0, 0, 0, -1, -1, -1]


@pytest.mark.parametrize(
    ("timestamp", "first_version"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11), (-7, 99), (-100, 99)],
)
async def test_special_timestamps_have_their_first_versions(
    client: WireClient, timestamp: int, first_version: int
) -> None:
    """KIP-734, KIP-405, KIP-1005, KIP-1023."""
    await create_topic(client)

    codes = [(await list_offset(client, timestamp, version)).error_code for version in range(1, 12)]

    assert codes == [ErrorCode.UNSUPPORTED_VERSION if version < first_version else 0 for version in range(1, 12)]


async def test_a_partition_that_is_asked_for_twice_is_refused_once(client: WireClient) -> None:
    await create_topic(client, partitions=2)
    request = list_request(LATEST, EARLIEST)
    request.topics[0].partitions.append(ListOffsetsPartition(partition_index=1, timestamp=LATEST))

    topic = only((await client.call(request, 10)).topics)

    answers = [(partition.partition_index, partition.error_code) for partition in topic.partitions]
    assert sorted(answers) == [(0, ErrorCode.INVALID_REQUEST), (1, 0)]


async def test_a_topic_that_is_named_twice_is_answered_once(client: WireClient) -> None:
    await create_topic(client, partitions=2)
    request = list_request(LATEST)
    request.topics += list_request(LATEST, index=1).topics

    topic = only((await client.call(request, 10)).topics)

    assert sorted(partition.partition_index for partition in topic.partitions) == [0, 1]


@pytest.mark.parametrize(("topic", "index"), [("other", 0), ("topic", 7)])
async def test_offsets_of_an_unknown_partition_are_refused(client: WireClient, topic: str, index: int) -> None:
    await create_topic(client)

    found = await list_offset(client, LATEST, topic=topic, index=index)
    ended = await end_of_epoch(client, 0, topic=topic, index=index)
    deleted = await delete_records(client, 0, topic=topic, index=index)

    assert found.error_code == ended.error_code == deleted.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (found.timestamp, found.offset, found.leader_epoch) == (-1, -1, -1)
    assert (ended.leader_epoch, ended.end_offset) == (-1, -1)
    assert deleted.low_watermark == -1


async def test_list_offsets_includes_records_produced_in_the_same_write(client: WireClient) -> None:
    await create_topic(client)

    await client.pipeline((produce_request(batch(b"value")), 9), (list_request(LATEST), 10))

    await client.receive()
    assert only(only((await client.receive()).topics).partitions).offset == 1


async def test_committed_is_committed_without_transactions(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"value"))

    assert (await list_offset(client, LATEST, isolation_level=READ_COMMITTED)).offset == 1


@pytest.mark.parametrize(("replica_id", "offset"), [(-1, 0), (-2, 1), (-3, 1)])
async def test_isolation_level_is_that_of_consumers_alone(client: WireClient, replica_id: int, offset: int) -> None:
    """Replica id -1 stands for a consumer; it does not see the record of an open transaction."""
    await create_topic(client)
    producer = Requests(client)
    await producer.find("a")
    producer_id, epoch = await producer.init("a")
    records = batch(b"value", transactional=True, producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    request = produce_request(records)
    request.transactional_id = "a"
    assert only(only((await client.call(request, 12)).responses).partition_responses).error_code == 0

    asked = list_request(LATEST, isolation_level=READ_COMMITTED)
    asked.replica_id = replica_id
    assert only(only((await client.call(asked, 11)).topics).partitions).offset == offset


@pytest.mark.parametrize(("epoch", "code"), [(0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_the_leader_epoch_that_a_client_knows_is_checked(client: WireClient, epoch: int, code: int) -> None:
    """KIP-320."""
    await create_topic(client)
    request = list_request(LATEST)
    request.topics[0].partitions[0].current_leader_epoch = epoch

    assert only(only((await client.call(request, 10)).topics).partitions).error_code == code
    assert (await end_of_epoch(client, 0, current=epoch)).error_code == code


# OffsetForLeaderEpoch


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_where_leader_epochs_ended(tmp_path: Path, version: int) -> None:
    """KIP-101; each crash is followed by an epoch without a leader, and then by another epoch."""
    for count in (2, 0, 3):
        async with running_node(tmp_path) as node, connected(node.port) as client:
            if count == 2:
                await create_topic(client)
            for _ in range(count):
                await produce(client, batch(b"value"))
            node.crash()

    async with running_node(tmp_path) as node, connected(node.port) as client:
        ends = {epoch: await end_of_epoch(client, epoch, version=version) for epoch in range(8)}

        # Epoch 2 has no records. The current epoch is 6; epoch 7 is unknown.
        assert {epoch: (end.leader_epoch, end.end_offset) for epoch, end in ends.items()} == {
            0: (0, 2),
            1: (0, 2),
            2: (0, 2),
            3: (0, 2),
            4: (4, 5),
            5: (4, 5),
            6: (6, 5),
            7: (-1, -1),
        }
        assert all(end.error_code == 0 for end in ends.values())
        assert (await end_of_epoch(client, 4, current=4)).error_code == ErrorCode.FENCED_LEADER_EPOCH


# DeleteRecords


async def test_records_below_an_offset_are_deleted(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"a", b"b", b"c"))

    answer = await delete_records(client, 2)

    assert (answer.error_code, answer.low_watermark) == (0, 2)
    assert (await list_offset(client, EARLIEST)).offset == 2
    assert (await fetch(client, 2)).log_start_offset == 2


async def test_deleted_records_stay_deleted(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"a", b"b", b"c"))
    await delete_records(client, 2)

    answer = await delete_records(client, 1)

    assert (answer.error_code, answer.low_watermark) == (0, 2)


async def test_minus_1_deletes_everything_committed(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"a", b"b", b"c"))

    assert (await delete_records(client, HIGH_WATERMARK)).low_watermark == 3
    assert (await produce(client, batch(b"d"))).base_offset == 3


@pytest.mark.parametrize("offset", [4, -2])
async def test_only_offsets_of_the_log_can_be_deleted_up_to(client: WireClient, offset: int) -> None:
    await create_topic(client)
    await produce(client, batch(b"a", b"b", b"c"))

    answer = await delete_records(client, offset)

    assert (answer.error_code, answer.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def test_records_of_compacted_topics_are_not_deleted(client: WireClient) -> None:
    await create_topic(client, configs={"cleanup.policy": "compact"})
    await produce(client, batch(b"a", key=b"k"))

    assert (await delete_records(client, 1)).error_code == ErrorCode.POLICY_VIOLATION


async def test_records_of_internal_topics_are_not_deleted(client: WireClient) -> None:
    await create_topic(client, "__consumer_offsets")

    answer = await delete_records(client, 0, topic="__consumer_offsets")

    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_deleted_records_stay_deleted_over_a_clean_restart(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await create_topic(client)
        await produce(client, batch(b"a", b"b", b"c"))
        await delete_records(client, 2)

    async with running_node(tmp_path) as node, connected(node.port) as client:
        assert (await list_offset(client, EARLIEST)).offset == 2
