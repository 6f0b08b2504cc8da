"""Restarts one node by a command, and finds out that it has stopped and has returned.

Nothing in Kafka's protocol tells a client that a node was restarted. But a node that stops closes its connections, and
one that has returned accepts connections again.
"""

import subprocess
import tempfile
from collections import deque
from collections.abc import Iterable, Sequence
from typing import IO, Final

import attrs
import trio

from broker.cli.commands.cluster_health import ControllerHealth
from broker.cli.grammar import CommandFailed

# A node also closes connections that are idle or do not authenticate, some seconds after it accepted them. So none is
# held for longer than two or three times this.
_RENEW_S: Final = 1.0
_LOOK_S: Final = 0.1
# The end of the output of a restart command, of which the last line is shown.
_SAID_BYTES: Final = 4096


@attrs.frozen
class RestartedNode:
    """A node, and the address at which clients or controllers reach it."""

    id: int
    host: str
    port: int


@attrs.frozen
class ReturnedNode:
    """A node that has accepted a connection at the time `since`, after it had stopped."""

    id: int
    since: float

    def lacks(self, controllers: Iterable[ControllerHealth], began: float) -> str | None:
        """Why the node's vote does not count again yet; None if it does. The controllers were requested at `began`.

        A voter that stopped counts as alive for some seconds more. One that has returned fetches again.
        """
        for each in controllers:
            if each.id == self.id and (each.silent_ms is None or began - each.silent_ms / 1000 < self.since):
                return f"controller {self.id} has not fetched since its restart"
        return None


async def restart_node(node: RestartedNode, command: Sequence[str], timeout_s: float) -> ReturnedNode:
    """Run the command, and wait until the node has stopped and accepts connections again. Raises CommandFailed.

    Each of the three may take `timeout_s`.
    """
    watch = _StopWatch(node)
    failure: CommandFailed | None = None
    async with trio.open_nursery() as nursery:
        try:
            await watch.start(nursery)
            await _run(node, command, timeout_s)
            await watch.wait(timeout_s)
        except CommandFailed as error:
            failure = error  # the nursery would put it into a group
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return await _await_return(node, timeout_s)


class _StopWatch:
    """Finds out that a node closes its connections. Connections are renewed, and two or three are held at a time."""

    def __init__(self, node: RestartedNode) -> None:
        self._node = node
        self._stopped = trio.Event()
        self._held: deque[trio.CancelScope] = deque()

    async def start(self, nursery: trio.Nursery) -> None:
        """Begin to hold connections. Raises CommandFailed if the node accepts none, or closes them by itself."""
        node = self._node
        try:
            stream = await trio.open_tcp_stream(node.host, node.port)
        except OSError as error:
            raise CommandFailed(f"Node {node.id} cannot be reached at {node.host}:{node.port}: {error}") from error
        self._hold(nursery, stream)
        with trio.move_on_after(_RENEW_S):
            await self._stopped.wait()
            raise CommandFailed(
                f"Node {node.id} closes connections to {node.host}:{node.port} by itself, so that nothing would show "
                "that it has stopped: look at the limits of connections of its listener."
            )
        nursery.start_soon(self._renew, nursery)

    async def wait(self, timeout_s: float) -> None:
        """Wait until the node has stopped. Raises CommandFailed."""
        with trio.move_on_after(timeout_s):
            await self._stopped.wait()
        if not self._stopped.is_set():
            raise CommandFailed(
                f"Node {self._node.id} has not stopped: its connections stay open {timeout_s:.0f} s after the command."
            )

    async def _renew(self, nursery: trio.Nursery) -> None:
        while True:
            try:
                stream = await trio.open_tcp_stream(self._node.host, self._node.port)
            except OSError:
                stream = None  # it stops: the connections that are held end soon
            if stream is not None:
                self._hold(nursery, stream)
                if len(self._held) > 2:
                    self._held.popleft().cancel()
            await trio.sleep(_RENEW_S)

    def _hold(self, nursery: trio.Nursery, stream: trio.SocketStream) -> None:
        scope = trio.CancelScope()
        self._held.append(scope)
        nursery.start_soon(self._await_closed, stream, scope)

    async def _await_closed(self, stream: trio.SocketStream, scope: trio.CancelScope) -> None:
        async with stream:
            with scope:
                await _read_to_end(stream)
                self._stopped.set()


async def _run(node: RestartedNode, command: Sequence[str], timeout_s: float) -> None:
    """Run the restart command. Raises CommandFailed if it fails, or does not end in time; then it runs on.

    Its output is a file: a pipe would be held by a node that the command starts as a child, and would end with this
    process.
    """
    with tempfile.TemporaryFile() as output:
        try:
            process = await trio.lowlevel.open_process(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,  # Ctrl-C of the terminal ends this command, and not a restart half-way
            )
        except OSError as error:
            raise CommandFailed(f"{command[0]} cannot be run: {error.strerror or error}") from error
        deadline = trio.current_time() + timeout_s
        try:
            with trio.CancelScope(deadline=deadline):
                await process.wait()
        except BaseException:
            with trio.CancelScope(deadline=deadline, shield=True):
                await process.wait()
            raise
        if process.returncode is None:
            raise CommandFailed(
                f"The restart command of node {node.id} has not ended after {timeout_s:.0f} s. It runs on as process "
                f"{process.pid}."
            )
        if process.returncode:
            raise CommandFailed(
                f"The restart command of node {node.id} ended with exit code {process.returncode}{_last_line(output)}"
            )


def _last_line(output: IO[bytes]) -> str:
    size = output.seek(0, 2)
    output.seek(max(0, size - _SAID_BYTES))
    lines = output.read(_SAID_BYTES).decode(errors="backslashreplace").strip().splitlines()
    return f": {lines[-1]}" if lines else ""


async def _await_return(node: RestartedNode, timeout_s: float) -> ReturnedNode:
    """Wait until the node accepts connections, and keeps one open: a node that stops may accept some.

    Raises CommandFailed.
    """
    with trio.move_on_after(timeout_s):
        while not await _keeps_connection(node):
            await trio.sleep(_LOOK_S)
        return ReturnedNode(node.id, trio.current_time())
    raise CommandFailed(
        f"Node {node.id} has stopped, and does not accept connections {timeout_s:.0f} s later: start it."
    )


async def _keeps_connection(node: RestartedNode) -> bool:
    try:
        stream = await trio.open_tcp_stream(node.host, node.port)
    except OSError:
        return False
    async with stream:
        with trio.move_on_after(_RENEW_S) as held:
            await _read_to_end(stream)
    return held.cancelled_caught


async def _read_to_end(stream: trio.SocketStream) -> None:
    try:
        while await stream.receive_some():
            pass
    except trio.BrokenResourceError:
        return
