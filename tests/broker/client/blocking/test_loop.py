"""The event loop of the blocking clients: one per process, with interrupts, forks and its end."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from broker.client.blocking.calls import do_in_calling_thread
from broker.client.blocking.client import BlockingHost
from broker.client.errors import ClosedError
from broker.client.hosted.loop import PROCESS_LOOP
from tests.support.scripts import run_script

SILENT_SERVER = """
import os, signal, socket, sys, threading, time
from broker.client import ClosedError, SyncAdmin
server = socket.create_server(("127.0.0.1", 0))
bootstrap = "127.0.0.1:%d" % server.getsockname()[1]
"""


class Client:
    """A client that is open on a loop."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    async def echo(self, value: object) -> object:
        await trio.lowlevel.checkpoint()
        return value

    async def fail(self) -> None:
        raise ValueError("as asked")

    async def leave(self) -> None:
        raise SystemExit(3)

    async def wait(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.cancelled.set()

    async def ask(self, function: Callable[[], object]) -> None:
        with trio.CancelScope(shield=True):  # as a rebalance listener is
            await do_in_calling_thread(function)

    async def call_back(self, function: object) -> None:
        assert callable(function)
        function()


@asynccontextmanager
async def opened(client: Client, failure: Exception | None = None) -> AsyncIterator[Client]:
    yield client
    if failure is not None:
        raise failure


def host(client: Client, failure: Exception | None = None) -> BlockingHost[Client]:
    return BlockingHost(PROCESS_LOOP.get(), opened(client, failure))


def test_clients_of_a_process_share_a_thread() -> None:
    first, second = host(Client()), host(Client())
    assert first.run(Client.echo, 1) == 1
    assert second.run(Client.echo, 2) == 2
    assert [thread.name for thread in threading.enumerate()].count("kraft-client") == 1
    first.close()
    assert second.run(Client.echo, 3) == 3
    second.close()


@pytest.mark.parametrize(("method", "error"), [(Client.fail, ValueError), (Client.leave, SystemExit)])
def test_an_exception_of_a_call_is_raised_by_the_call_and_ends_nothing_else(
    method: object, error: type[BaseException]
) -> None:
    hosted = host(Client())
    with pytest.raises(error):
        hosted.run(method)  # type: ignore[arg-type]
    assert hosted.run(Client.echo, 1) == 1
    hosted.close()


def test_close_ends_the_calls_of_other_threads() -> None:
    hosted, errors = host(client := Client()), []

    def call() -> None:
        try:
            hosted.run(Client.wait)
        except ClosedError as error:
            errors.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    hosted.run(Client.echo, 1)
    hosted.close()
    caller.join(10)
    assert client.cancelled.is_set() or errors, "a call that had not begun is refused"
    assert len(errors) == 1


def test_close_raises_the_error_of_closing_and_later_calls_name_it() -> None:
    hosted = host(Client(), OSError("cannot close"))
    with pytest.raises(OSError, match="cannot close"):
        hosted.close()
    with pytest.raises(ClosedError) as raised:
        hosted.run(Client.echo, 1)
    assert isinstance(raised.value.__cause__, OSError)


def test_a_blocking_call_from_a_callback_is_refused_instead_of_waiting_for_itself() -> None:
    hosted = host(Client())
    with pytest.raises(RuntimeError, match="from a callback"):
        hosted.run(Client.call_back, lambda: hosted.run(Client.echo, 1))
    hosted.close()


def test_a_client_that_is_dropped_on_the_thread_of_the_loop_is_closed() -> None:
    dropped, hosted = host(Client()), host(Client())
    hosted.run(Client.call_back, dropped.close_soon)
    assert dropped._closed.wait(10)
    hosted.close()


def test_a_call_can_have_the_thread_that_waits_for_it_call_the_client() -> None:
    hosted, seen = host(Client()), []

    def function() -> None:
        seen.append((threading.current_thread() is threading.main_thread(), hosted.run(Client.echo, "nested")))

    hosted.run(Client.ask, function)
    assert seen == [(True, "nested")]

    def fail() -> None:
        raise ValueError("as asked")

    with pytest.raises(ValueError, match="as asked"):
        hosted.run(Client.ask, fail)
    hosted.close()


def test_an_interrupt_in_a_function_that_a_call_asked_for_ends_the_call() -> None:
    hosted = host(Client())

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hosted.run(Client.ask, interrupt)
    assert hosted.run(Client.echo, 1) == 1
    hosted.close()


def test_an_error_of_the_block_reaches_the_client() -> None:
    seen = []

    @asynccontextmanager
    async def client() -> AsyncIterator[None]:
        try:
            yield None
        except Exception as error:
            seen.append(error)
            raise

    hosted = BlockingHost(PROCESS_LOOP.get(), client())
    hosted.close(KeyError("of the block"))
    assert len(seen) == 1


@pytest.mark.parametrize("delay_s", [0, 0.05], ids=["as it begins", "while it waits"])
def test_keyboard_interrupt_cancels_the_call_and_leaves_the_client_usable(delay_s: float) -> None:
    script = """
import signal, sys, threading, trio
from tests.broker.client.blocking.test_loop import Client, host
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupting(Client):
    async def wait(self):
        try:
            await trio.sleep(float(sys.argv[1]))
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        finally:
            await super().wait()
for _ in range(20):
    hosted = host(client := Interrupting())
    try:
        hosted.run(Interrupting.wait)
    except KeyboardInterrupt:
        print(client.cancelled.is_set(), hosted.run(Client.echo, "usable"))
    hosted.close()
"""
    assert run_script(script, str(delay_s)) == "True usable\n" * 20


def test_a_forked_child_has_a_loop_of_its_own_and_the_parent_keeps_its_connection(bootstrap: str) -> None:
    script = """
import os, sys
from broker.client import ClosedError, NewTopic, SyncAdmin
admin = SyncAdmin(sys.argv[1])
admin.create_topics([NewTopic("of-the-parent", 1)]).raise_first()
child = os.fork()
if not child:
    code = 1
    try:
        admin.list_topics()
    except ClosedError as error:
        assert "forked" in str(error), error
        with SyncAdmin(sys.argv[1]) as own:
            own.create_topics([NewTopic("of-the-child", 1)]).raise_first()
        admin.close()
        code = 0
    os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(sorted(topic.name for topic in admin.list_topics()))
admin.close()
"""
    assert run_script(script, bootstrap) == "['of-the-child', 'of-the-parent']\n"


def test_the_process_ends_though_a_client_is_still_open(bootstrap: str) -> None:
    script = """
import sys
from broker.client import SyncAdmin
admin = SyncAdmin(sys.argv[1])
admin.list_topics()
"""
    run_script(script, bootstrap)


def test_clients_that_are_open_at_the_end_of_the_process_are_closed_in_order() -> None:
    script = """
from contextlib import asynccontextmanager
from broker.client.blocking.calls import do_in_calling_thread
from broker.client.blocking.client import BlockingHost
from broker.client.hosted.loop import PROCESS_LOOP
@asynccontextmanager
async def client():
    yield None
    print("closed")
hosted = BlockingHost(PROCESS_LOOP.get(), client())
"""
    assert run_script(script) == "closed\n"


def test_the_process_ends_though_a_thread_waits_for_an_answer() -> None:
    script = (
        SILENT_SERVER
        + """
admin = SyncAdmin(bootstrap)
def call():
    try:
        admin.list_topics()
    except ClosedError:
        print("closed")
threading.Thread(target=call, daemon=True).start()
connection, _ = server.accept()  # open until the end
"""
    )
    run_script(script)
