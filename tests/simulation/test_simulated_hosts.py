"""Processes on simulated hosts: started, killed, paused, and ending by themselves."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest
import trio
import trio.testing

from broker.client.admin import Admin
from broker.client.errors import ClientError
from jepsen.simulation import Event, Host, Simulation
from jepsen.simulation.clock import Deadlock
from jepsen.simulation.scheduling import Livelock, ThreadStarted
from kraft.env import Env


class Ticking:
    """A process that traces a tick every second, and tries to continue when it is cancelled."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._stop = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tick)
                task_status.started()
                await self._stop.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._env.trace("unwinding")

    def stop(self) -> None:
        self._stop.set()

    async def _tick(self) -> None:
        while True:
            await trio.sleep(1)
            self._env.trace("tick", wall=self._env.wall())


class Dying(Ticking):
    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep(1)
        raise LookupError("a bug")


def events_of(main: Callable[[Simulation, Host, trio.Nursery], Awaitable[None]]) -> list[Event]:
    simulation = Simulation("test")
    host = simulation.add_host("one")
    events: list[Event] = []
    simulation.trace.listeners.append(events.append)

    async def in_nursery() -> None:
        async with trio.open_nursery() as nursery:
            await main(simulation, host, nursery)

    simulation.run(in_nursery)
    return events


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_a_process_runs_until_it_is_stopped() -> None:
    async def main(simulation: Simulation, host: Host, nursery: trio.Nursery) -> None:
        host.start(nursery, Ticking)
        await trio.sleep(2.5)
        assert host.is_serving
        host.stop()
        await host.ended.wait()
        assert not host.is_serving
        assert host.cause is None

    assert kinds(events_of(main)) == ["process_started", "tick", "tick", "unwinding", "process_ended"]


def test_killed_process_reaches_nothing() -> None:
    async def main(simulation: Simulation, host: Host, nursery: trio.Nursery) -> None:
        host.start(nursery, Ticking)
        await trio.sleep(1.5)
        host.kill()
        await trio.sleep(3)
        host.start(nursery, Ticking)
        await trio.sleep(1.5)
        host.power_cut()

    started_and_killed = ["process_started", "tick", "process_killed"]
    assert kinds(events_of(main)) == [*started_and_killed, "process_started", "tick", "power_cut"]


def test_a_process_that_is_killed_as_it_starts_never_runs() -> None:
    async def main(simulation: Simulation, host: Host, nursery: trio.Nursery) -> None:
        def kill(event: Event) -> None:
            if event.kind == "process_started":
                host.kill()

        simulation.trace.listeners.append(kill)
        host.start(nursery, Ticking)
        assert host.ended.is_set()
        await trio.sleep(5)

    assert "tick" not in kinds(events_of(main))


def test_a_paused_process_does_nothing_and_its_timers_fire_late() -> None:
    async def main(simulation: Simulation, host: Host, nursery: trio.Nursery) -> None:
        host.start(nursery, Ticking)
        await trio.sleep(1.5)
        host.pause()
        await trio.sleep(10)
        host.resume()
        await trio.sleep(1.2)
        host.kill()

    ticks = [event.time for event in events_of(main) if event.kind == "tick"]
    assert ticks == pytest.approx([1.0, 11.5, 12.5])


def test_a_process_that_dies_says_of_what() -> None:
    async def main(simulation: Simulation, host: Host, nursery: trio.Nursery) -> None:
        host.start(nursery, Dying)
        await host.ended.wait()

    ended = events_of(main)[-1]
    assert (ended.kind, ended.fields["errors"]) == ("process_ended", ["LookupError"])


def test_wall_clocks_differ_from_time() -> None:
    async def main(simulation: Simulation, host: Host, nursery: trio.Nursery) -> None:
        host.start(nursery, Ticking)
        await trio.sleep(1.5)
        host.wall_offset_s = -1000.0
        await trio.sleep(1)
        host.kill()

    first, second = (event.fields["wall"] for event in events_of(main) if event.kind == "tick")
    assert isinstance(first, float)
    assert second == pytest.approx(first + 1 - 1000)


def test_threads_are_refused() -> None:
    async def main(simulation: Simulation, host: Host, nursery: trio.Nursery) -> None:
        with pytest.raises(ThreadStarted):
            await trio.to_thread.run_sync(int)

    events_of(main)


