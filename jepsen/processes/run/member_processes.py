"""The members of groups: processes that join, leave, are killed or paused, and are replaced by others."""

import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from random import Random
from typing import Final

import attrs
import trio

from jepsen.processes.clients.client import SHARE, MemberPlan
from jepsen.processes.clients.client_process import ClientProcess
from jepsen.store import Uptime

# How long a member runs, how long its place is empty, and how long it is paused: sometimes longer than a session.
_LIVES: Final = (6.0, 25.0)
_ABSENCES: Final = (0.0, 8.0)
_PAUSES: Final = (0.5, 12.0)
# The probability that a member ends with kill -9 instead of orderly, and that it is paused at some time.
_KILLED, _PAUSED = 0.6, 0.2
# The possible ends of an uptime (`Uptime.end`).
KILLED: Final = "killed"
PAUSED: Final = "paused"
LEFT: Final = "left"


@attrs.frozen
class Group:
    """A group: its name, the number of its members, and their settings (see `MemberPlan`).

    The members of a share group have one of the `libraries` each, in turn.
    """

    name: str
    protocol: str
    assignor: str
    members: int
    is_static: bool = False
    commits_each: bool = False
    libraries: tuple[str, ...] = ("",)

    @property
    def is_share_group(self) -> bool:
        return self.protocol == SHARE

    def __str__(self) -> str:
        return f"{self.protocol} protocol, {self.assignor}, {self.members} {'static ' * self.is_static}members"

    def places(self) -> dict[str, MemberPlan]:
        """The names of each member's incarnations, and its plan."""
        names = [f"{self.name}{number}" for number in range(1, self.members + 1)]
        return {
            name: MemberPlan(
                self.name,
                self.protocol,
                self.assignor,
                name if self.is_static else "",
                self.commits_each,
                library,
            )
            for name, library in zip(names, cycle(self.libraries), strict=False)
        }


class MemberProcesses:
    """`start` starts the process of a place, given the place and the number of the process.

    `uptimes` has all members' uptimes, by their places; a pause lies between two of them.
    """

    def __init__(
        self,
        places: Sequence[str],
        seed: int,
        start: Callable[[str, int], ClientProcess],
    ) -> None:
        self.uptimes: list[Uptime] = []
        self._rngs = {place: Random(f"{seed} {place}") for place in places}
        self._start = start
        self._churn_is_over = trio.Event()
        self._present: dict[str, ClientProcess] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all members within the block. At its end they leave the group. Raises ClientFailed."""
        try:
            async with trio.open_nursery() as nursery:
                for place in self._rngs:
                    nursery.start_soon(self._run_place, place)
                yield
                self.stop_churn()
            async with trio.open_nursery() as nursery:
                for place in self._present:
                    nursery.start_soon(self._leave, place)
        finally:
            for client in self._present.values():
                client.discard()

    def stop_churn(self) -> None:
        """Stop no more members, and start one in every empty place."""
        self._churn_is_over.set()

    async def _run_place(self, place: str) -> None:
        rng, uptime = self._rngs[place], 0
        while True:
            client = self._present[place] = self._start(place, uptime)
            self._begin(place)
            await self._while_troubled(rng.uniform(*_LIVES))
            if rng.random() < _PAUSED and not self._churn_is_over.is_set():
                await self._pause(place, rng.uniform(*_PAUSES))
                await self._while_troubled(rng.uniform(*_LIVES))
            if self._churn_is_over.is_set():
                return
            if not client.is_running:
                await client.ended(0)  # with a failure, as it was not stopped
            if rng.random() < _KILLED:
                client.discard()
                self._end(place, KILLED)
            else:
                await self._leave(place)
            await self._while_troubled(rng.uniform(*_ABSENCES))
            uptime += 1

    async def _pause(self, place: str, seconds: float) -> None:
        """Pause a member with SIGSTOP. When it continues, it does not know that time has passed."""
        client = self._present[place]
        client.send(signal.SIGSTOP)
        self._end(place, PAUSED)
        await self._while_troubled(seconds)
        client.send(signal.SIGCONT)
        self._begin(place)

    async def _leave(self, place: str) -> None:
        await self._present[place].end()
        self._end(place, LEFT)

    async def _while_troubled(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self._churn_is_over.wait()

    def _begin(self, place: str) -> None:
        self.uptimes.append(Uptime(place, time.monotonic()))

    def _end(self, place: str, how: str) -> None:
        at = max(index for index, uptime in enumerate(self.uptimes) if uptime.node == place)
        self.uptimes[at] = attrs.evolve(self.uptimes[at], ended_at=time.monotonic(), end=how)
