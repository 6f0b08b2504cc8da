"""`kraft transactions` on a node: lists, descriptions, and hanging transactions that are found and aborted."""

import time
from collections.abc import Iterator

import pytest
import trio

from broker.cli.grammar import Exit
from broker.client import Producer
from tests.support.cluster_process import run_command
from tests.support.command_output import ask, succeed, table
from tests.support.hanging_transactions import HOUR_MS, hang_transaction
from tests.support.node_process import NodeProcess

VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture
def unverified(node: NodeProcess) -> Iterator[NodeProcess]:
    succeed("configs", "set", "broker", "default", f"{VERIFICATION}=false")
    yield node
    succeed("configs", "delete", "broker", "default", VERIFICATION)


def hang(node: NodeProcess, topic: str, producer_id: int) -> int:
    timestamp_ms = int(time.time() * 1000) - HOUR_MS

    async def write() -> int:
        return await hang_transaction(node.port, topic, producer_id, timestamp_ms=timestamp_ms)

    return trio.run(write)


def test_transactions_are_listed_described_and_terminated(node: NodeProcess) -> None:
    async def leave_open() -> None:
        async with Producer(node.bootstrap, transactional_id="cli-open") as producer:
            await producer.begin_transaction()
            await producer.send("listed", b"open", partition=0)
            await producer.prepare_transaction(allow_timeout=True)

    succeed("topics", "create", "listed", "--partitions", "1")
    trio.run(leave_open)
    (row,) = ask("transactions", "list", "--transactional-id-pattern", "cli-.*")
    assert (row["transactional_id"], row["coordinator"], row["state"]) == ("cli-open", 1, "Ongoing")
    assert ask("transactions", "list", "--state", "Ongoing", "--producer-id", str(row["producer_id"])) == [row]
    assert ask("transactions", "list", "--duration-filter", "3600000", "--state", "Ongoing") == []
    assert ask("transactions", "list", "--duration-filter", "1h", "--state", "Ongoing") == []
    assert ask("transactions", "list", "--state", "CompleteCommit", "--transactional-id-pattern", "cli-.*") == []

    (described,) = ask("transactions", "describe", "cli-open")
    assert described["partitions"] == ["listed-0"]
    assert described["start_ms"] is not None
    assert "partitions listed-0" in succeed("transactions", "describe", "--transactional-id", "cli-open")
    (producer,) = ask("transactions", "describe-producers", "--topic", "listed", "--partition", "0")
    assert (producer["producer_id"], producer["start_offset"]) == (row["producer_id"], 0)

    assert succeed("transactions", "terminate", "cli-open") == "Terminated the transaction of cli-open.\n"
    (producer,) = ask("transactions", "describe-producers", "--topic", "listed", "--partition", "0")
    assert producer["start_offset"] is None


def test_a_hanging_transaction_is_found_and_aborted_by_its_start_offset(unverified: NodeProcess) -> None:
    succeed("topics", "create", "hanging", "--partitions", "2")
    offset = hang(unverified, "hanging", 900_001)
    found = ask("transactions", "find-hanging", "--topic", "hanging")
    assert [(each["partition"], each["producer_id"], each["start_offset"]) for each in found] == [(0, 900_001, offset)]
    assert ask("transactions", "find-hanging", "--broker-id", "1") == found
    assert ask("transactions", "find-hanging") == found
    assert ask("transactions", "find-hanging", "--topic", "hanging", "--partition", "1") == []
    assert ask("transactions", "find-hanging", "--topic", "hanging", "--max-transaction-timeout", "61") == []
    printed = succeed("transactions", "find-hanging", "--topic", "hanging", "--max-transaction-timeout", "59m")
    assert table(printed)[1][:4] == ["hanging", "0", str(offset), "900001"]
    ending = f"kraft transactions abort --topic hanging --partition 0 --start-offset {offset}"
    assert printed.endswith(f"To end it: {ending}\n")

    abort = ("transactions", "abort", "--topic", "hanging", "--partition", "0")
    missing = run_command(*abort, "--start-offset", "77")
    assert missing.code == Exit.NOT_FOUND
    assert "No open transaction starts at offset 77" in missing.errors
    assert (
        succeed(*abort, "--start-offset", str(offset)) == "Aborted the transaction of producer 900001 in hanging-0.\n"
    )
    assert succeed("transactions", "find-hanging", "--topic", "hanging") == "No transaction hangs.\n"


def test_a_hanging_transaction_is_aborted_by_its_epochs(unverified: NodeProcess) -> None:
    succeed("topics", "create", "named", "--partitions", "1")
    hang(unverified, "named", 900_002)
    named = ("--producer-id", "900002", "--producer-epoch", "0", "--coordinator-epoch", "-1")
    done = ask("transactions", "abort", "--topic", "named", "--partition", "0", *named)
    assert done == [{"topic": "named", "partition": 0, "producer_id": 900_002, "producer_epoch": 0}]
    assert ask("transactions", "find-hanging", "--topic", "named") == []
    again = run_command("transactions", "abort", "--topic", "named", "--partition", "0", *named)
    assert (again.code, again.output) == (Exit.NOT_FOUND, "")
    assert "Producer 900002 has no open transaction in named-0; nothing was aborted" in again.errors


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["describe"], Exit.USAGE, "Name a transactional id"),
        (["describe", "nobody"], Exit.NOT_FOUND, "`kraft transactions list` shows"),
        (["find-hanging", "--partition", "0", "--broker-id", "1"], Exit.USAGE, "--partition needs --topic"),
        (["find-hanging", "--topic", "absent"], Exit.NOT_FOUND, "kraft topics list"),
        (["abort", "--topic", "t", "--partition", "0"], Exit.USAGE, "Give --start-offset"),
        (["list", "--state", "Nonsense"], Exit.FAILED, "does not know the state Nonsense"),
        (["list", "--transactional-id-pattern", "("], Exit.FAILED, "INVALID_REGULAR_EXPRESSION"),
    ],
)
def test_wrong_arguments_are_refused_with_a_message(
    node: NodeProcess, arguments: list[str], code: Exit, message: str
) -> None:
    answer = run_command("transactions", *arguments)
    assert answer.code == code, answer.errors
    assert message in answer.errors
