"""A consumer that reads a partition from offset zero, and starts again at zero whenever its connection breaks."""

from contextlib import suppress

from broker.client import ConnectionLost
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from broker.wire.errors import ErrorCode, WireError
from broker.wire.records import check_crc, iter_headers, iter_records
from jepsen.history import Operation
from jepsen.values import Polling
from jepsen.workloads.client import AMBIGUOUS, Client
from jepsen.workloads.connection import Connection

_FETCH_VERSION = 12
_WAIT_MS = 500


class FetchRefused(Exception):
    """The node returned an error code."""


class Corrupt(Exception):
    """The response has an invalid or damaged record batch."""


async def consume(client: Client, topic: str, partition: int) -> None:
    """Poll until cancelled."""
    while True:
        try:
            async with client.connected() as connection:
                offset = 0
                while True:
                    offset, _ = await poll(client, connection, Polling(topic, partition, offset))
        except FetchRefused:
            await client.back_off()
            with suppress(ConnectionLost):
                await client.seek_leader(topic, partition)
        except (ConnectionLost, Corrupt):
            await client.back_off()


async def read_all(client: Client, topic: str, partition: int) -> list[tuple[int, str]]:
    """Read everything from offset zero to the leader's high watermark, retrying until done; recorded as
    `final-read`.
    """
    operation = client.history.invoke(client.name, "final-read", (topic, partition))
    while True:
        try:
            await client.seek_leader(topic, partition)
            async with client.connected() as connection:
                records: list[tuple[int, str]] = []
                offset, end = 0, 1
                while offset < end:
                    before = offset
                    request = Polling(topic, partition, offset)
                    data = await fetch(connection, request, wait_ms=0)
                    records += records_of(data, offset)
                    offset, end = _next_offset(records, offset), data.high_watermark
                    assert offset > before or offset >= end, f"{request} returns nothing below {end}"
                client.history.ok(operation, records, incarnation=client.incarnation(connection, topic, partition))
                return records
        except (FetchRefused, ConnectionLost):
            await client.back_off()
        except Corrupt as error:
            client.history.fail(operation, str(error))
            return []


async def poll(client: Client, connection: Connection, polling: Polling) -> tuple[int, Operation]:
    """Poll once and record it. Returns the next offset and the operation. Raises ConnectionLost,
    FetchRefused, Corrupt.
    """
    operation = client.history.invoke(client.name, "poll", polling)
    incarnation = client.incarnation(connection, polling.topic, polling.partition)
    try:
        data = await fetch(connection, polling, wait_ms=_WAIT_MS)
        records = records_of(data, polling.offset)
    except (ConnectionLost, FetchRefused) as error:
        client.history.info(operation, str(error))
        raise
    except Corrupt as error:
        client.history.fail(operation, str(error))
        raise
    if client.incarnation(connection, polling.topic, polling.partition) == incarnation:
        client.history.ok(operation, records, incarnation=incarnation)
    else:
        client.history.info(operation, AMBIGUOUS)
    return _next_offset(records, polling.offset), operation


async def fetch(connection: Connection, polling: Polling, *, wait_ms: int, leader_epoch: int = -1) -> PartitionData:
    """Fetch from one partition. With `leader_epoch`, the node answers only in that epoch. Raises ConnectionLost,
    FetchRefused.
    """
    partition = FetchPartition(
        partition=polling.partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=polling.offset,
        partition_max_bytes=1 << 20,
    )
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_epoch=-1,
        topics=[FetchTopic(topic=polling.topic, partitions=[partition])],
    )
    response = await connection.call(request, _FETCH_VERSION)
    data: PartitionData = response.responses[0].partitions[0]
    if data.error_code:
        raise FetchRefused(ErrorCode(data.error_code).name)
    return data


def records_of(data: PartitionData, offset: int) -> list[tuple[int, str]]:
    """Decode (offset, value) pairs from `offset` on; the first batch may begin at a lower offset. Raises Corrupt."""
    content = data.records
    if not content:
        return []
    assert isinstance(content, bytes | memoryview), "records as they were received"
    records = []
    try:
        for at, header in iter_headers(content):
            check_crc(content, at, header)
            records += [(record.offset, value_of(record.value or b"")) for record in iter_records(content, at, header)]
    except WireError as error:
        raise Corrupt(str(error)) from error
    return [record for record in records if record[0] >= offset]


def value_of(content: bytes) -> str:
    """The value without its padding; see `producer`."""
    return content.rpartition(b"/")[0].decode()


def _next_offset(records: list[tuple[int, str]], offset: int) -> int:
    return records[-1][0] + 1 if records else offset
