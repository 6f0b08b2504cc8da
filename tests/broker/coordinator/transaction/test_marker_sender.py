"""The turns in which markers are sent: other tasks run between them, however many transactions end at once."""

from types import SimpleNamespace
from typing import Any

import trio

from broker.coordinator.runtime.transaction_marker import TransactionMarker
from broker.coordinator.transaction.marker_sender import MarkerSender, UnfinishedTransaction
from broker.net.completion import Completion
from broker.net.deadlines import Deadlines
from broker.wire.api.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.wire.errors import ErrorCode

LOCAL_ID, OTHER_ID = 1, 2
COUNT = 1_000
TURN_MAX = 32
REQUEST_MAX = 200


class Markers:
    """The partitions that have a marker, how many had one at each commit, and how many markers each request had.

    `leader` leads all partitions.
    """

    def __init__(self, leader: int = LOCAL_ID) -> None:
        self.leader = leader
        self.written: list[tuple[str, int]] = []
        self.commits: list[int] = []
        self.requests: list[int] = []

    def write(self, marker: TransactionMarker, place: tuple[str, int]) -> Completion[ErrorCode]:
        self.written.append(place)
        completion: Completion[ErrorCode] = Completion()
        completion.complete(ErrorCode.NONE)
        return completion

    async def call(self, broker_id: int, request: WriteTxnMarkersRequest, _version: int) -> WriteTxnMarkersResponse:
        assert broker_id == OTHER_ID
        places = [
            (each.name, index) for mark in request.markers for each in mark.topics for index in each.partition_indexes
        ]
        self.written += places
        self.requests.append(len(places))
        await trio.lowlevel.checkpoint()
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=mark.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=each.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(partition_index=index, error_code=0)
                                for index in each.partition_indexes
                            ],
                        )
                        for each in mark.topics
                    ],
                )
                for mark in request.markers
            ]
        )

    def commit(self) -> None:
        self.commits.append(len(self.written))

    def sender(self) -> MarkerSender:
        partition = SimpleNamespace(leader=self.leader)
        topic = SimpleNamespace(partitions=dict.fromkeys(range(COUNT), partition))
        image: Any = SimpleNamespace(topics=SimpleNamespace(by_name={"topic": topic}))
        partitions_and_brokers: Any = self
        return MarkerSender(
            LOCAL_ID,
            lambda: image,
            partitions_and_brokers,
            partitions_and_brokers,
            Deadlines(),
            self.commit,
            lambda kind, /, **fields: None,
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


async def test_requests_to_another_broker_are_bounded_in_markers() -> None:
    markers, completed = Markers(OTHER_ID), list[str]()
    transactions = [transaction(range(at, at + 1), completed, str(at)) for at in range(COUNT)]
    large = transaction(range(COUNT), completed, "large")
    await send_all(markers, [*transactions, large], completed)
    assert completed == [*(str(at) for at in range(COUNT)), "large"]
    assert sorted(markers.written) == sorted(2 * [("topic", index) for index in range(COUNT)])
    assert max(markers.requests) == REQUEST_MAX
    assert len(markers.requests) < 2 * COUNT / TURN_MAX
