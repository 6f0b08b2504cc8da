"""The time for which requests use the event loop is measured if a client has a request quota."""

from collections.abc import Generator
from functools import partial
from math import inf
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio
import trio.lowlevel
import trio.testing
from trio.testing import MockClock

from broker.net.connection import Connection, ProtocolError, Sender
from broker.net.connection_scheduler import ConnectionScheduler
from broker.net.deadlines import Deadlines
from broker.server.quotas import Allowance, Charging, Usage
from broker.server.scheduler import Scheduler
from broker.server.session import HeldTime, Session
from broker.server.shortcut_tables import ShortcutTables
from broker.server.slices import SLICE_S, SLICE_STEPS, advance


@attrs.define
class Times:
    """Quotas that record the reported times: those before a response, and all others."""

    before: list[float] = attrs.field(factory=list)
    after: list[float] = attrs.field(factory=list)
    needs_times: bool = True
    held: HeldTime = attrs.field(factory=HeldTime)

    def charge(self, usage: Usage, held_s: float) -> int:
        self.before.append(held_s)
        return 0

    def charge_time(self, session: Session, client_id: str | None, held_s: float) -> None:
        self.after.append(held_s)

    def allowance(self, session: Session, client_id: str | None, api_key: int) -> Allowance:
        return Allowance()

    def held_time(self, session: Session, client_id: str | None) -> HeldTime | None:
        return self.held

    def fetched_bytes_max(self, session: Session, client_id: str | None) -> float:
        return inf


@pytest.fixture
def session() -> Session:
    return Session.authenticated("User:alice", "127.0.0.1", "PLAINTEXT", ShortcutTables())


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


class Service:
    """A request takes as many tenths of a millisecond as its second byte says. Each client has one of the sessions."""

    def __init__(self, clock: MockClock, sessions: list[Session]) -> None:
        self._clock = clock
        self._sessions = sessions

    def open_session(self, connection: Connection) -> Session:
        return self._sessions.pop(0)

    def serve(self, connection: Connection, start: int, end: int) -> None:
        self._clock.jump(connection.buffer.data[start + 1] / 10_000)

    def sender_of(self, connection: Connection, start: int, end: int) -> Sender:
        """Anyone may send any request."""
        return Sender.ANYONE

    def check_size(self, connection: Connection, api_key: int, size: int) -> None: ...


class Turns:
    """The turns of three connections, the first two of clients with request quotas. A commit takes 1000 s."""

    def __init__(self, clock: MockClock) -> None:
        self.sessions = [
            Session.authenticated(f"User:{name}", "127.0.0.1", "PLAINTEXT", ShortcutTables()) for name in "abc"
        ]
        for session in self.sessions[:2]:
            session.held_time = HeldTime()
        self.clock = clock
        self.charging = Charging(Times(), Deadlines())
        self._scheduler = ConnectionScheduler(lambda: clock.jump(1000) is None)
        self._scheduler.meter = self.charging
        service = Service(clock, list(self.sessions))
        self._connections = [
            Connection(service, self._scheduler.run, lambda _: None, request_size_max=9, peer_host="", listener="")
            for _ in self.sessions
        ]

    def run(self, *requests: tuple[int, ...]) -> None:
        """A turn with requests of each connection, which take so many tenths of a millisecond."""
        for connection, times in zip(self._connections, requests, strict=False):
            data = b"".join(b"\0\0\0\2\0" + bytes([each]) for each in times)
            connection.receive_space()[: len(data)] = data
            connection.received(len(data))
            if data:
                self._scheduler.add(connection)
        self._scheduler.run_all()
        self.clock.jump(100)

    @property
    def held_ms(self) -> list[float | None]:
        """The clients' times in ms."""
        times = (session.held_time for session in self.sessions)
        return [time and round(time.seconds * 1000, 6) for time in times]


async def test_requests_by_shortcut_are_measured_by_connection(mock_clock: MockClock) -> None:
    turns = Turns(mock_clock)
    turns.run((1, 2), (5,), (7,))
    assert turns.held_ms == [0.3, 0.5, None]
    assert turns.charging.begin() is None, "between turns nothing is measured"


async def test_all_turns_are_measured_while_clients_are_charged(mock_clock: MockClock) -> None:
    turns = Turns(mock_clock)
    usage = Usage(turns.sessions[2], "app", 3, 9, 100)
    for _ in range(100):
        turns.run((1,), (20,))
        turns.charging.charge(usage)
    assert turns.held_ms[:2] == [10, 200]


async def test_sample_of_turns_stands_for_all_if_clients_alternate(mock_clock: MockClock) -> None:
    turns = Turns(mock_clock)
    for _ in range(970):
        turns.run((1,))
        turns.run((), (2,))
        turns.run((), (), (3,))
        turns.run()
    held_ms = turns.held_ms
    assert held_ms == [pytest.approx(97, rel=0.04), pytest.approx(194, rel=0.04), None]


async def test_long_request_in_a_measured_turn_counts_once(mock_clock: MockClock) -> None:
    turns = Turns(mock_clock)
    for _ in range(19):
        turns.run((100 if turns.charging.turns_to_skip == 0 else 1,))
    long_ms, weight, weighted_ms_max = 10, 17, 1
    assert turns.held_ms == [2 * long_ms + weight * weighted_ms_max, 0, None]


async def test_slices_of_long_work_are_charged_and_the_pauses_between_are_not(
    mock_clock: MockClock, session: Session, nursery: trio.Nursery
) -> None:
    times = Times()
    charging = Charging(times, Deadlines())
    request: Any = SimpleNamespace(timed_call=partial(charging.timed_call, session))
    scheduler = Scheduler(nursery, lambda: None, lambda session, error: ProtocolError())

    async def hold_the_slice() -> None:
        async with scheduler.slice:
            mock_clock.jump(50)
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(50)

    nursery.start_soon(hold_the_slice)
    await trio.lowlevel.checkpoint()
    short_s = SLICE_S / 2
    assert await scheduler.finish(steps(mock_clock, short_s, 3), request) == "done"
    assert times.after == [pytest.approx(short_s + 3), 1]


async def test_slice_ends_with_its_first_step_if_that_takes_as_long(mock_clock: MockClock) -> None:
    began = trio.current_time()
    assert advance(steps(mock_clock, SLICE_S, 3), SLICE_STEPS) is None
    assert trio.current_time() - began == pytest.approx(SLICE_S)


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


async def test_coroutine_of_a_handler_is_charged_for_the_time_between_its_waits(
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
