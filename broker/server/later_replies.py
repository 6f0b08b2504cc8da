"""Replies that come later: of handlers that are deferred, and of work that is done in slices or in several turns."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar

import trio

from broker.net.connection import Connection, ProtocolError
from broker.net.reply import ExclusivePending, Part, Pending, Reply
from broker.server.session import Session
from broker.server.slices import Slices, Steps, Unfinished, begin, freed, take_slice
from kraft.env import FsyncFailed

T = TypeVar("T")

Message: TypeAlias = Any


class Request(Protocol):
    """The request that is answered later, `broker.server.Context`."""

    @property
    def session(self) -> Session: ...
    @property
    def own_connection(self) -> Connection: ...

    def pack(self, response: Message) -> bytes | list[Part]: ...

    def pack_in_steps(self, response: Message) -> Steps[bytes | list[Part]]: ...

    def charge(self) -> int: ...

    async def finish(self, steps: Steps[T]) -> T: ...


class LaterReplies:
    """Runs what completes them, in `nursery`. `failed` traces an error of a handler, and returns why to close."""

    def __init__(
        self, slices: Slices, nursery: trio.Nursery, failed: Callable[[Session, Exception], ProtocolError]
    ) -> None:
        self._slices = slices
        self._nursery = nursery
        self._failed = failed

    def answer_in_steps(self, request: Request, response: Steps[Message]) -> Pending:
        """See `Context.answer_in_steps`."""
        return self.start(request, self._slices.finish(encoded_in_steps(request, response)))

    def take_turns(self, request: Request, response: Steps[T]) -> T | Pending:
        """See `Context.take_turns`."""
        try:
            return begin(response)
        except Unfinished:
            request.own_connection.buffer.detach()
            return self._wait_for_turn(request, _reply_in_steps(request, response))

    def _wait_for_turn(self, request: Request, steps: Steps[Reply]) -> ExclusivePending:
        connection = request.own_connection
        pending = ExclusivePending(connection)
        pending.on_abandon = steps.close

        async def wait() -> None:
            async with self._slices.slice():
                connection.resume(pending, lambda: self._take_turn(request, steps))

        self._nursery.start_soon(wait)
        return pending

    def _take_turn(self, request: Request, steps: Steps[Reply]) -> Reply:
        try:
            return take_slice(steps)
        except Unfinished:
            return self._wait_for_turn(request, steps)
        except (ProtocolError, FsyncFailed):
            raise
        except Exception as error:
            raise self._failed(request.session, error) from error

    def complete(self, request: Request, pending: Pending, respond: Callable[[], Message]) -> None:
        """See `Context.complete`. Called by a timer, or by the request of another client."""
        if pending.done:
            return
        try:
            frame = request.pack(respond())
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this connection's alone
            request.own_connection.close(str(self._failed(request.session, error)))
        else:
            pending.complete(frame)

    def complete_in_steps(self, request: Request, pending: Pending, response: Steps[Message]) -> None:
        """See `Context.complete_in_steps`."""
        reply = self._slices.finish(encoded_in_steps(request, response))
        self._nursery.start_soon(self._run_deferred, request, reply, pending)

    def finish_later(self, steps: Steps[None]) -> None:
        """See `Context.finish_later`."""
        try:
            self._nursery.start_soon(self._slices.finish, steps)
        except RuntimeError:  # the node stops, and its nursery is closed
            steps.close()

    def defer(self, request: Request, response: Awaitable[Message], *, concurrent: bool = False) -> Pending:
        """See `Context.defer`."""
        return self.start(request, encoded(request, response), concurrent=concurrent)

    def start(self, request: Request, reply: Awaitable[bytes | list[Part]], *, concurrent: bool = False) -> Pending:
        """Answer with a whole frame. Unless it is `concurrent`, the connection's next request waits for it."""
        connection = request.own_connection
        pending = Pending(connection) if concurrent else ExclusivePending(connection)
        self._nursery.start_soon(self._run_deferred, request, reply, pending)
        return pending

    async def _run_deferred(self, request: Request, reply: Awaitable[bytes | list[Part]], pending: Pending) -> None:
        try:
            frame = await reply
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this connection's alone
            request.own_connection.close(str(self._failed(request.session, error)))
        else:
            pending.complete(frame)


async def encoded(request: Request, response: Awaitable[Message]) -> bytes | list[Part]:
    return await request.finish(_frame_in_steps(request, await response))


def encoded_in_steps(request: Request, steps: Steps[Message]) -> Steps[bytes | list[Part]]:
    response = yield from steps
    frame = yield from _frame_in_steps(request, response)
    return frame


def _frame_in_steps(request: Request, response: Message) -> Steps[bytes | list[Part]]:
    frame = yield from request.pack_in_steps(response)
    yield from freed(response)
    return frame


def _reply_in_steps(request: Request, steps: Steps[Message | Pending | None]) -> Steps[Reply]:
    response = yield from steps
    if response is None:
        request.charge()
        return None
    if isinstance(response, Pending):
        return response
    frame = yield from _frame_in_steps(request, response)
    return frame
