"""Assignment changes: requested by a background task, applied by the task that polls."""

from collections.abc import Iterable, Mapping

import pytest
import trio
import trio.testing

from broker.client.consumer.group.assignment_changes import (
    AssignmentChange,
    AssignmentChanges,
    Partitions,
    RebalanceListener,
)
from broker.client.types import OffsetAndMetadata, TopicPartition
from tests.support.client_members import PollingState

A, B, C = (TopicPartition("a", index) for index in range(3))


class Recorder(RebalanceListener):
    """Records the steps of a change in order. A revocation waits for `blocks`, if it is set."""

    def __init__(self, owned: Iterable[TopicPartition] = (), listener_timeout_ms: float = 60_000) -> None:
        self.seen: list[tuple[str, list[TopicPartition]]] = []
        self.state = PollingState()
        self.state.assign_from_group(list(owned))
        self.changes = AssignmentChanges(self.state, self.commit, listener_timeout_ms)
        self.changes.listener = self
        self.error: Exception | None = None
        self.blocks: trio.Event | None = None

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        assert self.state.pending <= set(self.state.positions)
        self.seen.append(("committed", sorted(offsets)))

    async def on_revoked(self, partitions: Partitions) -> None:
        assert set(partitions) <= set(self.state.positions), "still owned while the listener runs"
        if self.blocks is not None:
            await self.blocks.wait()
        self.seen.append(("revoked", list(partitions)))
        if self.error is not None:
            raise self.error

    async def on_assigned(self, partitions: Partitions) -> None:
        assert set(partitions) <= set(self.state.positions), "owned already, so that the listener can seek"
        self.seen.append(("assigned", list(partitions)))

    async def request_and_apply(self, change: AssignmentChange) -> bool:
        """Request a change as the background task does, and apply it as the next poll does."""
        results: list[bool] = []

        async def request() -> None:
            results.append(await self.changes.request(change))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(request)
            await self.changes.wait_pending()
            await self.changes.apply()
        return results[0]


async def test_a_change_commits_then_revokes_then_assigns() -> None:
    recorder = Recorder([A, B])
    assert await recorder.request_and_apply(AssignmentChange(frozenset({B, C}), completes=True, commits=True))
    assert recorder.seen == [("committed", [A, B]), ("revoked", [A]), ("assigned", [C])]
    assert sorted(recorder.state.positions) == [B, C]


async def test_a_rebalance_that_changes_nothing_is_told_as_an_empty_assignment() -> None:
    recorder = Recorder([A])
    await recorder.request_and_apply(AssignmentChange(frozenset({A}), completes=True))
    assert recorder.seen == [("assigned", [])]


async def test_a_preparation_revokes_and_assigns_nothing() -> None:
    recorder = Recorder([A, B])
    await recorder.request_and_apply(AssignmentChange(commits=True))
    assert recorder.seen == [("committed", [A, B]), ("revoked", [A, B])]
    assert recorder.state.positions == {}


async def test_lost_partitions_are_neither_committed_nor_kept() -> None:
    recorder = Recorder([A])
    await recorder.request_and_apply(AssignmentChange(is_lost=True, commits=True))
    assert recorder.seen == [("revoked", [A])]  # on_lost calls on_revoked unless it is overridden
    assert recorder.state.positions == {}


async def test_a_listeners_error_is_raised_by_the_poll_and_the_rebalance_continues() -> None:
    recorder = Recorder([A, B])
    recorder.error = ValueError("of the application")
    applied: list[bool] = []

    async def request() -> None:
        applied.append(await recorder.changes.request(AssignmentChange(frozenset({B, C}), completes=True)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(request)
        await recorder.changes.wait_pending()
        with pytest.raises(ValueError, match="of the application"):
            await recorder.changes.apply()
    assert applied == [True]
    assert recorder.seen == [("revoked", [A]), ("assigned", [C])]
    assert sorted(recorder.state.positions) == [B, C]


async def test_a_cancelled_poll_does_not_interrupt_the_listener() -> None:
    recorder = Recorder([A])
    recorder.blocks = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.changes.request, AssignmentChange())
        await recorder.changes.wait_pending()
        with trio.CancelScope() as poll:
            poll.cancel()
            nursery.start_soon(release_soon, recorder.blocks)
            await recorder.changes.apply()
    assert recorder.seen == [("revoked", [A])]


async def release_soon(event: trio.Event) -> None:
    await trio.testing.wait_all_tasks_blocked()
    event.set()


async def test_a_listener_is_interrupted_when_the_member_is_out_of_the_group(autojump_clock: trio.abc.Clock) -> None:
    recorder = Recorder([A], listener_timeout_ms=5_000)
    recorder.blocks = trio.Event()
    assert await recorder.request_and_apply(AssignmentChange())
    assert trio.current_time() == pytest.approx(5.0, abs=0.1)
    assert recorder.state.positions == {}


async def test_a_change_that_no_poll_has_begun_with_can_be_withdrawn() -> None:
    recorder = Recorder([A])
    results: list[bool] = []

    async def request() -> None:
        results.append(await recorder.changes.request(AssignmentChange()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(request)
        await recorder.changes.wait_pending()
        recorder.changes.withdraw()
    await recorder.changes.apply()
    assert (results, recorder.seen, list(recorder.state.positions)) == ([False], [], [A])


async def test_change_that_arrives_while_partitions_are_given_up_as_lost_is_announced_to_the_next_poll() -> None:
    recorder = Recorder([A])
    recorder.blocks = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.changes.lose)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(recorder.changes.request, AssignmentChange(frozenset({B}), completes=True))
        nursery.start_soon(release_soon, recorder.blocks)
        with trio.fail_after(5):
            await recorder.changes.wait_pending()
        await recorder.changes.apply()
    assert recorder.seen == [("revoked", [A]), ("assigned", [B])]


async def test_a_listener_that_polls_does_not_wait_for_itself() -> None:
    recorder = Recorder([A])

    class Polling(RebalanceListener):
        async def on_revoked(self, partitions: Partitions) -> None:
            await recorder.changes.apply()
            await recorder.on_revoked(partitions)

    recorder.changes.listener = Polling()
    await recorder.request_and_apply(AssignmentChange())
    assert recorder.seen == [("revoked", [A])]
