"""Clients of a replicated dictionary: they read, write and compare-and-set keys, several clients on the same few keys.

Keys are abandoned after some operations, which keeps the linearizability check of each key fast.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, TypeAlias

import attrs
import msgpack
import trio

from jepsen.history import History, Operation
from kraft.frames import Frames, PeerConnectionLost

Address: TypeAlias = tuple[str, int]

TIMEOUT_SECONDS: Final = 3.0
BACK_OFF_SECONDS: Final = 0.2
# The number of operations, by all clients together, on the keys of one generation, and the number of those keys.
OPERATIONS_PER_GENERATION: Final = 40
KEYS_PER_GENERATION: Final = 2

OK: Final = "ok"
REFUSED: Final = "refused"  # the operation had no effect
UNKNOWN: Final = "unknown"


@attrs.define
class Keys:
    """Chooses the keys in use. All clients share one instance."""

    operations: int = 0

    def pick(self, rng: Random) -> str:
        self.operations += 1
        return f"{self.operations // OPERATIONS_PER_GENERATION}.{rng.randrange(KEYS_PER_GENERATION)}"


@attrs.define(eq=False)
class RegisterClient:
    name: str
    servers: Sequence[Address]
    history: History
    rng: Random
    keys: Keys
    _serial: int = attrs.field(default=0, init=False)

    async def run(self, per_second: float) -> None:
        """Send operations until cancelled. Changes the server after a lost connection or an answer without a result."""
        while True:
            try:
                async with await self._connect() as stream:
                    frames = Frames(stream)
                    while await self._operate(frames):
                        await trio.sleep(self.rng.expovariate(per_second))
            except PeerConnectionLost:
                pass
            await trio.sleep(self.rng.random() * BACK_OFF_SECONDS)

    async def until_done(self, function: str, key: str, *args: object) -> Any:
        """Repeat an operation until it has certainly been done. Returns its result."""
        while True:
            try:
                async with await self._connect() as stream:
                    outcome, result = await self._ask(Frames(stream), (function, key, *args))
                    if outcome == OK:
                        return result
            except PeerConnectionLost:
                pass
            await trio.sleep(self.rng.random() * BACK_OFF_SECONDS)

    async def _operate(self, frames: Frames) -> bool:
        """Perform and record one operation. Returns True to stay with this server. Raises PeerConnectionLost."""
        key, function = self.keys.pick(self.rng), self.rng.choice(("read", "read", "write", "write", "cas"))
        self._serial += 1
        value = f"{self.name}/{self._serial}"
        operation = self._invoke(function, key, value)
        try:
            outcome, result = await self._ask(frames, operation.value)
        except PeerConnectionLost as error:
            self.history.info(operation, str(error))
            raise
        record: dict[str, Callable[..., None]] = {OK: self.history.ok, REFUSED: self.history.fail}
        record.get(outcome, self.history.info)(operation, result)
        return outcome == OK

    def _invoke(self, function: str, key: str, value: str) -> Operation:
        if function == "read":
            return self.history.invoke(self.name, "read", ("read", key))
        if function == "write":
            return self.history.invoke(self.name, "write", ("write", key, value))
        seen = [
            each.result for each in self.history.operations[-20:] if each.function == "read" and each.value[1] == key
        ]
        return self.history.invoke(self.name, "cas", ("cas", key, value, self.rng.choice([None, *seen])))

    async def _connect(self) -> trio.SocketStream:
        try:
            with trio.fail_after(TIMEOUT_SECONDS):
                return await trio.open_tcp_stream(*self.rng.choice(self.servers))
        except (OSError, trio.TooSlowError) as error:
            raise PeerConnectionLost(str(error)) from error

    async def _ask(self, frames: Frames, question: Sequence[object]) -> tuple[str, Any]:
        try:
            with trio.fail_after(TIMEOUT_SECONDS):
                await frames.send(msgpack.packb(question))
                outcome, result = msgpack.unpackb(await frames.receive())
                return outcome, result
        except trio.TooSlowError as error:
            raise PeerConnectionLost("no answer in time") from error
