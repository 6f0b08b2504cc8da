"""Produce by idempotent producers (KIP-98): retries, gaps, epochs, and the five remembered batches."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.replication.refused_batches import REMEMBERED_MAX, REMEMBERED_MS
from broker.wire.errors import ErrorCode
from tests.support.requests import (
    batch,
    create_topic,
    fetch,
    produce,
    produce_request,
    read_values,
)
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

NONE, MISSING = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
EARLY = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.fixture
async def other(node: RunningNode) -> AsyncIterator[WireClient]:
    async with connected(node.port) as client:
        yield client


def numbered(sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0) -> bytes:
    values = [b"%d" % (sequence + index) for index in range(count)]
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


async def test_a_retry_is_answered_with_the_offset_of_the_first_try(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"somebody else's"))
    first = await produce(client, numbered(0, 3))
    await produce(client, numbered(3))

    retry = await produce(client, numbered(0, 3))

    assert (first.base_offset, retry.base_offset, retry.error_code) == (1, 1, 0)
    assert (await fetch(client)).high_watermark == 5


async def test_retries_are_known_for_five_batches(client: WireClient) -> None:
    await create_topic(client)
    for sequence in range(6):
        await produce(client, numbered(sequence))

    assert [(await produce(client, numbered(sequence))).base_offset for sequence in range(1, 6)] == [1, 2, 3, 4, 5]
    answer = await produce(client, numbered(0))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


async def test_a_gap_is_refused_until_it_is_filled(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, numbered(0, 2))

    answer = await produce(client, numbered(3))

    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert answer.log_start_offset == 0
    assert (await produce(client, numbered(2))).base_offset == 2
    assert (await produce(client, numbered(3))).base_offset == 3


async def test_a_retry_with_another_range_is_no_retry(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, numbered(0, 3))

    assert (await produce(client, numbered(0, 2))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_an_old_epoch_is_refused_and_a_new_one_begins_at_0(client: WireClient) -> None:
    """KIP-360."""
    await create_topic(client)
    await produce(client, numbered(0, epoch=1))

    assert (await produce(client, numbered(1, epoch=0))).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await produce(client, numbered(1, epoch=2))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await produce(client, numbered(0, epoch=2))).error_code == 0


async def test_sequence_numbers_begin_again_after_the_largest(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=2**31 - 2))

    assert (await produce(client, numbered(0))).error_code == 0


async def test_five_requests_in_one_write_are_appended_in_order(client: WireClient) -> None:
    await create_topic(client)

    await client.pipeline(*((produce_request(numbered(sequence)), 9) for sequence in range(5)))

    offsets = [only(only((await client.receive()).responses).partition_responses).base_offset for _ in range(5)]
    assert offsets == [0, 1, 2, 3, 4]


async def test_a_duplicate_in_the_same_write_as_its_original_is_found(client: WireClient) -> None:
    await create_topic(client)

    await client.pipeline((produce_request(numbered(0)), 9), (produce_request(numbered(0)), 9))

    offsets = [only(only((await client.receive()).responses).partition_responses).base_offset for _ in range(2)]
    assert offsets == [0, 0]
    assert (await fetch(client)).high_watermark == 1


async def sequences_taken(client: WireClient, *batches: bytes, topic: str = "topic") -> list[ErrorCode]:
    """Send batches one after another. Returns their error codes."""
    return [ErrorCode((await produce(client, each, topic=topic)).error_code) for each in batches]


async def test_batches_after_a_refused_batch_are_refused_until_it_is_sent_again(
    client: WireClient, other: WireClient
) -> None:
    """The partition is created between two batches of an unknown producer (KAFKA-15591).

    Later batches that were in flight get the error of the refused batch.
    """
    assert await sequences_taken(client, numbered(0, 3), numbered(3)) == [MISSING, MISSING]
    await create_topic(other)
    await produce(other, batch(b"somebody else's"))

    assert await sequences_taken(client, numbered(4), numbered(5)) == [MISSING, MISSING]
    assert await sequences_taken(client, numbered(4), numbered(5)) == [EARLY, EARLY]
    assert await sequences_taken(client, numbered(0, 3), numbered(3), numbered(4), numbered(5)) == [NONE] * 4
    assert await read_values(client) == [b"somebody else's", *(b"%d" % at for at in range(6))]


async def test_only_batches_of_the_same_producer_and_connection_wait_for_a_refused_batch(
    client: WireClient, other: WireClient
) -> None:
    """Only batches on the same connection, to the same partition, of the same producer and epoch are affected."""
    assert await sequences_taken(client, numbered(4), numbered(4, producer_id=8)) == [MISSING, MISSING]
    await create_topic(other)
    await create_topic(other, "elsewhere")

    assert await sequences_taken(client, numbered(5), topic="elsewhere") == [NONE]
    assert await sequences_taken(client, numbered(5, producer_id=9), numbered(4, producer_id=8)) == [NONE, NONE]
    assert await sequences_taken(client, numbered(6, epoch=1)) == [NONE]
    assert await sequences_taken(other, numbered(6, producer_id=10)) == [NONE]


async def test_batches_after_a_permanent_error_do_not_wait(client: WireClient) -> None:
    """Not every client renumbers its next batches."""
    await create_topic(client, configs={"max.message.bytes": "500"})
    too_large = batch(b"x" * 500, producer_id=7, producer_epoch=0, base_sequence=0)

    assert await sequences_taken(client, too_large, numbered(1)) == [ErrorCode.MESSAGE_TOO_LARGE, NONE]


async def test_refused_batch_may_arrive_over_another_connection(client: WireClient, other: WireClient) -> None:
    assert await sequences_taken(client, numbered(0)) == [MISSING]
    await create_topic(other)
    assert await sequences_taken(other, numbered(0)) == [NONE]

    assert await sequences_taken(client, numbered(1)) == [NONE]


async def test_a_batch_that_does_not_come_again_is_forgotten(tmp_path: Path) -> None:
    now_s = 1_700_000_000.0
    async with running_node(tmp_path, wall=lambda: now_s) as node, connected(node.port) as client:
        assert await sequences_taken(client, numbered(0)) == [MISSING]
        await create_topic(client)
        assert await sequences_taken(client, numbered(1)) == [MISSING]
        now_s += REMEMBERED_MS / 1000
        assert await sequences_taken(client, numbered(1), numbered(2)) == [NONE, NONE]


async def test_of_all_that_is_refused_the_latest_is_remembered(client: WireClient, other: WireClient) -> None:
    for producer_id in range(REMEMBERED_MAX + 1):
        await produce(client, numbered(0, producer_id=producer_id))
    await create_topic(other)

    assert await sequences_taken(client, numbered(1, producer_id=0), numbered(1, producer_id=1)) == [NONE, MISSING]
