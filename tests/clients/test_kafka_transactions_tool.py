"""Apache Kafka's own kafka-transactions.sh and ours on our node: the same hanging transactions found and aborted."""

import re
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import trio

from benchmarks import apache_kafka
from broker.client import Admin, NewTopic, Producer
from tests.support.hanging_transactions import HOUR_MS, hang_transaction
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

_KAFKAS = "kafka's"
_MAIN = "org.apache.kafka.tools.TransactionsCommand"
_OUTPUT = {
    "list": ["TransactionalId Coordinator ProducerId TransactionState", "open 1 ID Ongoing"],
    "find": [
        "Topic Partition ProducerId ProducerEpoch CoordinatorEpoch StartOffset LastTimestamp Duration(min)",
        "orders 0 900001 0 -1 0 TIME 60",
        "orders 1 900002 0 -1 0 TIME 60",
    ],
    "producers": [
        "ProducerId ProducerEpoch LatestCoordinatorEpoch LastSequence LastTimestamp CurrentTransactionStartOffset",
        "900001 0 -1 0 TIME 0",
    ],
}


async def prepare(node: NodeProcess) -> None:
    """Two hanging transactions, and one that its coordinator knows."""
    async with Admin(node.bootstrap) as admin:
        (await admin.create_topics([NewTopic("orders", 3)])).raise_first()
    async with Producer(node.bootstrap, transactional_id="open") as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"open", partition=2)
        await producer.prepare_transaction(allow_timeout=True)
    timestamp_ms = int(time.time() * 1000) - HOUR_MS
    for index in range(2):
        await hang_transaction(node.port, "orders", 900_001 + index, timestamp_ms=timestamp_ms, index=index)


@pytest.mark.parametrize("tool", ["ours", _KAFKAS])
def test_hanging_transactions_are_found_and_aborted_by_either_tool(
    tool: str, new_node: Callable[..., NodeProcess], full: bool, request: pytest.FixtureRequest
) -> None:
    if tool == _KAFKAS:
        if not full:
            pytest.skip("eight JVMs take a while: --full starts them")
        request.getfixturevalue("kafka_jars")
    node = new_node(transaction_partition_verification_enable="false", transaction_state_log_num_partitions="1")
    node.start()
    trio.run(prepare, node)

    def run(*words: str, expected: int = 0) -> list[str]:
        options = ["--bootstrap-server", node.bootstrap, *words]
        own = [sys.executable, "-m", "broker.cli.kafka_tools", "kafka-transactions", *options]
        line = apache_kafka.java(_MAIN, *options) if tool == _KAFKAS else own
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == expected, done.stdout + done.stderr
        rows = [" ".join(row.split()) for row in done.stdout.splitlines()]
        return [rows[0], *sorted(rows[1:])] if rows else []

    def shown(*words: str) -> list[str]:
        return [re.sub(r"\b\d{13}\b", "TIME", row) for row in run(*words)]

    assert [re.sub(r" \d+ Ongoing", " ID Ongoing", row) for row in run("list")] == _OUTPUT["list"]
    assert run("list", "--duration-filter", "3600000") == _OUTPUT["list"][:1]
    assert shown("describe-producers", "--topic", "orders", "--partition", "0") == _OUTPUT["producers"]
    assert shown("find-hanging", "--topic", "orders") == _OUTPUT["find"]
    assert run("abort", "--topic", "orders", "--partition", "0", "--start-offset", "0") == []
    named = ("--producer-id", "900002", "--producer-epoch", "0", "--coordinator-epoch", "-1")
    assert run("abort", "--topic", "orders", "--partition", "1", *named) == []
    assert shown("find-hanging", "--broker-id", "1") == _OUTPUT["find"][:1]
    assert run("abort", "--topic", "orders", "--partition", "0", "--start-offset", "0", expected=1) == []
    node.stop()
