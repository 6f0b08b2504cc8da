"""An idempotent producer: unique values, sequence numbers, and retries of the same batch until it is acknowledged."""

from collections.abc import Sequence
from contextlib import suppress

import attrs
import trio

from broker.client import ConnectionLost
from broker.wire.api.init_producer_id import InitProducerIdRequest
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.errors import ErrorCode
from broker.wire.records import Record, encode_batch
from jepsen.history import Operation
from jepsen.values import Sending
from jepsen.workloads.client import AMBIGUOUS, Client
from jepsen.workloads.connection import Connection

_PRODUCE_VERSION = 12
_INIT_VERSION = 5
# The batches of a partition that may be in flight at once. A broker remembers the last five of each producer.
IN_FLIGHT_MAX = 3
RECORDS_MAX = 3
# After these errors, the broker accepts nothing more from this producer id.
_SESSION_ENDS = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
)
# With these errors, another server may be the leader.
_STALE_LEADER = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


@attrs.frozen
class _Batch:
    operation: Operation
    sending: Sending
    data: bytes

    def request(self) -> ProduceRequest:
        data = PartitionProduceData(index=self.sending.partition, records=memoryview(self.data))
        topic = TopicProduceData(name=self.sending.topic, partition_data=[data])
        return ProduceRequest(acks=-1, timeout_ms=2_000, topic_data=[topic])


class WrongServer(Exception):
    """This server does not lead the partition."""


class SessionOver(Exception):
    """The broker accepts nothing more from this producer id."""


class Producer:
    """A producer for one partition. It begins a new session (producer id) whenever the broker ends the current one.

    `acknowledged` is set after the first acknowledged batch.
    """

    def __init__(self, client: Client, topic: str, partition: int, per_second: float) -> None:
        self._client = client
        self._topic = topic
        self._partition = partition
        self._per_second = per_second
        self.acknowledged = trio.Event()
        self._sessions = 0
        self._padding = "x" * client.rng.choice((0, 0, 100, 5_000))

    async def run(self) -> None:
        """Produce until cancelled."""
        while True:
            self._sessions += 1
            response, _ = await self._client.call_until_answered(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), _INIT_VERSION
            )
            if response.error_code:
                await self._client.back_off()
                continue
            await self._run_session(response.producer_id, response.producer_epoch)

    async def _run_session(self, producer_id: int, producer_epoch: int) -> None:
        session = f"{self._client.name}.{self._sessions}"
        sequence = 0
        while True:
            await self._client.pause(self._per_second)
            unacknowledged: list[_Batch] = []
            for _ in range(self._client.rng.randint(1, IN_FLIGHT_MAX)):
                unacknowledged.append(self._batch(session, sequence, producer_id, producer_epoch))
                sequence += len(unacknowledged[-1].sending.values)
            try:
                await self._send_until_acknowledged(unacknowledged)
            except SessionOver as over:
                for batch in unacknowledged:
                    self._client.history.info(batch.operation, str(over))
                return

    def _batch(self, session: str, sequence: int, producer_id: int, producer_epoch: int) -> _Batch:
        count = self._client.rng.randint(1, RECORDS_MAX)
        values = tuple(f"{session}/{self._topic}-{self._partition}/{sequence + at}" for at in range(count))
        sending = Sending(self._topic, self._partition, session, sequence, values)
        # Without a timestamp, the producer would count as idle since 1970 and expire.
        now_ms = int(self._client.wall() * 1000)
        records = [Record(timestamp=now_ms, key=None, value=f"{value}/{self._padding}".encode()) for value in values]
        data = encode_batch(records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence)
        return _Batch(self._client.history.invoke(self._client.name, "send", sending), sending, data)

    async def _send_until_acknowledged(self, batches: list[_Batch]) -> None:
        """Send batches until all are acknowledged, removing them from the list as they are. Raises SessionOver."""
        while batches:
            try:
                async with self._client.connected() as connection:
                    while batches:
                        if not await self._attempt(connection, batches):
                            await self._client.back_off()
            except WrongServer:
                await self._client.back_off()
                with suppress(ConnectionLost):
                    await self._client.seek_leader(self._topic, self._partition)
            except ConnectionLost:
                await self._client.back_off()

    async def _attempt(self, connection: Connection, batches: list[_Batch]) -> bool:
        """Send all batches once. Returns True if the first one was acknowledged.

        Raises ConnectionLost, SessionOver, WrongServer.
        """
        sent = list(batches)
        incarnation = self._client.incarnation(connection, self._topic, self._partition)
        await connection.send([batch.request() for batch in sent], _PRODUCE_VERSION)
        for batch in sent:
            response = await connection.receive()
            answer = response.responses[0].partition_responses[0]
            if answer.error_code == 0 and batches and batch is batches[0]:
                self._acknowledge(batch.operation, answer.base_offset, connection, incarnation)
                del batches[0]
            elif batches and batch is batches[0] and answer.error_code in _SESSION_ENDS:
                raise SessionOver(ErrorCode(answer.error_code).name)
            elif answer.error_code in _STALE_LEADER:
                raise WrongServer(ErrorCode(answer.error_code).name)
        return len(batches) < len(sent)

    def _acknowledge(self, operation: Operation, offset: int, connection: Connection, incarnation: int) -> None:
        if self._client.incarnation(connection, self._topic, self._partition) == incarnation:
            self._client.history.ok(operation, offset, incarnation=incarnation)
        else:
            self._client.history.info(operation, AMBIGUOUS)
        self.acknowledged.set()


async def produce_to_all(client: Client, partitions: Sequence[tuple[str, int]], per_second: float) -> None:
    """Produce to all of the partitions at once, each with a producer of its own, until cancelled."""
    async with trio.open_nursery() as nursery:
        for topic, partition in partitions:
            each = attrs.evolve(client, name=f"{client.name}.{topic}-{partition}")
            nursery.start_soon(Producer(each, topic, partition, per_second).run)
