"""The processes of an application: started again after a crash, until their functions return or fail."""

import traceback
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs
import trio

from jepsen.simulation.applications.directories import Directories
from jepsen.simulation.applications.machine import Application, Machine, World, enter
from jepsen.simulation.cluster import RESTART_SECONDS, Cluster
from jepsen.simulation.hosts import Host, is_task_alive, leaves
from kraft.env import Env

# A process that is stopped as by SIGTERM is killed after this many virtual seconds.
STOP_SECONDS: Final = 10.0


class _Process:
    """A `jepsen.simulation.hosts.Process` that runs an application's function. `stop` cancels it."""

    def __init__(self, application: Application, machine: Machine, on_error: Callable[[BaseException], None]) -> None:
        self._application = application
        self._machine = machine
        self._on_error = on_error
        self._scope = trio.CancelScope()
        self.has_returned = False

    def stop(self) -> None:
        self._scope.cancel()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        enter(self._machine)
        try:
            with self._scope:
                await self._application(self._machine)
                self.has_returned = not self._scope.cancel_called
        except Exception as error:
            if is_task_alive():
                self._on_error(error)
            raise
        except SystemExit as exited:
            # It ends this process, and not the one that runs the simulation.
            if exited.code in (None, 0):
                self.has_returned = not self._scope.cancel_called
            elif is_task_alive():
                self._on_error(exited)
        except BaseExceptionGroup as group:
            exits, others = group.split(SystemExit)
            if exits is None or (others is not None and others.split((Exception, trio.Cancelled))[1] is not None):
                raise
            if is_task_alive():
                self._on_error(group)


@attrs.define(eq=False)
class Processes:
    """All processes of an application, each on a machine of its own.

    Processes that end with one of the errors in `restart_on` are started again; other errors are passed to `fail`.
    """

    cluster: Cluster
    applications: dict[str, Application]
    bootstrap_servers: list[str]
    world: World
    directories: Directories
    restart_on: tuple[type[Exception], ...]
    fail: Callable[[str], None]
    finished: dict[str, None] = attrs.field(factory=dict)
    all_finished: trio.Event = attrs.field(factory=trio.Event)
    _hosts: dict[str, Host] = attrs.field(factory=dict)
    _are_stopping: bool = False

    def __attrs_post_init__(self) -> None:
        for name in self.applications:
            self._hosts[name] = self.cluster.add_application(name)

    @property
    def hosts(self) -> list[Host]:
        return list(self._hosts.values())

    async def run(self) -> None:
        """Run all processes until cancelled; then kill them."""
        async with trio.open_nursery() as nursery:
            for name, host in self._hosts.items():
                nursery.start_soon(self._supervise, nursery, name, host)
            try:
                await trio.sleep_forever()
            finally:
                for host in self._hosts.values():
                    host.volume.heal()  # a task cannot be cancelled while it waits for a stalled disk
                    host.kill()

    async def stop(self) -> None:
        """Stop all processes as by SIGTERM, at once, and kill those that have not ended after STOP_SECONDS."""
        self._are_stopping = True
        for host in self._hosts.values():
            host.stop()
        with trio.move_on_after(STOP_SECONDS):
            for host in self._hosts.values():
                await host.ended.wait()
        for host in self._hosts.values():
            if host.process is not None:
                host.kill()

    async def _supervise(self, nursery: trio.Nursery, name: str, host: Host) -> None:
        for starts in range(1, 1_000_000):
            while trio.current_time() < host.held_down_until:
                await trio.sleep(RESTART_SECONDS)
            if self._are_stopping:
                return
            made: list[_Process] = []
            host.start(nursery, partial(self._make, name, host, starts, made))
            await host.ended.wait()
            if made and made[0].has_returned:
                self._finish(name)
                return
            await trio.sleep(RESTART_SECONDS)

    def _finish(self, name: str) -> None:
        self.finished[name] = None
        self.cluster.remove_application(name)
        if len(self.finished) == len(self._hosts):
            self.all_finished.set()

    def _make(self, name: str, host: Host, starts: int, made: list[_Process], env: Env) -> _Process:
        machine = Machine(
            name=name,
            starts=starts,
            bootstrap_servers=list(self.bootstrap_servers),
            rng=env.rng,
            disk=env.disk,
            directory=self.directories.of(name),
            wall=host.wall,
            world=self.world,
        )
        made.append(_Process(self.applications[name], machine, partial(self._ended_with, name)))
        return made[0]

    def _ended_with(self, name: str, error: BaseException) -> None:
        if not all(isinstance(each, self.restart_on) for each in leaves(error)):
            text = "".join(traceback.format_exception(error)).rstrip()
            self.fail(f"{name} ended with {error!r}\n{text}")
