"""Batches with one wrong header field and a correct checksum, over a connection: a node refuses or uses them."""

import time
from pathlib import Path

from broker.storage.log import Log
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.errors import ErrorCode
from broker.wire.records import Compression, iter_headers
from tests.support.logs import open_log
from tests.support.requests import PRODUCE_VERSION, batch, create_topic, fetch, produce, produce_request
from tests.support.running_node import running_node
from tests.support.wire_client import WireClient, connected, only
from tests.support.wrong_headers import REFUSALS, check_compaction, check_use, records_at, wrong_batch, wrong_values

MAX_TIMESTAMP = -3


def wrong_batches(now_ms: int) -> list[bytes]:
    """Batches of one and of three records, plain and compressed, with each wrong value."""
    return [
        wrong_batch(records_at(*(now_ms + delta for delta in deltas)), compression, {name: value})
        for name, values in wrong_values(now_ms).items()
        for value in values
        for deltas in ((0,), (0, 20, 10))
        for compression in (Compression.NONE, Compression.ZSTD)
    ]


def log_below(directory: Path) -> Log:
    """The log of the topic's partition, recovered from the files of a node that has crashed."""
    return open_log(next(directory.rglob("topic-0")))


async def offset_for(client: WireClient, timestamp: int) -> int:
    asked = ListOffsetsTopic(name="topic", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    answer = only(only((await client.call(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)).topics).partitions)
    assert answer.error_code == ErrorCode.NONE
    return int(answer.offset)


async def test_node_refuses_or_uses_batches_with_a_wrong_header_field(tmp_path: Path) -> None:
    now_ms = int(time.time() * 1000)
    sent = wrong_batches(now_ms)
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await create_topic(client)
        await client.pipeline(*((produce_request(each), PRODUCE_VERSION) for each in sent))
        answers = [only(only((await client.receive()).responses).partition_responses) for _ in sent]
        assert {ErrorCode(answer.error_code) for answer in answers} <= REFUSALS | {ErrorCode.NONE}
        end = (await produce(client, batch(b"good", key=b"key", timestamp=now_ms))).base_offset + 1
        accepted = [answer.base_offset for answer in answers if not answer.error_code]
        assert len(accepted) > len(sent) // 3
        read = [header for _, header in iter_headers((await fetch(client)).records)]
        assert [header.base_offset for header in read] == [*accepted, end - 1]
        assert await offset_for(client, now_ms) == 0
        assert await offset_for(client, now_ms + 2 * 3_600_000) == -1
        assert read[0].base_offset <= await offset_for(client, MAX_TIMESTAMP) < end
        node.crash()
    log = log_below(tmp_path)
    assert log.log_end_offset == end
    check_use(log, tmp_path, now_ms)
    await check_compaction(log, tmp_path, now_ms)
