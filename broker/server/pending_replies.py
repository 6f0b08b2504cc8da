"""Creates and completes `PendingReply` objects, for handlers that cannot respond at once.

Such a handler waits for one of these:

- a completion, for an event that another request or a timer causes (`answer`),
- a coroutine, for a response that has to wait several times (`defer`),
- steps, for work that is too long for one turn. They are taken in slices between turns (`answer_in_steps`), or each
  slice in a turn of the connection (`answer_in_turns`), because only a turn may append or read staged batches.

The four ways differ in their cost and in the time when they may run. A completion has no task; on
Produce and Fetch a task per request would cost more than the request itself.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

import trio

from broker.net.completion import Completion
from broker.net.connection import Connection, ProtocolError
from broker.net.reply import Part, PendingReply, Reply
from broker.server.session import Session
from broker.server.slices import Slices, Steps, Unfinished, begin, freed, take_slice
from kraft.env import FsyncFailed

T = TypeVar("T")

Message: TypeAlias = Any


class Request(Protocol):
    """The request of a pending reply, `broker.server.Context`."""

    @property
    def session(self) -> Session: ...
    @property
    def own_connection(self) -> Connection: ...

    def pack(self, response: Message) -> bytes | list[Part]: ...

    def pack_in_steps(self, response: Message) -> Steps[bytes | list[Part]]: ...

    def timed(self, steps: Steps[T]) -> Steps[T]: ...

    def timed_call(self, call: Callable[[], T]) -> T: ...

    def timed_task(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]: ...

    def charge(self) -> int: ...

    async def finish(self, steps: Steps[T]) -> T: ...


class PendingReplies:
    """Creates pending replies, and completes them. Tasks run in `nursery`.

    An error in building a reply closes the connection of its request, and no other. `failed` traces the error, and
    returns the reason for closing.
    """

    def __init__(
        self, slices: Slices, nursery: trio.Nursery, failed: Callable[[Session, Exception], ProtocolError]
    ) -> None:
        self._slices = slices
        self._nursery = nursery
        self._failed = failed

    def answer(
        self, request: Request, completion: Completion[T], respond: Callable[[T], Message | Steps[Message]]
    ) -> Message | PendingReply:
        """See `Context.answer`."""
        if completion.done:
            response = respond(completion.outcome)
            return self.answer_in_steps(request, response) if isinstance(response, Generator) else response
        pending = PendingReply(request.own_connection)
        pending.on_abandon = completion.abandon
        completion.then(partial(self._respond, request, pending, respond))
        return pending

    def _respond(
        self,
        request: Request,
        pending: PendingReply,
        respond: Callable[[T], Message | Steps[Message]],
        outcome: T,
    ) -> None:
        """Called by a timer, a task or another client's request. Errors must not reach the caller."""
        if pending.done:
            return

        def pack() -> bytes | list[Part] | Steps[Message]:
            response = respond(outcome)
            return response if isinstance(response, Generator) else request.pack(response)

        try:
            frame = request.timed_call(pack)
            if isinstance(frame, Generator):
                reply = self._slices.finish(request.timed(encoded_in_steps(request, frame)))
                self._nursery.start_soon(self._complete_with, request, reply, pending)
                return
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this connection's alone
            request.own_connection.close(str(self._failed(request.session, error)))
        else:
            pending.complete(frame)

    def defer(self, request: Request, response: Awaitable[Message], *, concurrent: bool = False) -> PendingReply:
        """See `Context.defer`."""
        return self.start(request, request.timed_task(encoded(request, response)), concurrent=concurrent)

    def answer_in_steps(self, request: Request, response: Steps[Message]) -> PendingReply:
        """See `Context.answer_in_steps`."""
        return self.start(request, self._slices.finish(request.timed(encoded_in_steps(request, response))))

    def start(
        self, request: Request, reply: Awaitable[bytes | list[Part]], *, concurrent: bool = False
    ) -> PendingReply:
        """Reply with a whole frame. Unless it is `concurrent`, the connection's next request waits for it."""
        pending = PendingReply(request.own_connection, is_exclusive=not concurrent)
        self._nursery.start_soon(self._complete_with, request, reply, pending)
        return pending

    async def _complete_with(
        self, request: Request, reply: Awaitable[bytes | list[Part]], pending: PendingReply
    ) -> None:
        try:
            frame = await reply
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this connection's alone
            request.own_connection.close(str(self._failed(request.session, error)))
        else:
            pending.complete(frame)

    def answer_in_turns(self, request: Request, response: Steps[T]) -> T | PendingReply:
        """See `Context.answer_in_turns`."""
        try:
            return begin(response)
        except Unfinished:
            request.own_connection.buffer.detach()
            return self._wait_for_turn(request, request.timed(_reply_in_steps(request, response)))

    def answer_in_turns_after(
        self, request: Request, condition: Coroutine[Any, Any, None], response: Steps[T]
    ) -> PendingReply:
        """See `Context.answer_in_turns_after`."""
        request.own_connection.buffer.detach()
        return self._wait_for_turn(request, _reply_in_steps(request, response), condition)

    def _wait_for_turn(
        self, request: Request, steps: Steps[Reply], condition: Coroutine[Any, Any, None] | None = None
    ) -> PendingReply:
        connection = request.own_connection
        pending = PendingReply(connection, is_exclusive=True)
        pending.on_abandon = steps.close

        async def wait() -> None:
            if condition is not None:
                try:
                    await condition
                except FsyncFailed:
                    raise
                except Exception as error:  # noqa: BLE001 - whatever it is, it is this connection's alone
                    connection.close(str(self._failed(request.session, error)))
                    return
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

    def finish_later(self, steps: Steps[None]) -> None:
        """See `Context.finish_later`."""
        try:
            self._nursery.start_soon(self._slices.finish, steps)
        except RuntimeError:  # the node is stopping, and its nursery is closed
            steps.close()


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


def _reply_in_steps(request: Request, steps: Steps[Message | PendingReply | None]) -> Steps[Reply]:
    response = yield from steps
    if response is None:
        request.charge()
        return None
    if isinstance(response, PendingReply):
        return response
    frame = yield from _frame_in_steps(request, response)
    return frame
