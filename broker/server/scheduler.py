"""Runs handlers: a handler yields what it waits for, and the scheduler decides when it goes on.

A handler is a plain function that returns its response, or a generator function, which returns it after it has waited.
Each `yield` waits for one of these:

- nothing (`yield None`, or `yield from` the steps of long work): others may need the event loop. The handler goes on
  at once while its slice lasts, and in a later slice otherwise;
- a completion (`outcome = yield from completion`), for an event that another request or a timer causes. There is no
  task: on Produce and Fetch one per request would cost more than the request itself;
- a coroutine (`result = yield from in_task(coroutine)`), which runs in a task. The handler gets its exceptions.

The connection serves its next request while a handler waits for a completion, if that is the first thing that it waits
for. Otherwise the next request waits for the response: Kafka promises that the requests of one connection are processed
in order. So a handler that decides or reads in several portions begins with `hold_next_request`. A handler
`in_turns` appends, or reads what others have appended: it takes its steps in turns of the connection until it waits for
a completion, because only a turn may append or read staged batches; the connection serves its next request then.
Batches that other handlers append outside of a turn are committed as soon as the handler waits.

If the connection closes, a handler that waits for a completion or for a turn is closed, and the completion abandoned.
One that runs in a task goes on, for its effects. An error closes the connection of its request, and no other.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import trio

from broker.net.completion import Completion
from broker.net.connection import Connection, ProtocolError
from broker.net.reply import Part, PendingReply, Reply
from broker.server.session import Session
from broker.server.slices import FIRST_STEPS, SLICE_STEPS, STEP_ITEMS, Finished, Steps, advance, freed
from kraft.env import FsyncFailed

T = TypeVar("T")

Message: TypeAlias = Any
Frame: TypeAlias = bytes | list[Part]
_FRAMES: Final = (bytes, list)
# The number of a handler's waits after which other tasks run, even if nothing had to be waited for.
_WAITS_AT_ONCE: Final = STEP_ITEMS
# The number of long works in progress, each with a request and a response that may take 100 MB; others wait in a queue.
WORKS_MAX: Final = 4
# The values that a handler yields; see the module's docstring.
Wait: TypeAlias = Completion[Any] | Coroutine[Any, Any, Any] | None
# Work that yields what it waits for, and returns its result.
Work: TypeAlias = Generator[Wait, Any, T]


def in_task(coroutine: Coroutine[Any, Any, T]) -> Work[T]:
    """Wait for the result of a coroutine."""
    result: T = yield coroutine
    return result


def hold_next_request() -> Steps[None]:
    """Make the connection's next request wait for the response to this one.

    It waits for nothing: the next request is served early only if a handler first waits for a completion.
    """
    yield None


class Request(Protocol):
    """The request of a handler, `broker.server.context.Context`."""

    @property
    def session(self) -> Session: ...
    @property
    def own_connection(self) -> Connection: ...

    def pack(self, response: Message) -> Frame: ...

    def pack_in_steps(self, response: Message) -> Steps[Frame]: ...

    def timed_call(self, call: Callable[[], T]) -> T: ...

    def timed_task(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]: ...

    def charge(self) -> int: ...


_Reached: TypeAlias = Wait | Finished
_Resume: TypeAlias = Callable[[], Wait]


class Scheduler:
    """Runs the handlers of one kind of listeners. Their tasks run in `nursery`.

    `commit` writes what handlers have staged outside of turns. `failed` traces an error, and returns the reason for
    closing the connection.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        commit: Callable[[], None],
        failed: Callable[[Session, Exception], ProtocolError],
    ) -> None:
        # One slice runs at a time: all clients with large requests share one in each pass of Trio's scheduler, so they
        # delay each other but no other client.
        self.slice = trio.Lock()
        self._works = trio.Semaphore(WORKS_MAX)
        self._nursery = nursery
        self._commit = commit
        self._failed = failed

    def start(
        self,
        request: Request,
        work: Work[Message | Frame | None],
        large: Message | None = None,
        in_turns: bool = False,
        concurrent: bool = False,
    ) -> Message | Frame | PendingReply | None:
        """Take the first steps of a handler, in a turn of its connection.

        Returns the response, or a whole frame, or a pending reply. A `large` message of the request is freed in steps
        if the handler takes steps. A `concurrent` handler never lets the connection's next request wait.
        """
        try:
            reached = next(work)
        except StopIteration as stopped:  # by far the most frequent case
            return stopped.value
        run = _Run(self, request, work, large, in_turns, concurrent)
        return run.begin() if reached is None else run.reply_or_wait(reached)

    def decode(self, request: Request, decoding: Steps[T], carry_out: Callable[[T], Reply]) -> PendingReply:
        """Decode a large request in slices, and carry it out in a turn of its connection.

        `decoding` raises ProtocolError for a malformed request.
        """
        connection = request.own_connection
        pending = PendingReply(connection, is_exclusive=True)

        async def decode() -> None:
            try:
                decoded = await self.finish(decoding, request)
            except ProtocolError as error:
                connection.close(str(error))
            else:
                connection.resume(pending, lambda: self.in_turn(request, lambda: carry_out(decoded)))

        self.start_task(decode)
        return pending

    def in_turn(self, request: Request, call: Callable[[], Reply]) -> Reply:
        """The reply to a request that goes on in a turn of its connection."""
        try:
            return request.timed_call(call)
        except (ProtocolError, FsyncFailed):
            raise
        except Exception as error:
            raise self._failed(request.session, error) from error

    async def finish(self, work: Work[T], request: Request | None = None, reached: Wait = None) -> T:
        """The result of work, which the caller's task runs from where it has `reached` this wait.

        Its time is charged to the client of the request. Coroutines that end without waiting let no other task run. So
        after some waits, the work goes on in a slice: otherwise a handler with a coroutine for each of 10,000 groups
        would hold the event loop for all of them.
        """
        now: _Reached = reached
        waits = 0
        try:
            if reached is None:
                now = self._resume(work, request)
            while not isinstance(now, Finished):
                if now is None:
                    now = await self._take_slices(work, request)
                    continue
                resume = await self.outcome(work, request, now)
                waits += 1
                if waits % _WAITS_AT_ONCE:
                    now = self._resume(work, request, resume=resume)
                else:
                    async with self.slice:
                        now = self._resume(work, request, resume=resume)
        finally:
            work.close()
        result: T = now.result
        return result

    async def _take_slices(self, work: Work[Any], request: Request | None) -> _Reached:
        reached: _Reached = None
        async with self._works:
            while reached is None:
                async with self.slice:
                    reached = self._resume(work, request, SLICE_STEPS)
        return reached

    async def outcome(
        self, work: Work[Any], request: Request | None, awaited: Completion[Any] | Coroutine[Any, Any, Any]
    ) -> _Resume:
        """Wait for a completion or a coroutine. Returns the function that resumes the work with its outcome."""
        if isinstance(awaited, Completion):
            return partial(work.send, await awaited.wait())
        try:
            return partial(work.send, await (awaited if request is None else request.timed_task(awaited)))
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - raised in the work
            return partial(work.throw, error)

    def _resume(
        self, work: Work[Any], request: Request | None, steps_max: int = FIRST_STEPS, resume: _Resume | None = None
    ) -> _Reached:
        """Go on with work outside of the turns of its connection."""
        if request is None:
            reached = advance(work, steps_max, resume)
        else:
            reached = request.timed_call(lambda: advance(work, steps_max, resume))
        self._commit()
        return reached

    def start_task(self, run: Callable[[], Awaitable[None]]) -> None:
        self._nursery.start_soon(run)

    def fail(self, request: Request, error: Exception) -> None:
        """Close the connection of a request that cannot be answered. Errors are this connection's alone."""
        request.own_connection.close(str(self._failed(request.session, error)))

    def finish_later(self, steps: Steps[None]) -> None:
        """Take the first steps now, and the others in slices, in a task of their own."""
        if isinstance(advance(steps, FIRST_STEPS), Finished):
            return
        try:
            self._nursery.start_soon(self.finish, steps)
        except RuntimeError:  # the node is stopping, and its nursery is closed
            steps.close()


