"""kafka-transactions: lists, descriptions, hanging transactions that are found and aborted."""

import re
import time
from pathlib import Path

import pytest

from broker.cli.kafka_tools.tools import run_tool
from broker.client import Producer
from tests.support.hanging_transactions import HOUR_MS, hang_transaction
from tests.support.kafka_tools import Tools, tools_of_a_node

Capture = pytest.CaptureFixture[str]
NAME = "kafka-transactions"


async def rows(tools: Tools, *arguments: str) -> list[list[str]]:
    """The cells of a table, without its headings."""
    lines = await tools.lines(NAME, *arguments)
    return [[cell.strip() for cell in line.split("\t")[:-1]] for line in lines[1:]]


async def test_transactions_are_listed_described_and_terminated(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        await tools.run("kafka-topics", "--create", "--topic", "orders", "--partitions", "1")
        assert await tools.lines(NAME, "list") == ["TransactionalId\tCoordinator\tProducerId\tTransactionState\t"]
        async with Producer(tools.bootstrap, transactional_id="open") as producer:
            await producer.begin_transaction()
            await producer.send("orders", b"open", partition=0)
            await producer.prepare_transaction(allow_timeout=True)
        ((name, coordinator, producer_id, state),) = await rows(tools, "list", "--transactional-id-pattern", "o.*")
        assert (name, coordinator, state) == ("open", "1", "Ongoing")
        assert await rows(tools, "list", "--duration-filter", "3600000") == []
        assert len(await rows(tools, "list", "--duration-filter=-1")) == 1

        ((coordinator, name, *described),) = await rows(tools, "describe", "--transactional-id", "open")
        assert (coordinator, name, described[0], described[1]) == ("1", "open", producer_id, "0")
        assert (described[2], described[3], described[6]) == ("Ongoing", "60000", "orders-0")
        where = ("--topic", "orders", "--partition", "0")
        ((*_, start),) = await rows(tools, "describe-producers", *where)
        assert start == "0"
        assert await tools.lines(NAME, "forceTerminateTransaction", "--transactionalId", "open") == []
        ((*_, start),) = await rows(tools, "describe-producers", *where, "--broker-id", "1")
        assert start == "None"
        _, errors = await tools.run(NAME, "describe", "--transactional-id", "absent", expected=1)
        assert errors.startswith("Failed to describe transaction state of transactional-id `absent`: ")


async def test_hanging_transactions_are_found_and_aborted(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys, transaction_partition_verification_enable="false") as tools:
        await tools.run("kafka-topics", "--create", "--topic", "orders", "--partitions", "2")
        timestamp_ms, port = int(time.time() * 1000) - HOUR_MS, int(tools.bootstrap.rpartition(":")[2])
        for index in range(2):
            await hang_transaction(port, "orders", 70 + index, timestamp_ms=timestamp_ms, index=index)
        found = await rows(tools, "find-hanging", "--topic", "orders", "--partition", "0")
        assert found == [["orders", "0", "70", "0", "-1", "0", str(timestamp_ms), "60"]]
        assert len(await rows(tools, "find-hanging", "--broker-id", "1")) == 2
        assert await rows(tools, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "61") == []

        abort = ("abort", "--topic", "orders", "--partition")
        assert await tools.lines(NAME, *abort, "0", "--start-offset", "0") == []
        epochs = ("--producer-epoch", "0", "--coordinator-epoch", "-1")
        assert await tools.lines(NAME, *abort, "1", "--producer-id", "71", *epochs) == []
        assert await rows(tools, "find-hanging", "--topic", "orders") == []
        _, errors = await tools.run(NAME, *abort, "0", "--start-offset", "9", expected=1)
        assert errors == "Could not find any open transactions starting at offset 9 on partition orders-0\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "error: the following arguments are required: --bootstrap-server"),
        ("--bootstrap-server b:1", "too few arguments"),
        ("--bootstrap-server b:1 lst", "invalid choice: 'lst'"),
        ("--bootstrap-server b:1 describe", "arguments are required: --transactional-id"),
        ("--bootstrap-server b:1 find-hanging", "requires either --topic or --broker-id"),
        ("--bootstrap-server b:1 find-hanging --broker-id 1 --partition 0", "--partition argument requires --topic"),
        ("--bootstrap-server b:1 abort --topic t --partition 0", "must be identified either with --start-offset"),
        ("--bootstrap-server b:1 abort --topic t --partition 0 --producer-id 1", "argument --producer-epoch"),
        ("--bootstrap-server b:1 abort --topic t --partition 0 --producer-epoch 99999", "--producer-epoch: invalid"),
    ],
)
async def test_wrong_options_are_refused(words: str, message: str, capsys: Capture) -> None:
    assert await run_tool(NAME, words.split()) == 1
    assert re.search(re.escape(message), capsys.readouterr().err)
