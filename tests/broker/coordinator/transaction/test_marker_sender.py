"""The turns in which markers are sent: other tasks run between them, however many transactions end at once."""

from types import SimpleNamespace
from typing import Any

import trio

from broker.coordinator.runtime.transaction_marker import TransactionMarker
from broker.coordinator.transaction.marker_sender import MarkerSender, UnfinishedTransaction
from broker.net.completion import Completion
from broker.net.deadlines import Deadlines
from broker.wire.errors import ErrorCode

LOCAL_ID = 1
COUNT = 1_000
TURN_MAX = 32


class Markers:
    """The partitions that have a marker, and how many had one at each commit."""

    def __init__(self) -> None:
        self.written: list[tuple[str, int]] = []
        self.commits: list[int] = []

    def write(self, marker: TransactionMarker, place: tuple[str, int]) -> Completion[ErrorCode]:
        self.written.append(place)
        completion: Completion[ErrorCode] = Completion()
        completion.complete(ErrorCode.NONE)
        return completion

    def commit(self) -> None:
        self.commits.append(len(self.written))

    def sender(self) -> MarkerSender:
        partition = SimpleNamespace(leader=LOCAL_ID)
        topic = SimpleNamespace(partitions=dict.fromkeys(range(COUNT), partition))
        image: Any = SimpleNamespace(topics=SimpleNamespace(by_name={"topic": topic}))
        writer: Any = self
        connections: Any = None
        return MarkerSender(
            LOCAL_ID, lambda: image, writer, connections, Deadlines(), self.commit, lambda kind, /, **fields: None
        )


def transaction(partitions: range, completed: list[str], name: str) -> UnfinishedTransaction:
    return UnfinishedTransaction(
        name,
        TransactionMarker(1, 0, is_commit=True, coordinator_epoch=0, transaction_version=2),
        {("topic", index): None for index in partitions},
        is_current=lambda: True,
        completed=lambda: completed.append(name),
    )


async def send_all(markers: Markers, transactions: list[UnfinishedTransaction], completed: list[str]) -> set[int]:
    """Send the markers. Returns how many were written when another task ran."""
    sender = markers.sender()
    for each in transactions:
        sender.send(each)
    seen: set[int] = set()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sender.run)
            while len(completed) < len(transactions):
                await trio.lowlevel.checkpoint()
                seen.add(len(markers.written))
            nursery.cancel_scope.cancel()
    return seen


async def test_many_transactions_that_end_at_once_take_many_turns() -> None:
    markers, completed = Markers(), list[str]()
    transactions = [transaction(range(at, at + 1), completed, str(at)) for at in range(COUNT)]
    seen = await send_all(markers, transactions, completed)
    assert completed == [str(at) for at in range(COUNT)]
    assert len(seen) > 2
    turns = [later - earlier for earlier, later in zip([0, *markers.commits], markers.commits, strict=False)]
    assert max(turns) == TURN_MAX


async def test_transaction_with_many_partitions_takes_many_turns() -> None:
    markers, completed = Markers(), list[str]()
    seen = await send_all(markers, [transaction(range(COUNT), completed, "only")], completed)
    assert markers.written == [("topic", index) for index in range(COUNT)]
    assert len(seen) > 2
    turns = [later - earlier for earlier, later in zip([0, *markers.commits], markers.commits, strict=False)]
    assert max(turns) == TURN_MAX
