"""Transactions that hang: a partition has them open, and their coordinator does not know of them."""

from broker.wire.records import Record, encode_batch
from tests.support.requests import produce_request
from tests.support.wire_client import connected, only

# The last version of Produce whose partitions clients add to the transaction themselves.
_VERSION = 11
HOUR_MS = 3_600_000


async def hang_transaction(
    port: int, topic: str, producer_id: int, *, timestamp_ms: int, transactional_id: str = "lost", index: int = 0
) -> int:
    """Write one record of a transaction that was never begun, and return its offset.

    The node must have `transaction.partition.verification.enable=false`.
    """
    records = encode_batch(
        [Record(timestamp=timestamp_ms, key=None, value=b"hanging")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    request = produce_request(records, topic=topic, index=index)
    request.transactional_id = transactional_id
    async with connected(port) as client:
        written = only(only((await client.call(request, _VERSION)).responses).partition_responses)
    assert written.error_code == 0
    offset: int = written.base_offset
    return offset
