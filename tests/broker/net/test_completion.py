"""Completions, which are set once, and waiting requests, which have a deadline."""

from functools import partial
from itertools import pairwise

import pytest
import trio

from broker.net.completion import Completion, RequestWait
from broker.net.deadlines import Deadlines
from broker.net.reply import PendingReply


class ListedWait(RequestWait[str]):
    """A wait that is registered in one list."""

    def __init__(self, place: list[RequestWait[str]]) -> None:
        super().__init__()
        self._place = place
        place.append(self)

    def stop_waiting(self) -> None:
        self._place.remove(self)


class Replies:
    """Counts the notifications of a connection."""

    completed = 0

    def reply_completed(self) -> None:
        self.completed += 1


@pytest.fixture
async def deadlines(nursery: trio.Nursery) -> Deadlines:
    deadlines = Deadlines()
    nursery.start_soon(deadlines.run)
    return deadlines


def test_completion_keeps_its_first_outcome() -> None:
    outcomes: list[str] = []
    completion: Completion[str] = Completion()
    completion.then(outcomes.append)
    completion.complete("first")
    completion.complete("second")
    assert completion.outcome == "first"
    assert outcomes == ["first"]


def test_completion_calls_back_in_order_and_at_once_when_done() -> None:
    told: list[int] = []
    completion: Completion[str] = Completion()
    for number in range(3):
        completion.then(lambda _, number=number: told.append(number))  # type: ignore[misc]
    completion.complete("done")
    completion.then(lambda _: told.append(3))
    assert told == [0, 1, 2, 3]


def test_completion_that_others_wait_for_survives_its_client() -> None:
    outcomes: list[str] = []
    completion: Completion[str] = Completion()
    completion.then(outcomes.append)
    completion.abandon()
    completion.complete("done")
    assert outcomes == ["done"]


async def test_completion_is_awaited_in_a_task(nursery: trio.Nursery) -> None:
    completion: Completion[str] = Completion()

    async def complete() -> None:
        completion.complete("done")

    nursery.start_soon(complete)
    assert await completion.wait() == "done"
    assert await completion.wait() == "done"


async def test_request_wait_expires_once_its_time_is_over(
    deadlines: Deadlines, autojump_clock: trio.testing.MockClock
) -> None:
    place: list[RequestWait[str]] = []
    wait = ListedWait(place)
    began = trio.current_time()
    wait.expire_in(deadlines, 5, lambda: wait.complete("late"))
    assert await wait.wait() == "late"
    assert trio.current_time() - began == pytest.approx(5)
    assert place == []


@pytest.mark.parametrize("end", ["complete", "abandon"])
async def test_request_wait_ends_with_its_deadline_and_its_places(
    deadlines: Deadlines, autojump_clock: trio.testing.MockClock, end: str
) -> None:
    place: list[RequestWait[str]] = []
    expired: list[bool] = []
    outcomes: list[str] = []
    wait = ListedWait(place)
    wait.then(outcomes.append)
    wait.expire_in(deadlines, 5, lambda: expired.append(True))
    if end == "complete":
        wait.complete("done")
    else:
        wait.abandon()
        wait.complete("too late")
    await trio.sleep(10)
    assert wait.done
    assert place == []
    assert expired == []
    assert outcomes == (["done"] if end == "complete" else [])


def test_pending_reply_tells_its_connection_once() -> None:
    connection = Replies()
    pending = PendingReply(connection)
    pending.complete(b"frame")
    pending.complete(b"another")
    pending.abandon()
    assert (pending.outcome, connection.completed) == (b"frame", 1)


def test_pending_reply_abandons_its_work_with_the_connection() -> None:
    connection = Replies()
    place: list[RequestWait[str]] = []
    wait = ListedWait(place)
    pending = PendingReply(connection)
    pending.on_abandon = wait.abandon
    pending.abandon()
    pending.complete(b"too late")
    assert place == []
    assert connection.completed == 0


@pytest.mark.parametrize(("callback_ms", "at_once"), [(3, 1), (0.06, 4)])
def test_other_tasks_run_between_deadlines_that_are_due_at_once(callback_ms: float, at_once: int) -> None:
    """Coordinators have a timer for each of 50 partitions, all due at the same time, and an address that connects too
    often has 2,000 connections, which are closed at the same time.
    """
    clock, called = trio.testing.MockClock(), list[int]()
    seen_by_another_task: list[int] = [0]

    def take_time(number: int) -> None:
        called.append(number)
        clock.jump(callback_ms / 1000)

    async def run() -> None:
        deadlines = Deadlines()
        async with trio.open_nursery() as nursery:
            for number in range(60):
                deadlines.add(trio.current_time(), partial(take_time, number))
            nursery.start_soon(deadlines.run)
            while len(called) < 60:
                await trio.lowlevel.checkpoint()
                seen_by_another_task.append(len(called))
            nursery.cancel_scope.cancel()

    trio.run(run, clock=clock)
    assert called == list(range(60))
    # Trio may run the two tasks in either order in each pass.
    assert {later - seen for seen, later in pairwise(seen_by_another_task)} <= {0, at_once, 2 * at_once}
