"""Attempts that begin one after the other and go on together, until one of them succeeds.

A server whose process is frozen or starved still accepts connections, because the kernel does. Only time tells it from
one that answers. A client that waits for such a server alone fails although other servers would have answered. So it
begins with the next server after a moment, as it does for the addresses of a host name (RFC 8305).
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeAlias, TypeVar

import attrs
import trio

T = TypeVar("T")
Attempt: TypeAlias = Callable[[], Awaitable[T]]


class NoSuccess(Exception):
    """Every attempt has failed. `failures` are in the order in which the attempts ended."""

    def __init__(self, failures: list[Exception]) -> None:
        super().__init__(*failures)
        self.failures = failures


@attrs.define
class _Race(Generic[T]):
    """The outcomes of the attempts. An error that is not passed over ends the others, as a success does."""

    passed_over: tuple[type[Exception], ...]
    failures: list[Exception] = attrs.field(factory=list)
    results: list[T] = attrs.field(factory=list)
    error: Exception | None = None

    async def run(self, attempt: Attempt[T], ended: trio.Event, others: trio.CancelScope) -> None:
        try:
            self.results.append(await attempt())
            others.cancel()
        except self.passed_over as failure:
            self.failures.append(failure)
        except Exception as error:  # noqa: BLE001 - raised by first_success, outside the nursery
            self.error = error
            others.cancel()
        ended.set()


async def first_success(
    next_attempt: Callable[[], Awaitable[Attempt[T] | None]],
    *,
    patience_s: float,
    passed_over: tuple[type[Exception], ...],
) -> T:
    """The result of the first attempt that succeeds; the others are cancelled then.

    The next attempt begins when the latest one has failed, or has not ended within `patience_s`. `next_attempt` returns
    None when there is none. Raises an error of `next_attempt`, or one of an attempt that is not among `passed_over`;
    else NoSuccess.
    """
    race: _Race[T] = _Race(passed_over)

    async def next_or_none() -> Attempt[T] | None:
        try:
            return await next_attempt()
        except Exception as error:  # noqa: BLE001 - raised below, outside the nursery
            race.error = error
            return None

    async with trio.open_nursery() as nursery:
        while (attempt := await next_or_none()) is not None:
            ended = trio.Event()
            nursery.start_soon(race.run, attempt, ended, nursery.cancel_scope)
            with trio.move_on_after(patience_s):
                await ended.wait()
    if race.results:
        return race.results[0]
    if race.error is not None:
        raise race.error
    raise NoSuccess(race.failures)