class _Run:
    """A handler that waits. `_takes_steps` is true once it has taken steps: its response may be large, too.

    `_is_abandoned` is true after the connection has closed.
    """

    __slots__ = (
        "_concurrent",
        "_in_turns",
        "_is_abandoned",
        "_large",
        "_pending",
        "_request",
        "_scheduler",
        "_takes_steps",
        "_work",
    )

    def __init__(
        self,
        scheduler: Scheduler,
        request: Request,
        work: Work[Message | Frame | None],
        large: Message | None,
        in_turns: bool,
        concurrent: bool,
    ) -> None:
        self._scheduler = scheduler
        self._request = request
        self._work = work
        self._large = large
        self._in_turns = in_turns
        self._concurrent = concurrent
        self._takes_steps = self._is_abandoned = False
        self._pending: PendingReply

    def begin(self) -> Reply:
        """Take more steps in the turn in which the handler began with one."""
        self._takes_steps = True
        return self.reply_or_wait(advance(self._work, FIRST_STEPS))

    def reply_or_wait(self, reached: _Reached) -> Reply:
        """Called in a turn, with what the handler has reached."""
        if isinstance(reached, Finished):
            return self._reply(reached.result)
        connection = self._request.own_connection
        if isinstance(reached, Completion) and (self._in_turns or not self._takes_steps):
            self._pending = PendingReply(connection)
            self._wait_for(reached)
        else:
            self._pending = PendingReply(connection, is_exclusive=not self._concurrent)
            if self._in_turns and not isinstance(reached, Completion):
                connection.buffer.detach()
                self._pending.on_abandon = self._work.close
                self._scheduler.start_task(partial(self._wait_for_turn, reached))
            else:
                self._scheduler.start_task(partial(self._complete, None, reached))
        return self._pending

    def _reply(self, response: Message | Frame | None) -> Reply:
        if response is None:
            self._request.charge()
            return None
        frame = self._pack(response)
        if frame is not None:
            return frame
        self._pending = PendingReply(self._request.own_connection, is_exclusive=not self._concurrent)
        return self._pending

    def _pack(self, response: Message | Frame) -> Frame | None:
        """The frame of the response; None if a task is going to complete the reply."""
        if not self._takes_steps and not isinstance(response, _FRAMES):
            return self._request.pack(response)
        packing = self._pack_in_steps(response)
        reached = advance(packing, FIRST_STEPS)
        if isinstance(reached, Finished):
            frame: Frame = reached.result
            return frame
        self._scheduler.start_task(partial(self._complete, packing))
        return None

    def _pack_in_steps(self, response: Message | Frame) -> Steps[Frame]:
        """The frame of the response. The messages are freed in steps: nothing of them is needed any more."""
        if isinstance(response, _FRAMES):
            return response
        frame = yield from self._request.pack_in_steps(response)
        yield from freed(response)
        if self._large is not None:
            yield from freed(self._large)
        return frame

    def _wait_for(self, completion: Completion[Any]) -> None:
        self._pending.on_abandon = partial(self._abandon, completion)
        completion.then(self._completed)

    def _abandon(self, completion: Completion[Any]) -> None:
        """Drop the connection: a completion that others share, as in JoinGroup, may refer to this object for long."""
        completion.abandon()
        self._work.close()
        self._is_abandoned = True
        del self._request, self._pending, self._large

    def _completed(self, outcome: Any) -> None:
        """Called by a timer, a task or another client's request. Errors must not reach the caller."""
        if self._is_abandoned:
            return
        self._pending.on_abandon = None  # the work cannot be closed while it runs
        try:
            self._request.timed_call(partial(self._go_on, outcome))
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - this connection's alone
            self._scheduler.fail(self._request, error)

    def _go_on(self, outcome: Any) -> None:
        try:
            reached = self._work.send(outcome)
        except StopIteration as stopped:
            frame = self._pack(stopped.value)
            if frame is not None:
                self._pending.complete(frame)
            return
        if not isinstance(reached, Completion):
            self._scheduler.start_task(partial(self._complete, None, reached))
        elif self._pending.done:
            self._abandon(reached)
        else:
            self._wait_for(reached)

    async def _complete(self, packing: Steps[Frame] | None, reached: Wait = None) -> None:
        """Complete the reply in a task. Without `packing`, the handler has yet to go on from `reached`."""
        scheduler, request = self._scheduler, self._request
        try:
            if packing is None:
                self._takes_steps = True
                packing = self._pack_in_steps(await scheduler.finish(self._work, request, reached))
            frame = await scheduler.finish(packing, request)
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - this connection's alone
            scheduler.fail(request, error)
        else:
            self._pending.complete(frame)

    async def _wait_for_turn(self, awaited: Coroutine[Any, Any, Any] | None) -> None:
        """Wait for a coroutine and for the event loop, then go on in the next turn of the connection."""
        scheduler, request, work = self._scheduler, self._request, self._work
        resume = None if awaited is None else await scheduler.outcome(work, request, awaited)

        def go_on() -> Reply:
            self._takes_steps = True
            return self.reply_or_wait(advance(work, SLICE_STEPS, resume))

        async with scheduler.slice:
            request.own_connection.resume(self._pending, partial(scheduler.in_turn, request, go_on))
