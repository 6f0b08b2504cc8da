"""Schedules of delayed requests that break transactions, unless each transaction has an epoch of its own (KIP-890)."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from tests.simulation.scripted_transactions import ScriptedTransactions, play

Script = Callable[[ScriptedTransactions], Awaitable[None]]
LATE_SECONDS = 5.0


async def delayed_commit_meets_the_next_transaction_kafka_17754(stage: ScriptedTransactions) -> None:
    """The commit of a transaction is delayed on one connection, and repeated on another. The next transaction has
    written its first record when the delayed commit arrives, and is aborted.
    """
    connection = await stage.connect()
    stage.begin("t1")
    await stage.write("t1", 0)
    await stage.write("t1", 1)
    await stage.send_late(connection, stage.end_request(is_commit=True), stage.versions.end, LATE_SECONDS)
    await stage.end("t1", is_commit=True)
    stage.begin("t2")
    await stage.write("t2", 0)
    await trio.sleep(2 * LATE_SECONDS)
    await stage.write("t2", 1)
    await stage.end("t2", is_commit=False)


async def delayed_abort_meets_the_next_transaction_kafka_17754(stage: ScriptedTransactions) -> None:
    """As above with an abort that is delayed, and a next transaction that is committed: half of it is lost."""
    connection = await stage.connect()
    stage.begin("t1")
    await stage.write("t1", 0)
    await stage.send_late(connection, stage.end_request(is_commit=False), stage.versions.end, LATE_SECONDS)
    await stage.end("t1", is_commit=False)
    stage.begin("t2")
    await stage.write("t2", 0)
    await trio.sleep(2 * LATE_SECONDS)
    await stage.write("t2", 1)
    await stage.end("t2", is_commit=True)


@pytest.mark.parametrize(
    ("script", "level", "broken"),
    [
        pytest.param(delayed_commit_meets_the_next_transaction_kafka_17754, 2, None, id="commit-level-2"),
        pytest.param(
            delayed_commit_meets_the_next_transaction_kafka_17754,
            0,
            "NothingAbortedIsRead",
            id="commit-level-0",
        ),
        pytest.param(delayed_abort_meets_the_next_transaction_kafka_17754, 2, None, id="abort-level-2"),
        pytest.param(
            delayed_abort_meets_the_next_transaction_kafka_17754,
            0,
            "TransactionsAreAtomic",
            id="abort-level-0",
        ),
    ],
)
def test_delayed_end_of_a_transaction_harms_the_next_one_only_without_its_own_epoch_kafka_17754(
    script: Script, level: int, broken: str | None
) -> None:
    violation = play(script, level).violation
    assert (None if violation is None else violation.partition(":")[0]) == broken
