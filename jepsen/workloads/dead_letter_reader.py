"""Reads the dead letters of share groups (KIP-1191)."""

from collections.abc import Iterator

from broker.client import ConnectionLost
from broker.wire.api.fetch import PartitionData
from broker.wire.records import iter_headers, iter_records
from jepsen.share_values import DeadLetter
from jepsen.values import Polling
from jepsen.workloads.client import Client
from jepsen.workloads.consumer import FetchRefused, fetch, value_of


async def read_dead_letters(client: Client, topic: str, partition: int) -> None:
    """Read a partition of a dead-letter topic up to its end, retrying until done; recorded as `dead-letters`."""
    operation = client.history.invoke(client.name, "dead-letters", (topic, partition))
    while True:
        try:
            await client.seek_leader(topic, partition)
            found: list[DeadLetter] = []
            async with client.connected() as connection:
                offset, end = 0, 1
                while offset < end:
                    data = await fetch(connection, Polling(topic, partition, offset), wait_ms=0)
                    read = list(_dead_letters(data, offset))
                    found += [letter for _, letter in read]
                    offset, end = read[-1][0] + 1 if read else data.high_watermark, data.high_watermark
        except (FetchRefused, ConnectionLost):
            await client.back_off()
        else:
            client.history.ok(operation, tuple(found))
            return


def _dead_letters(data: PartitionData, offset: int) -> Iterator[tuple[int, DeadLetter]]:
    """The dead letters from `offset` on, each with its offset in the dead-letter topic."""
    content = data.records or b""
    assert isinstance(content, bytes | memoryview), "records as they were received"
    for at, header in iter_headers(content):
        for record in iter_records(content, at, header):
            if record.offset >= offset:
                named = {name: (text or b"").decode() for name, text in record.headers}
                yield (
                    record.offset,
                    DeadLetter(
                        named["__dlq.errors.group"],
                        named["__dlq.errors.topic"],
                        int(named["__dlq.errors.partition"]),
                        int(named["__dlq.errors.offset"]),
                        int(named["__dlq.errors.delivery.count"]),
                        value_of(record.value or b""),
                    ),
                )
