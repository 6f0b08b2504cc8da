"""One run of an application with one seed."""

import gc
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import trio

from broker.client import ClientError, KafkaError
from jepsen.simulation.applications.directories import Directories
from jepsen.simulation.applications.machine import World
from jepsen.simulation.applications.nodes import Nodes
from jepsen.simulation.applications.output import collected_output
from jepsen.simulation.applications.outside import inside
from jepsen.simulation.applications.plan import Plan, SimulatedRun
from jepsen.simulation.applications.process import Processes
from jepsen.simulation.applications.timeline import Timeline
from jepsen.simulation.applications.view import Check, SimulatedCluster
from jepsen.simulation.applications.watchdog import NeverYields, Watchdog
from jepsen.simulation.clock import Deadlock
from jepsen.simulation.hosts import leaves
from jepsen.simulation.invariants import Watch
from jepsen.simulation.scheduling import SIMULATION_LOCK, Killed, Livelock
from jepsen.simulation.simulation import Simulation

# The time limit for the nodes to start and for the topics to be created, without faults, in virtual seconds.
_START_SECONDS: Final = 60.0
# How often `always` is checked, and `eventually` after the faults.
_CHECK_SECONDS: Final = 1.0
# The longest time for which a process may go on after it was killed, in virtual seconds.
_UNWIND_SECONDS: Final = 300.0