def test_running_for_ever_is_noticed() -> None:
    async def main(simulation: Simulation, host: Host, nursery: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.checkpoint()

    with pytest.raises(Livelock):
        events_of(main)


def test_a_task_that_yields_runs_on_only_if_no_other_task_can_run() -> None:
    """A round of Trio's loop for the same task alone would change nothing."""
    order: list[str] = []

    async def take_turns(name: str) -> None:
        for _ in range(3):
            order.append(name)
            await trio.lowlevel.checkpoint()

    async def main(simulation: Simulation, host: Host, nursery: trio.Nursery) -> None:
        steps = simulation.trace.steps
        await take_turns("alone")
        assert simulation.trace.steps == steps
        async with trio.open_nursery() as together:
            together.start_soon(take_turns, "one")
            together.start_soon(take_turns, "other")

    events_of(main)
    assert order[:3] == ["alone"] * 3
    assert [sorted(order[at : at + 2]) for at in (3, 5, 7)] == [["one", "other"]] * 3


def test_a_task_that_pauses_its_own_host_does_not_run_on() -> None:
    async def pause_itself(host: Host) -> None:
        host.pause()
        await trio.lowlevel.checkpoint()
        assert not host.is_paused

    async def main(simulation: Simulation, host: Host, nursery: trio.Nursery) -> None:
        async with trio.open_nursery() as together:
            together.start_soon(simulation.on, host, pause_itself, host)
            await trio.sleep(1)
            host.resume()

    events_of(main)


def test_waiting_for_ever_is_noticed() -> None:
    async def main(simulation: Simulation, host: Host, nursery: trio.Nursery) -> None:
        await trio.sleep_forever()

    with pytest.raises(Deadlock):
        events_of(main)


async def test_threads_work_again_afterwards() -> None:
    assert await trio.to_thread.run_sync(int) == 0


def test_warnings_of_clients_are_in_the_trace_and_nowhere_else(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were printed among the results of simulated runs."""
    simulation = Simulation("test")
    client = simulation.add_host("client")
    simulation.add_host("silent")

    async def call() -> None:
        with suppress(ClientError):
            async with Admin("silent:9092") as admin:
                await admin.describe_cluster(timeout_ms=500)

    simulation.run(partial(simulation.on, client, call))
    logged = [event for event in simulation.trace.tail if event.kind == "client_logged"]
    assert [event.host for event in logged] == ["client"]
    assert "bootstrap server silent:9092 cannot be reached" in str(logged[0].fields["text"])
    assert caplog.records == []
    assert capsys.readouterr() == ("", "")


async def deadlines_met() -> list[tuple[str, float]]:
    """The times at which scopes are cancelled whose deadlines are set before, in and after other scopes."""
    met: list[tuple[str, float]] = []
    began = trio.current_time()

    def note(name: str, scope: trio.CancelScope) -> None:
        met.append((f"{name} {scope.cancelled_caught}", round(trio.current_time() - began, 6)))

    with trio.move_on_after(1) as before:
        await trio.sleep_forever()
    note("before", before)
    with trio.CancelScope() as within:
        within.deadline = trio.current_time() + 5
        within.deadline -= 3
        await trio.sleep_forever()
    note("within", within)
    with trio.move_on_after(1) as outer, trio.move_on_after(4, shield=True) as shielded:
        await trio.sleep_forever()
    note("shielded", shielded)
    note("outer", outer)
    with trio.move_on_after(3) as late:
        late.deadline = float("inf")
        await trio.sleep(7)
    note("late", late)
    with trio.move_on_at(trio.current_time() - 1) as past:
        await trio.lowlevel.checkpoint()
    note("past", past)
    with trio.move_on_after(1) as inner, trio.CancelScope() as cancelled:
        cancelled.cancel()
        await trio.sleep(2)
    note("cancelled", cancelled)
    note("inner", inner)
    return met


def test_deadlines_are_met_as_in_a_loop_of_trio() -> None:
    expected = trio.run(deadlines_met, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [name for name, _ in expected if name.endswith("True")] == [
        "before True",
        "within True",
        "shielded True",
        "past True",
        "cancelled True",
    ]
    assert Simulation("1").run(deadlines_met) == expected
    assert trio.run(deadlines_met, clock=trio.testing.MockClock(autojump_threshold=0)) == expected


def test_a_task_that_waits_for_another_framework_gets_trios_error() -> None:
    class Foreign:
        def __await__(self) -> Iterator[str]:
            yield "a future"

    async def main(simulation: Simulation, host: Host, nursery: trio.Nursery) -> None:
        with pytest.raises(TypeError, match="a future"):
            await Foreign()

    events_of(main)
