"""Replies that come later: of handlers that are deferred, and of work that is done in slices or in several turns."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from broker.net.connection import Connection, ProtocolError
from broker.net.reply import ExclusivePending, Part, Pending, Reply
from broker.server.handler import Client, Context, Message
from broker.server.slices import Slices, Steps, Unfinished, begin, freed, take_slice
from kraft.env import FsyncFailed

T = TypeVar("T")


class LaterReplies:
    """Runs what completes them, in `nursery`. `failed` traces an error of a handler, and returns why to close."""

    def __init__(
        self, slices: Slices, nursery: trio.Nursery, failed: Callable[[Client, Exception], ProtocolError]
    ) -> None:
        self._slices = slices
        self._nursery = nursery
        self._failed = failed

    def answer_in_steps(self, context: Context[Any], response: Steps[Message]) -> Pending:
        """See `Context.answer_in_steps`."""
        return self.start(context, self._slices.finish(encoded_in_steps(context, response)))

    def take_turns(self, context: Context[Any], response: Steps[T]) -> T | Pending:
        """See `Context.take_turns`."""
        try:
            return begin(response)
        except Unfinished:
            context.own_connection.buffer.detach()
            return self._wait_for_turn(context, _reply_in_steps(context, response))

    def _wait_for_turn(self, context: Context[Any], steps: Steps[Reply]) -> ExclusivePending:
        connection = context.own_connection
        pending = ExclusivePending(connection)
        pending.on_abandon = steps.close

        async def wait() -> None:
            async with self._slices.slice():
                connection.resume(pending, lambda: self._take_turn(context, steps))

        self._nursery.start_soon(wait)
        return pending

    def _take_turn(self, context: Context[Any], steps: Steps[Reply]) -> Reply:
        try:
            return take_slice(steps)
        except Unfinished:
            return self._wait_for_turn(context, steps)
        except (ProtocolError, FsyncFailed):
            raise
        except Exception as error:
            raise self._failed(context.client, error) from error

    def complete(self, context: Context[Any], pending: Pending, respond: Callable[[], Message]) -> None:
        """See `Context.complete`. What calls it is not the client's own: a timer, or another client's request."""
        if pending.done:
            return
        try:
            frame = context.encode(respond())
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this connection's alone
            context.own_connection.close(str(self._failed(context.client, error)))
        else:
            pending.complete(frame)

    def complete_in_steps(self, context: Context[Any], pending: Pending, response: Steps[Message]) -> None:
        """See `Context.complete_in_steps`."""
        reply = self._slices.finish(encoded_in_steps(context, response))
        self._nursery.start_soon(self._run_deferred, context.own_connection, reply, pending)

    def finish_later(self, steps: Steps[None]) -> None:
        """See `Context.finish_later`."""
        try:
            self._nursery.start_soon(self._slices.finish, steps)
        except RuntimeError:  # the node stops, and its nursery is closed
            steps.close()

    def defer(self, context: Context[Any], response: Awaitable[Message]) -> Pending:
        """See `Context.defer`."""
        return self.start(context, encoded(context, response))

    def start(self, context: Context[Any], reply: Awaitable[bytes | list[Part]]) -> Pending:
        connection = context.own_connection
        pending = Pending(connection) if context.route.handler.concurrent else ExclusivePending(connection)
        self._nursery.start_soon(self._run_deferred, connection, reply, pending)
        return pending

    async def _run_deferred(
        self, connection: Connection, reply: Awaitable[bytes | list[Part]], pending: Pending
    ) -> None:
        try:
            frame = await reply
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this connection's alone
            connection.close(str(self._failed(connection, error)))
        else:
            pending.complete(frame)


async def encoded(context: Context[Any], response: Awaitable[Message]) -> bytes | list[Part]:
    return await context.finish(_frame_in_steps(context, await response))


def encoded_in_steps(context: Context[Any], steps: Steps[Message]) -> Steps[bytes | list[Part]]:
    response = yield from steps
    frame = yield from _frame_in_steps(context, response)
    return frame


def _frame_in_steps(context: Context[Any], response: Message) -> Steps[bytes | list[Part]]:
    frame = yield from context.encode_sliced(response)
    yield from freed(response)
    return frame


def _reply_in_steps(context: Context[Any], steps: Steps[Message | Pending | None]) -> Steps[Reply]:
    response = yield from steps
    if response is None or isinstance(response, Pending):
        return response
    frame = yield from _frame_in_steps(context, response)
    return frame
