"""The members of groups: processes that come, are killed, leave, stand still, and come again."""

import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Final

import attrs
import trio

from jepsen.processes.clients.client import MemberPlan
from jepsen.processes.clients.client_process import ClientProcess
from jepsen.store import Life

# How long a member lives, how long its place is empty, and how long one stands still: some longer than a session.
_LIVES: Final = (6.0, 25.0)
_ABSENCES: Final = (0.0, 8.0)
_PAUSES: Final = (0.5, 12.0)
# The chance that a life ends with kill -9 and not in peace; and that it stands still at some time.
_KILLED, _PAUSED = 0.6, 0.2
# How lives end (`Life.end`).
KILLED: Final = "killed"
PAUSED: Final = "paused"
LEFT: Final = "left"


@attrs.frozen
class Group:
    """Members that share a name, and how they belong to it (`MemberPlan`)."""

    name: str
    protocol: str
    assignor: str
    members: int
    is_static: bool = False
    commits_each: bool = False

    def __str__(self) -> str:
        return f"{self.protocol} protocol, {self.assignor}, {self.members} {'static ' * self.is_static}members"

    def places(self) -> dict[str, MemberPlan]:
        """What each member is called over all its lives, and its plan."""
        names = [f"{self.name}{number}" for number in range(1, self.members + 1)]
        return {
            name: MemberPlan(self.name, self.protocol, self.assignor, name if self.is_static else "", self.commits_each)
            for name in names
        }


class Crowd:
    """`start` makes the process of a place's life, by the place and the number of the life.

    `lives` are those of all members, by their places; who stands still is between two of them.
    """

    def __init__(
        self,
        places: Sequence[str],
        seed: int,
        start: Callable[[str, int], ClientProcess],
    ) -> None:
        self.lives: list[Life] = []
        self._rngs = {place: Random(f"{seed} {place}") for place in places}
        self._start = start
        self._calm = trio.Event()
        self._present: dict[str, ClientProcess] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All of them, until the end of the block: then they leave. Raises ClientFailed."""
        try:
            async with trio.open_nursery() as nursery:
                for place in self._rngs:
                    nursery.start_soon(self._inhabit, place)
                yield
                self.calm_down()
            async with trio.open_nursery() as nursery:
                for place in self._present:
                    nursery.start_soon(self._leave, place)
        finally:
            for client in self._present.values():
                client.discard()

    def calm_down(self) -> None:
        """From now on nobody goes, and places that are empty are filled."""
        self._calm.set()

    async def _inhabit(self, place: str) -> None:
        rng, life = self._rngs[place], 0
        while True:
            client = self._present[place] = self._start(place, life)
            self._begin(place)
            await self._while_troubled(rng.uniform(*_LIVES))
            if rng.random() < _PAUSED and not self._calm.is_set():
                await self._stand_still(place, rng.uniform(*_PAUSES))
                await self._while_troubled(rng.uniform(*_LIVES))
            if self._calm.is_set():
                return
            if not client.is_running:
                await client.ended(0)  # with a failure, as nobody asked it to
            if rng.random() < _KILLED:
                client.discard()
                self._end(place, KILLED)
            else:
                await self._leave(place)
            await self._while_troubled(rng.uniform(*_ABSENCES))
            life += 1

    async def _stand_still(self, place: str, seconds: float) -> None:
        """It does not know that time has passed."""
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
            await self._calm.wait()

    def _begin(self, place: str) -> None:
        self.lives.append(Life(place, time.monotonic()))

    def _end(self, place: str, how: str) -> None:
        at = max(index for index, life in enumerate(self.lives) if life.node == place)
        self.lives[at] = attrs.evolve(self.lives[at], ended_at=time.monotonic(), end=how)
