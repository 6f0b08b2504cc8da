"""Produce by idempotent producers (KIP-98): retries, gaps, epochs, and the five batches that are remembered."""

from broker.wire.errors import ErrorCode
from tests.support.requests import (
    batch,
    create_topic,
    fetch,
    produce,
    produce_request,
)
from tests.support.wire_client import WireClient, only


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
