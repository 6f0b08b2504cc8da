"""A producer with acks=1 that sends every record once, without retries."""

from contextlib import suppress

from broker.client import ConnectionLost
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.errors import ErrorCode
from broker.wire.records import Record, encode_batch
from jepsen.values import Sending
from jepsen.workloads.client import AMBIGUOUS, Client
from jepsen.workloads.connection import Connection

_PRODUCE_VERSION = 12
_RECORDS_MAX = 3


async def produce_with_acks_one(client: Client, topic: str, partition: int, per_second: float) -> None:
    """Produce until cancelled."""
    sequence = 0
    while True:
        await client.pause(per_second)
        values = tuple(
            f"{client.name}/{topic}-{partition}/{sequence + at}" for at in range(client.rng.randint(1, _RECORDS_MAX))
        )
        try:
            async with client.connected() as connection:
                sending = Sending(topic, partition, "", sequence, values)
                sequence += len(values)
                code = await _send(client, connection, sending)
        except ConnectionLost:
            await client.back_off()
            continue
        if code is not ErrorCode.NONE:
            await client.back_off()
            with suppress(ConnectionLost):
                await client.seek_leader(topic, partition)


async def _send(client: Client, connection: Connection, sending: Sending) -> ErrorCode:
    """Send one record and record it as `send`. Returns the error code of the response. Raises ConnectionLost."""
    operation = client.history.invoke(client.name, "send", sending)
    now_ms = int(client.wall() * 1000)
    records = [Record(timestamp=now_ms, key=None, value=f"{value}/".encode()) for value in sending.values]
    data = PartitionProduceData(index=sending.partition, records=memoryview(encode_batch(records)))
    topic = TopicProduceData(name=sending.topic, partition_data=[data])
    incarnation = client.incarnation(connection, sending.topic, sending.partition)
    try:
        response = await connection.call(ProduceRequest(acks=1, timeout_ms=2_000, topic_data=[topic]), _PRODUCE_VERSION)
    except ConnectionLost as error:
        client.history.info(operation, str(error))
        raise
    answer = response.responses[0].partition_responses[0]
    code = ErrorCode(answer.error_code)
    if code is not ErrorCode.NONE:
        client.history.info(operation, code.name)
    elif client.incarnation(connection, sending.topic, sending.partition) == incarnation:
        client.history.ok(operation, answer.base_offset, incarnation=incarnation)
    else:
        client.history.info(operation, AMBIGUOUS)
    return code
