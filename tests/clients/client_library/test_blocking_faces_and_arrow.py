"""The blocking clients of the library, and Arrow tables, with three nodes of ours or of Apache Kafka."""

from itertools import islice
from typing import Any

import pyarrow
import pytest
import trio

from broker.client import (
    Consumer,
    KafkaError,
    NewTopic,
    Producer,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    TopicPartition,
)
from tests.support.client_peers import NOON_MS, WITHIN_S, ClientPeer

pytestmark = pytest.mark.clients


def test_blocking_faces_produce_consume_and_administer(peer: ClientPeer, topic: str, group: str) -> None:
    with SyncAdmin(peer.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 2, 3)]).raise_first()
        assert len(admin.describe_cluster().nodes) == 3
    with SyncProducer(peer.bootstrap, compression_type="lz4") as producer:
        assert producer.send(topic, b"first", key=b"key", partition=0).offset == 0
        deliveries = [producer.send_soon(topic, b"%d" % number, partition=1) for number in range(1000)]
        producer.flush()
        assert [each.result().offset for each in deliveries] == list(range(1000))
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
            producer.send("not/allowed", b"")
    with SyncConsumer(peer.bootstrap, topics=[topic], group_id=group, auto_offset_reset="earliest") as consumer:
        assert len(list(islice(consumer, 1001))) == 1001
        consumer.commit()
    with SyncConsumer(peer.bootstrap, group_id=group) as consumer:
        partition = TopicPartition(topic, 1)
        assert (consumer.committed([partition])[partition] or (None,))[0] == 1000
        consumer.assign([partition])
        consumer.seek(partition, 990)
        assert [record.value for record in consumer.fetch(timeout_s=WITHIN_S)] == [b"%d" % n for n in range(990, 1000)]
        consumer.seek_to_beginning()
        assert consumer.fetch_arrow(timeout_s=WITHIN_S).num_rows > 0


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_arrow_tables_come_back_as_they_were_written(peer: ClientPeer, topic: str, compression: Any) -> None:
    partitions = await peer.create(topic, 3)
    rows = 3000
    table = pyarrow.table(
        {
            "key": [None if number % 5 == 0 else b"key-%d" % (number % 50) for number in range(rows)],
            "value": [None if number % 7 == 0 else b"value-%d" % number for number in range(rows)],
            "timestamp": [NOON_MS + number for number in range(rows)],
            "headers": [[{"key": "n", "value": b"%d" % number}] if number % 3 == 0 else [] for number in range(rows)],
            "partition": [number % 3 for number in range(rows)],
        }
    )
    async with Producer(peer.bootstrap, compression_type=compression) as producer:
        written = await producer.produce_arrow(topic, table)
    assert {each: [list(run) for run in runs] for each, runs in written.items()} == {
        each: [list(range(rows // 3))] for each in partitions
    }
    columns = ["key", "value", "timestamp", "headers", "partition", "offset"]
    tables = []
    async with Consumer(peer.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        with trio.fail_after(WITHIN_S):
            while sum(each.num_rows for each in tables) < rows:
                tables.append(await consumer.fetch_arrow(columns=columns))
    read = pyarrow.concat_tables(tables).sort_by([("offset", "ascending"), ("partition", "ascending")])
    for name in ("key", "value", "partition"):
        assert read.column(name).to_pylist() == table.column(name).to_pylist()
    records = await peer.read(partitions, rows)
    in_order = sorted(records, key=lambda record: (record.offset, record.partition))
    assert [record.timestamp_ms for record in in_order] == table.column("timestamp").to_pylist()
    assert [[*map(list, record.headers)] for record in in_order] == [
        [[header["key"], header["value"]] for header in of_row] for of_row in table.column("headers").to_pylist()
    ]
