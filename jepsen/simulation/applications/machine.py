"""The machine of a process of an application, through which the process reaches the simulator."""

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import attrs

from broker.client.environment import DEFAULT_ENVIRONMENT, Environment
from jepsen.simulation.hosts import is_task_alive, without_addresses
from kraft.env import Disk


class World:
    """The outside world of all processes of a run.

    `say` records a line of a process's log, and `show` an observation. `observed` has the observed values by name.
    """

    def __init__(self, say: Callable[[str, str], None], show: Callable[[str, str], None]) -> None:
        self.say = say
        self.show = show
        self.observed: dict[str, list[object]] = {}


@attrs.frozen(eq=False)
class Machine:
    """The machine on which a process of an application runs, for one incarnation of the process.

    `name` is that of the process, and of its machine in the network. `starts` counts the starts of the process: 1 at
    first, then one more after each crash. `bootstrap_servers` are the addresses of all nodes.

    `rng` has the random numbers of this start. `disk` is a simulated disk, with the interface of `kraft.env.Disk`: it
    survives crashes, and a power cut takes what was not synced. `directory` is a real directory, which survives both.
    """

    name: str
    starts: int
    bootstrap_servers: Sequence[str]
    rng: Random
    disk: Disk
    directory: Path
    _wall: Callable[[], float]
    _world: World

    def wall(self) -> float:
        """The machine's wall clock in seconds since 1970. Faults make it jump; `trio.current_time()` never does."""
        return self._wall()

    def log(self, text: object) -> None:
        """Add a line to the timeline of the run. Lines that are logged or printed appear there too."""
        if is_task_alive():
            self._world.say(self.name, self._reproducible(str(text)))

    def observe(self, name: str, value: object) -> None:
        """Tell the checks something that the outside world has seen, such as an order that a customer was promised.

        Checks read it by `SimulatedCluster.observed`. It outlives the process, and is a part of the timeline.
        """
        if is_task_alive():
            self._world.observed.setdefault(name, []).append(value)
            self._world.show(self.name, self._reproducible(f"{name}: {value!r}"))

    def _reproducible(self, text: str) -> str:
        """A text without what differs between equal runs."""
        return without_addresses(text.replace(str(self.directory), f"<directory of {self.name}>"))


Application: TypeAlias = Callable[[Machine], Awaitable[object]]

# The machine of the current task's process.
MACHINE: Final[ContextVar[Machine | None]] = ContextVar("simulated_machine", default=None)


def enter(machine: Machine) -> None:
    """Make the machine that of the current task, and its clock and random numbers those of the clients in it."""
    MACHINE.set(machine)
    DEFAULT_ENVIRONMENT.set(Environment(lambda: int(machine.wall() * 1000), machine.rng, machine.rng))
