"""Consumers that read committed records only (KIP-98), independent of the client library."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import attrs

from broker.client import ConnectionLost
from broker.wire.api.fetch import AbortedTransaction, FetchPartition, FetchRequest, FetchTopic, PartitionData
from broker.wire.errors import ErrorCode, WireError
from broker.wire.records import check_crc, iter_headers, iter_records
from broker.wire.records.control import ControlRecordType, control_type
from jepsen.values import Polling
from jepsen.workloads.client import Client
from jepsen.workloads.connection import Connection
from jepsen.workloads.consumer import Corrupt, FetchRefused

_FETCH_VERSION: Final = 12
_WAIT_MS: Final = 500
_READ_COMMITTED: Final = 1


@attrs.frozen
class CommittedRecords:
    """The records of a response that are committed, and the offset to go on from."""

    records: list[tuple[int, str]]
    next_offset: int
    last_stable_offset: int
    high_watermark: int


async def read_committed(client: Client, topic: str, partition: int) -> None:
    """Poll a partition from offset zero until cancelled, and from there again whenever the connection breaks."""
    while True:
        try:
            await client.seek_leader(topic, partition)
            async with client.connected() as connection:
                offset = 0
                while True:
                    offset = (await _poll(client, connection, Polling(topic, partition, offset))).next_offset
        except (ConnectionLost, FetchRefused, Corrupt):
            await client.back_off()


async def read_all_committed(client: Client, topic: str, partition: int) -> list[tuple[int, str]]:
    """Read everything from offset zero to the leader's high watermark, recorded as `final-read`.

    Waits until no transaction is open there.
    """
    operation = client.history.invoke(client.name, "final-read", (topic, partition))
    while True:
        with suppress(ConnectionLost, FetchRefused, Corrupt):
            await client.seek_leader(topic, partition)
            async with client.connected() as connection:
                records: list[tuple[int, str]] = []
                offset = 0
                while True:
                    got = await _fetch(connection, Polling(topic, partition, offset), wait_ms=0)
                    records += got.records
                    if got.next_offset == got.high_watermark:
                        client.history.ok(operation, records)
                        return records
                    if got.next_offset == offset:
                        break
                    offset = got.next_offset
        await client.back_off()


async def read_committed_up_to(
    client: Client, topic: str, partition: int, offset: int, value: str
) -> list[tuple[int, str]]:
    """Poll a partition from an offset on until a poll has returned the record with this value. Returns all records."""
    records: list[tuple[int, str]] = []
    while True:
        with suppress(ConnectionLost, FetchRefused, Corrupt):
            await client.seek_leader(topic, partition)
            async with client.connected() as connection:
                while True:
                    got = await _poll(client, connection, Polling(topic, partition, offset))
                    records += got.records
                    if any(each == value for _, each in got.records):
                        return records
                    offset = got.next_offset
        await client.back_off()


async def _poll(client: Client, connection: Connection, polling: Polling) -> CommittedRecords:
    """One poll, recorded. Raises ConnectionLost, FetchRefused, Corrupt."""
    operation = client.history.invoke(client.name, "poll", polling)
    try:
        got = await _fetch(connection, polling, wait_ms=_WAIT_MS)
    except (ConnectionLost, FetchRefused) as error:
        client.history.info(operation, str(error))
        raise
    except Corrupt as error:
        client.history.fail(operation, str(error))
        raise
    client.history.ok(operation, got.records)
    see_stable = client.history.invoke(client.name, "see-stable", (polling.topic, polling.partition))
    last_read = got.records[-1][0] if got.records else -1
    client.history.ok(see_stable, (got.last_stable_offset, got.high_watermark, last_read))
    return got


async def _fetch(connection: Connection, polling: Polling, *, wait_ms: int) -> CommittedRecords:
    """Raises ConnectionLost, FetchRefused, Corrupt."""
    partition = FetchPartition(partition=polling.partition, fetch_offset=polling.offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        isolation_level=_READ_COMMITTED,
        session_epoch=-1,
        topics=[FetchTopic(topic=polling.topic, partitions=[partition])],
    )
    response = await connection.call(request, _FETCH_VERSION)
    data: PartitionData = response.responses[0].partitions[0]
    if data.error_code:
        raise FetchRefused(ErrorCode(data.error_code).name)
    try:
        return committed_records(data, polling.offset)
    except WireError as error:
        raise Corrupt(str(error)) from error


def committed_records(data: PartitionData, offset: int) -> CommittedRecords:
    """The committed records of a response from `offset` on, without those of aborted transactions. Raises WireError."""
    aborted = sorted(data.aborted_transactions or (), key=lambda each: each.first_offset, reverse=True)
    aborting: dict[int, None] = {}
    records: list[tuple[int, str]] = []
    next_offset = offset
    content: Any = data.records or b""
    for at, header in iter_headers(content):
        check_crc(content, at, header)
        next_offset = header.next_offset
        _begin_aborted(aborted, aborting, header.next_offset)
        if header.is_control:
            kinds = [control_type(record.key) for record in iter_records(content, at, header)]
            if kinds == [ControlRecordType.ABORT]:
                aborting.pop(header.producer_id, None)
        elif not (header.is_transactional and header.producer_id in aborting):
            its = iter_records(content, at, header)
            records += [(each.offset, (each.value or b"").decode()) for each in its if each.offset >= offset]
    return CommittedRecords(records, next_offset, data.last_stable_offset, data.high_watermark)


def _begin_aborted(aborted: list[AbortedTransaction], aborting: dict[int, None], end_offset: int) -> None:
    """Move the producers whose aborted transactions begin before `end_offset` to `aborting`."""
    while aborted and aborted[-1].first_offset < end_offset:
        aborting[aborted.pop().producer_id] = None


def ends_of(reads: Iterable[tuple[tuple[str, int], list[tuple[int, str]]]]) -> dict[tuple[str, int], int]:
    """The offset after the last committed record of each partition."""
    return {partition: records[-1][0] + 1 if records else 0 for partition, records in reads}
