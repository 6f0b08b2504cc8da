"""Signals that end a tool cleanly: SIGINT from a terminal's Ctrl-C, and SIGTERM, which `timeout` sends."""

import signal
from collections.abc import Awaitable, Callable

import trio


async def until_interrupted(call: Callable[[], Awaitable[None]]) -> int | None:
    """Runs `call` until it returns or a signal asks the process to end. Returns the signal's number, or None.

    Raises what `call` raises, not in a group.
    """
    received: list[int] = []
    failure: Exception | None = None
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                async for number in signals:
                    received.append(number)
                    nursery.cancel_scope.cancel()

            nursery.start_soon(wait)
            try:
                await call()
            except Exception as error:  # noqa: BLE001 - raised again below, outside the nursery
                failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return received[0] if received else None
