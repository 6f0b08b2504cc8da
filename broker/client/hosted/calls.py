"""Calls that the background loop carries out for a caller that waits elsewhere."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, Generic, TypeVar

import trio

from broker.client.errors import ClosedError

T = TypeVar("T")


class _Interrupted(Exception):
    """The error of a call that has not ended by itself."""


class Call(ABC, Generic[T]):
    """One call: run by the loop, waited for by its caller.

    `caller` tells callers apart: the one that closes a client may still call it. `is_left` is set by a caller that no
    longer waits for the result. `is_in_callback` is true while the caller runs a callback that the call waits for.
    """

    def __init__(self, function: Callable[[], Awaitable[T]], caller: object) -> None:
        self.caller = caller
        self.is_left = False
        self.is_begun = False
        self.is_in_callback = False
        self._has_ended = False
        self._function = function
        self._scope = trio.CancelScope()
        self._value: T | None = None
        self._error: BaseException | None = _Interrupted("the client was closed during the call")

    @abstractmethod
    def wake_caller(self) -> None:
        """Let the caller go on, as the call has ended. Any thread may call this, and more than once."""
        ...

    async def run(self) -> None:
        CURRENT_CALL.set(self)
        try:
            with self._scope:
                self._value = await self._function()
                self._error = None
        except trio.Cancelled:
            raise
        except BaseException as error:  # noqa: BLE001 - raised to the caller
            self._error = error
        finally:
            self.end()

    def end(self) -> None:
        """Ends the call: the caller continues."""
        self._has_ended = True
        self.wake_caller()

    def cancel(self) -> None:
        self._scope.cancel()

    def leave(self) -> None:
        """Cancels the call of a caller that was interrupted, and lets the caller go on when the call has ended.

        The interrupt may come before the loop has the call, or after the call has ended.
        """
        self.cancel()
        if not self.is_begun or self._has_ended:
            self.end()

    def refuse(self, failure: BaseException | None) -> None:
        """Ends the call without running it."""
        self._error = ClosedError("the client is closed; open a new one")
        self._error.__cause__ = failure
        self.end()

    def result(self, failure: Exception | None) -> T:
        """The result. `failure` is that of the client, which ends its calls."""
        if isinstance(self._error, _Interrupted):
            raise ClosedError(*self._error.args) from failure
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # it is that of the function


CURRENT_CALL: Final[ContextVar[Call[Any]]] = ContextVar("CURRENT_CALL")
