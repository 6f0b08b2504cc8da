"""Calls of asyncio tasks to clients on the background loop: results, cancellation, callbacks, loops that end."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from broker.client.aio.calls import do_in_calling_task
from broker.client.aio.client import AsyncioClient, AsyncioHost
from broker.client.errors import ClosedError
from tests.support.scripts import run_script

WITHIN_S = 10


class Client:
    """A client that is open on the background loop."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.was_cancelled = threading.Event()

    async def echo(self, value: object) -> object:
        await trio.lowlevel.checkpoint()
        return value

    async def fail(self) -> None:
        raise ValueError("as asked")

    async def wait(self) -> None:
        self.has_begun.set()
        try:
            await trio.sleep_forever()
        finally:
            self.was_cancelled.set()

    async def ask(self, function: Callable[[], Awaitable[object]]) -> None:
        with trio.CancelScope(shield=True):  # as a rebalance listener is
            await do_in_calling_task(function)


class Opened(AsyncioClient[Client]):
    def __init__(self, client: Client | None = None, failure: Exception | None = None) -> None:
        self.client = client or Client()
        self._failure = failure
        super().__init__(self._open())

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Client]:
        yield self.client
        if self._failure is not None:
            raise self._failure

    @property
    def hosted(self) -> AsyncioHost[Client]:
        return self._hosted


def run(function: Callable[[], Awaitable[Any]]) -> Any:
    async def within() -> Any:
        async with asyncio.timeout(WITHIN_S):
            return await function()

    return asyncio.run(within())


async def begun(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, WITHIN_S)


def test_results_and_errors_reach_the_task_that_calls() -> None:
    async def calls() -> None:
        async with Opened() as client:
            assert await asyncio.gather(*(client.hosted.run(Client.echo, each) for each in range(100))) == [*range(100)]
            with pytest.raises(ValueError, match="as asked"):
                await client.hosted.run(Client.fail)
            assert await client.hosted.run(Client.echo, 1) == 1

    run(calls)


def test_loop_is_not_blocked_while_a_call_waits() -> None:
    async def calls() -> None:
        async with Opened() as client:
            waiting = asyncio.create_task(client.hosted.run(Client.wait))
            await begun(client.client.has_begun)
            assert await client.hosted.run(Client.echo, "meanwhile") == "meanwhile"
            waiting.cancel()
            await asyncio.wait([waiting])

    run(calls)


def test_cancelled_call_has_ended_before_the_task_goes_on() -> None:
    async def calls() -> None:
        async with Opened() as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await client.hosted.run(Client.wait)
            assert client.client.was_cancelled.is_set() or not client.client.has_begun.is_set()
            assert await client.hosted.run(Client.echo, "usable") == "usable"

    run(calls)


def test_task_that_is_cancelled_twice_waits_for_the_end_of_its_call() -> None:
    async def calls() -> None:
        class Slow(Client):
            async def wait(self) -> None:
                try:
                    await super().wait()
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.sleep(0.05)
                    self.was_cancelled.set()

        async with Opened(Slow()) as client:
            client.client.was_cancelled = threading.Event()
            task = asyncio.create_task(client.hosted.run(Slow.wait))
            await begun(client.client.has_begun)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client.client.was_cancelled.is_set()

    run(calls)


def test_close_ends_the_calls_of_other_tasks() -> None:
    async def calls() -> None:
        client = Opened()
        async with client:
            task = asyncio.create_task(client.hosted.run(Client.wait))
            await begun(client.client.has_begun)
        with pytest.raises(ClosedError):
            await task
        with pytest.raises(ClosedError):
            await client.hosted.run(Client.echo, 1)

    run(calls)


def test_error_of_closing_is_raised_once_and_later_calls_name_it() -> None:
    async def calls() -> None:
        client = Opened(failure=OSError("cannot close"))
        with pytest.raises(OSError, match="cannot close"):
            async with client:
                pass
        await client.close()
        with pytest.raises(ClosedError) as raised:
            await client.hosted.run(Client.echo, 1)
        assert isinstance(raised.value.__cause__, OSError)

    run(calls)


