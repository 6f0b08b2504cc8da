"""The responses of a fetch session together equal the response to a request without a session."""

from random import Random
from typing import Any

import pytest

from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.support.requests import batch, create_topic, fetch_request, produce, records_of
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, connected, only

VERSION = 12
PARTITIONS = 5
STEPS = 60


class SessionClient:
    """A consumer: the state of each partition from responses, and its position."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self._session_id = 0
        self._epoch = 0
        self._untold: dict[int, int] = {}
        self._named: set[int] = set()
        self.offsets: dict[int, int] = {}
        self.told: dict[int, tuple[int, int]] = {}
        self.values: dict[int, list[bytes | None]] = {index: [] for index in range(PARTITIONS)}

    @property
    def has_more_to_say(self) -> bool:
        return bool(self._untold) or self._named != self.offsets.keys()

    def follow(self, index: int) -> None:
        self.offsets[index] = self._untold[index] = len(self.values[index])

    def forget(self, index: int) -> None:
        del self.offsets[index]
        self.told.pop(index, None)
        self._untold.pop(index, None)

    async def send(self, max_wait_ms: int, max_bytes: int) -> None:
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in self._untold.items()
        ]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[FetchTopic(topic="topic", partitions=partitions)] if partitions else [],
            forgotten_topics_data=[
                ForgottenTopic(topic="topic", partitions=sorted(self._named - self.offsets.keys())),
            ],
        )
        self._untold, self._named = {}, set(self.offsets)
        await self._client.send(request, VERSION)

    async def receive(self) -> list[int]:
        """Receive a response. Returns the partitions that it contains."""
        response = await self._client.receive()
        assert response.error_code == 0
        self._session_id, self._epoch = response.session_id, self._epoch + 1 if response.session_id else 0
        answered = [data for topic in response.responses for data in topic.partitions]
        for data in answered:
            self._take(data)
        return [data.partition_index for data in answered]

    def _take(self, data: Any) -> None:
        index = data.partition_index
        assert data.error_code == 0
        assert index in self.offsets, "forgotten"
        self.told[index] = data.high_watermark, data.log_start_offset
        records = [record for record in records_of(data) if record.offset >= self.offsets[index]]
        self.values[index] += [record.value for record in records]
        if records:
            self.offsets[index] = self._untold[index] = records[-1].offset + 1


async def delete_records(client: WireClient, index: int, offset: int) -> None:
    topic = DeleteRecordsTopic(name="topic", partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)])
    response = await client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=1_000), 2)
    assert only(only(response.topics).partitions).error_code == 0


@pytest.mark.seeds(4)
async def test_a_session_tells_everything_in_time(node: RunningNode, client: WireClient, seed: int) -> None:
    rng = Random(seed)
    await create_topic(client, partitions=PARTITIONS)
    written: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
    async with connected(node.port) as reading:
        session = SessionClient(reading)
        session.follow(0)
        for step in range(STEPS):
            waits = rng.random() < 0.3
            await session.send(10 if waits else 0, rng.choice([50, 1 << 20]))
            if not waits:
                await session.receive()
            for index in rng.sample(range(PARTITIONS), rng.randrange(3)):
                written[index].append(b"%d" % step)
                assert (await produce(client, batch(written[index][-1]), index=index)).error_code == 0
            if waits:
                await session.receive()
            index = rng.randrange(PARTITIONS)
            if index not in session.offsets:
                session.follow(index)
            elif len(session.offsets) > 1 and rng.random() < 0.3:
                session.forget(index)
            elif session.offsets[index] and rng.random() < 0.3:
                await delete_records(client, index, rng.randrange(session.offsets[index]))
        while (await session_round(session)) or session.has_more_to_say:
            pass
        for index in session.offsets:
            assert session.values[index] == written[index]
            assert session.told[index] == await look(client, session.offsets[index], index)


async def session_round(session: SessionClient) -> list[int]:
    await session.send(0, 1 << 20)
    return await session.receive()


async def look(client: WireClient, offset: int, index: int) -> tuple[int, int]:
    """The high watermark and the log start offset of a partition, requested outside of any session."""
    response = await client.call(fetch_request(offset, indexes=[index]), VERSION)
    data = only(only(response.responses).partitions)
    return data.high_watermark, data.log_start_offset