class ApplicationRun:
    """See the module's docstring. `run` is called once. Real directories of processes are below `directory`."""

    def __init__(self, plan: Plan, seed: int, directory: Path) -> None:
        self._plan = plan
        self._seed = seed
        self.simulation = simulation = Simulation(f"application/{seed}", threads_run_inline=True)
        self._nodes = nodes = Nodes(simulation, plan.nodes, plan.configs)
        self._directories = Directories(directory / str(seed))
        self._world = World(simulation.trace.message, self._show_observation)
        self._processes = Processes(
            cluster=nodes.cluster,
            applications=dict(plan.applications),
            bootstrap_servers=nodes.bootstrap_servers,
            world=self._world,
            directories=self._directories,
            restart_on=plan.restart_on,
            fail=self._fail,
        )
        self._nemesis = nodes.nemesis(plan.faults)
        self._timeline = Timeline(nodes.cluster)
        self._view = SimulatedCluster(
            nodes.records, self._world.observed, self._processes.finished, simulation.clock.current_time
        )
        self._watchdog = Watchdog(plan.step_seconds_max, lambda: simulation.trace.steps)
        self._scope = trio.CancelScope()
        self._failure: str | None = None
        Watch(simulation.trace, nodes.invariants(), self._nodes_fail)

    def run(self) -> SimulatedRun:
        """Run the seed. Raises KeyboardInterrupt, and exceptions of the simulator itself."""
        began = time.process_time()
        try:
            with SIMULATION_LOCK, ExitStack() as stack:
                stack.callback(self._directories.remove)
                stack.enter_context(collected_output())
                stack.enter_context(
                    inside(self.simulation.rng("outside"), self._fail_with_stack, self._watchdog.switch_off)
                )
                stack.enter_context(self._watchdog.watching())
                self.simulation.run(self._main)
        except (Deadlock, Livelock) as error:
            self._fail(f"The run cannot go on: {error}")
        except BaseException as error:  # noqa: BLE001 - the error is raised again, if it is not one of the application
            self._end_with(error)
        gc.collect()  # the collector is off while a simulation runs
        return SimulatedRun(
            seed=self._seed,
            digest=self.simulation.trace.digest,
            failure=self._failure,
            virtual_seconds=self.simulation.clock.now,
            cpu_seconds=time.process_time() - began,
            faults=dict(self._nemesis.strikes),
            timeline=tuple(self._timeline.entries),
        )

    async def _main(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._nodes.cluster.run)
                await self._in_time("the start of the nodes", _START_SECONDS, self._prepare)
                nursery.start_soon(self._processes.run)
                nursery.start_soon(self._timeline.compare_conditions)
                nursery.start_soon(self._check_always)
                await self._inject_faults()
                await self._recover()
                await self._processes.stop()
                self._check(self._plan.always)
                self._timeline.complete()
                nursery.cancel_scope.cancel()
                self._limit_unwinding()

    async def _prepare(self) -> None:
        await self._nodes.cluster.wait_serving()
        try:
            await self._nodes.create_topics(self._plan.topics)
        except (KafkaError, ClientError) as error:
            self._fail(f"the topics cannot be created: {error}")
            await trio.lowlevel.checkpoint()

    async def _inject_faults(self) -> None:
        """Inject faults for the time of the plan, or until the functions of all processes have returned."""
        with trio.move_on_after(self._plan.seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._nemesis.run)
                await self._processes.all_finished.wait()
                nursery.cancel_scope.cancel()
        self._nodes.cluster.heal()
        self.simulation.trace.event("nemesis", "all faults are over", {})

    async def _recover(self) -> None:
        """Wait until all nodes serve, all processes run or have finished, and `eventually` is true."""
        await self._in_time("the recovery of the nodes", self._plan.recovery_seconds, self._nodes.cluster.wait_serving)
        failed: str | None = "the records cannot be read"
        with trio.move_on_after(self._plan.recovery_seconds) as scope:
            while failed is not None:
                if self._nodes.records.catch_up():
                    failed = self._first_failure(self._plan.eventually)
                if failed is not None:
                    await trio.sleep(_CHECK_SECONDS)
        if scope.cancelled_caught and failed is not None:
            self._fail(f"not true {self._plan.recovery_seconds:g} s after the last fault: {failed}")
            await trio.lowlevel.checkpoint()

    async def _check_always(self) -> None:
        while True:
            await trio.sleep(_CHECK_SECONDS)
            self._check(self._plan.always)

    def _check(self, checks: Sequence[Check]) -> None:
        if checks and self._nodes.records.catch_up():
            failed = self._first_failure(checks)
            if failed is not None:
                self._fail(failed)

    def _first_failure(self, checks: Sequence[Check]) -> str | None:
        for check in checks:
            name = getattr(check, "__name__", check)
            try:
                returned = check(self._view)
                if returned is not None and not returned:
                    return f"{name} returned {returned!r}"
            except Exception as error:  # noqa: BLE001 - a check may fail with any exception
                text = "".join(traceback.format_exception(error)).rstrip()
                return f"{name} failed with {error!r}\n{text}"
        return None

    async def _in_time(self, phase: str, seconds: float, task: Callable[[], Awaitable[None]]) -> None:
        with trio.move_on_after(seconds) as scope:
            await task()
        if scope.cancelled_caught:
            self._fail(f"{phase} takes more than {seconds:g} virtual seconds")
            await trio.lowlevel.checkpoint()

    def _show_observation(self, name: str, text: str) -> None:
        self.simulation.trace.note(name, text)
        self._timeline.add(name, text, is_observation=True)

    def _nodes_fail(self, violation: str) -> None:
        self._fail(f"The nodes break a promise, whatever the application does. {violation}")

    def _fail_with_stack(self, reason: str) -> None:
        stack = "".join(traceback.format_stack()[:-3]).rstrip()
        self._fail(f"{reason}\n{stack}")

    def _fail(self, failure: str) -> None:
        """End the run. Only the first failure is kept, because later ones may be consequences of it."""
        if self._failure is None:
            self._failure = failure
            self._timeline.add("", f"FAILED: {failure.partition(chr(10))[0]}")
            self._limit_unwinding()
            self._timeline.complete()
        self._scope.cancel()

    def _limit_unwinding(self) -> None:
        clock = self.simulation.clock
        clock.after(_UNWIND_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self.simulation.kill_tasks_of(
            self._processes.hosts,
            f"a process goes on {_UNWIND_SECONDS:g} virtual seconds after it was killed: it shields itself from "
            "cancellation without a deadline, or catches trio.Cancelled",
        )

    def _end_with(self, error: BaseException) -> None:
        for each in leaves(error):
            if isinstance(each, NeverYields | Killed):
                self._fail(f"{each}\n{''.join(traceback.format_exception(each)).rstrip()}")
                return
        for each in leaves(error):
            if isinstance(each, KeyboardInterrupt | SystemExit):
                raise each from None
        raise error