def test_client_that_cannot_be_opened_says_why() -> None:
    @asynccontextmanager
    async def failing() -> AsyncIterator[Client]:
        raise OSError("cannot open")
        yield Client()

    async def calls() -> None:
        with pytest.raises(OSError, match="cannot open"):
            async with AsyncioClient(failing()):
                pass

    run(calls)


def test_client_is_opened_once_and_used_within_its_block() -> None:
    async def calls() -> None:
        client = Opened()
        with pytest.raises(ClosedError, match="async with"):
            await client.close()
        async with client:
            pass
        with pytest.raises(RuntimeError, match="once"):
            async with client:
                pass

    run(calls)


def test_call_has_the_task_that_waits_for_it_run_a_function_that_may_call_the_client() -> None:
    async def calls() -> None:
        async with Opened() as client:
            seen: list[object] = []

            async def function() -> None:
                seen.append((asyncio.current_task(), await client.hosted.run(Client.echo, "nested")))

            await client.hosted.run(Client.ask, function)
            assert seen == [(asyncio.current_task(), "nested")]

            async def fail() -> None:
                raise ValueError("as asked")

            with pytest.raises(ValueError, match="as asked"):
                await client.hosted.run(Client.ask, fail)

    run(calls)


def test_cancellation_in_a_function_that_a_call_asked_for_ends_the_call() -> None:
    async def calls() -> None:
        async with Opened() as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await client.hosted.run(Client.ask, lambda: asyncio.sleep(WITHIN_S))
            assert await client.hosted.run(Client.echo, 1) == 1

    run(calls)


def test_client_of_one_asyncio_loop_is_refused_on_another() -> None:
    async def calls() -> None:
        async with Opened() as client:

            async def elsewhere() -> None:
                with pytest.raises(RuntimeError, match="another asyncio loop"):
                    await client.hosted.run(Client.echo, 1)
                async with Opened() as own:
                    assert await own.hosted.run(Client.echo, 2) == 2

            await asyncio.to_thread(asyncio.run, elsewhere())
            assert await client.hosted.run(Client.echo, 1) == 1

    run(calls)


def test_loop_that_is_closed_while_a_client_is_open_disturbs_no_other_client() -> None:
    left: list[Opened] = []

    async def leave() -> None:
        client = Opened()
        await client.__aenter__()
        left.append(client)

        async def call() -> None:
            await client.hosted.run(Client.wait)

        tasks.append(asyncio.ensure_future(call()))
        await begun(client.client.has_begun)

    tasks: list[asyncio.Future[None]] = []
    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    tasks[0].cancel()
    loop.run_until_complete(asyncio.wait(tasks))
    loop.close()
    left[0].hosted.close_soon()
    assert left[0].hosted._closed.wait(WITHIN_S)

    async def calls() -> None:
        async with Opened() as client:
            assert await client.hosted.run(Client.echo, 1) == 1

    run(calls)


def test_process_ends_though_a_client_is_open_and_a_task_was_abandoned(bootstrap: str) -> None:
    script = """
import asyncio, sys
from broker.client import AsyncioProducer
async def main():
    producer = AsyncioProducer(sys.argv[1])
    await producer.__aenter__()
    asyncio.ensure_future(producer.partitions_for("topic"))
    await asyncio.sleep(0)
asyncio.run(main())
print("ended")
"""
    assert run_script(script, bootstrap) == "ended\n"


def test_error_of_a_callback_goes_to_the_exception_handler_of_the_loop_and_others_are_called() -> None:
    async def calls() -> None:
        told: list[Any] = []
        seen: list[int] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))
        async with Opened() as client:
            mailbox = client.hosted.mailbox

            async def post(_: Client) -> None:
                mailbox.post(int, "no number")
                mailbox.post(seen.append, 1)

            await client.hosted.run(post)
        assert seen == [1]
        assert [type(each) for each in told] == [ValueError]

    run(calls)
