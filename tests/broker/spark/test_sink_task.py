"""The task of a sink, without Spark around it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from broker.client import NewTopic, SyncAdmin, SyncConsumer, SyncProducer, TopicPartition
from broker.spark.clients import ClientPool
from broker.spark.sink.columns import SinkColumns
from broker.spark.sink.task import write_batches
from tests.support.node_process import NodeProcess

COLUMNS = SinkColumns("rows", ("value", "partition"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path / "data")
    node.start()
    with SyncAdmin(node.bootstrap) as admin:
        admin.create_topics([NewTopic("rows", num_partitions=1)]).raise_first()
    yield node
    node.discard()


def batch(count: int) -> Any:
    return pa.record_batch({"value": [b"x" * 1_000] * count, "partition": pa.array([0] * count, pa.int32())})


def end_offset(servers: str) -> int:
    partition = TopicPartition("rows", 0)
    with SyncConsumer(servers) as consumer:
        return consumer.end_offsets([partition])[partition]


def test_all_rows_are_acknowledged_when_it_returns(node: NodeProcess) -> None:
    with SyncProducer(node.bootstrap) as producer:
        assert write_batches(iter([batch(0), batch(3_000), batch(0), batch(9_000)]), COLUMNS, producer) == 12_000
        assert end_offset(node.bootstrap) == 12_000
        assert write_batches(iter([]), COLUMNS, producer) == 0


def test_a_failing_query_does_not_wait_for_brokers_that_do_not_answer(node: NodeProcess) -> None:
    """Otherwise the pending write would take the delivery timeout of two minutes."""
    failed_at = 0.0

    def fail() -> Iterator[Any]:
        nonlocal failed_at
        yield batch(5_000)
        while end_offset(node.bootstrap) < 5_000:
            pass
        node.kill()
        yield batch(5_000)
        failed_at = time.monotonic()
        raise RuntimeError("the query's own mistake")

    with pytest.raises(RuntimeError, match="the query's own mistake"):
        write_batches(fail(), COLUMNS, SyncProducer(node.bootstrap))
    assert time.monotonic() - failed_at < 30


def test_a_pool_opens_another_producer_after_a_failure(node: NodeProcess) -> None:
    pool = ClientPool(lambda servers, keys: SyncProducer(servers, config=keys))
    settings = {"bootstrap.servers": node.bootstrap, "linger.ms": "0"}
    with pytest.raises(ZeroDivisionError), pool.lend(settings) as failed:
        raise ZeroDivisionError
    with pool.lend(settings) as producer:
        assert producer is not failed
        assert write_batches(iter([batch(1)]), COLUMNS, producer) == 1
    with pool.lend(settings) as same:
        assert same is producer
    pool.close_idle(idle_s=0)
