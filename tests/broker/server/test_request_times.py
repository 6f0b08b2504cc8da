"""The time for which requests use the event loop is measured if a client has a request quota."""

from collections.abc import Generator
from math import inf

import attrs
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from broker.net.deadlines import Deadlines
from broker.server.quotas import Allowance, Charging, Usage
from broker.server.session import Session
from broker.server.shortcut_tables import ShortcutTables


@attrs.define
class Times:
    """Quotas that record the reported times: those before a response, and all others."""

    before: list[float] = attrs.field(factory=list)
    after: list[float] = attrs.field(factory=list)
    needs_times: bool = True

    def charge(self, usage: Usage, held_s: float) -> int:
        self.before.append(held_s)
        return 0

    def charge_time(self, session: Session, client_id: str | None, held_s: float) -> None:
        self.after.append(held_s)

    def allowance(self, session: Session, client_id: str | None, api_key: int) -> Allowance:
        return Allowance()

    def fetched_bytes_max(self, session: Session, client_id: str | None) -> float:
        return inf


@pytest.fixture
def session() -> Session:
    return Session("User:alice", "127.0.0.1", "PLAINTEXT", ShortcutTables())


def steps(clock: MockClock, *durations_s: float) -> Generator[None, None, str]:
    for duration_s in durations_s:
        clock.jump(duration_s)
        yield
    clock.jump(1)
    return "done"


async def test_time_is_charged_up_to_the_answer_and_after_it(mock_clock: MockClock, session: Session) -> None:
    times = Times()
    charging = Charging(times, Deadlines())
    outer_s = charging.begin()
    mock_clock.jump(2)
    charging.charge(Usage(session, "app", 3, 9, 100))
    mock_clock.jump(5)
    charging.end(session, outer_s)
    mock_clock.jump(50)
    charging.charge(Usage(session, "app", 3, 9, 100))
    assert (times.before, times.after) == ([2, 0], [5])


async def test_each_step_of_long_work_is_charged_and_the_pauses_between_are_not(
    mock_clock: MockClock, session: Session
) -> None:
    times = Times()
    work = Charging(times, Deadlines()).timed(session, steps(mock_clock, 2, 3))
    for _ in range(2):
        next(work)
        mock_clock.jump(50)
    with pytest.raises(StopIteration, match="done"):
        next(work)
    assert times.after == [2, 3, 1]


async def test_steps_that_are_taken_at_once_are_counted_once(mock_clock: MockClock, session: Session) -> None:
    times = Times()
    charging = Charging(times, Deadlines())
    outer_s = charging.begin()
    work = charging.timed(session, steps(mock_clock, 2, 3))
    next(work)
    next(work)
    mock_clock.jump(7)
    charging.end(session, outer_s)
    work.close()
    assert times.after == [2, 3, 7]


async def test_completing_a_reply_within_the_request_of_another_client_is_charged_to_its_own_client(
    mock_clock: MockClock, session: Session
) -> None:
    """A fetch that waits is answered from within the produce request that brings its records."""
    times = Times()
    charging = Charging(times, Deadlines())
    outer_s = charging.begin()
    mock_clock.jump(2)
    charging.timed_call(session, lambda: mock_clock.jump(10))
    mock_clock.jump(3)
    charging.end(session, outer_s)
    mock_clock.jump(50)
    assert times.after == [10, 5]


async def test_deferred_handler_is_charged_for_the_time_between_its_waits(
    mock_clock: MockClock, session: Session
) -> None:
    times = Times()

    async def handle() -> str:
        mock_clock.jump(2)
        await trio.lowlevel.checkpoint()
        mock_clock.jump(3)
        with pytest.raises(trio.TooSlowError):
            with trio.fail_after(0):
                await trio.sleep_forever()
        mock_clock.jump(4)
        return "done"

    assert await Charging(times, Deadlines()).timed_task(session, handle()) == "done"
    assert times.after == [2, 3, 4]
