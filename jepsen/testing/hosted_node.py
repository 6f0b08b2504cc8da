"""One node of a test cluster, over all its processes, as the supervisor sees it."""

import contextlib
import signal
import socket
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from broker.cli.local_cluster import LocalNode
from jepsen.testing.errors import ActionRefused, NodeFailed, NodeNotRunning, NotReached
from jepsen.testing.json_lines import JsonLines
from jepsen.testing.zygote_link import ForkedProcess, ForkFailed, ZygoteLink

# A node answers a command within a turn of its loop. One that takes longer is stuck.
_COMMAND_S: Final = 5.0
# A node moves its leaders and writes its logs before it ends. One that takes longer is stuck, or suspended.
SHUTDOWN_S: Final = 30.0
_OUTPUT_LINES: Final = 30


class NodeState(StrEnum):
    """A node that is `down` was never started, or was stopped or killed. One that has `failed` has ended unasked."""

    DOWN = "down"
    STARTING = "starting"
    SERVING = "serving"
    PAUSED = "paused"
    FAILED = "failed"


@attrs.frozen
class NodeSettings:
    """`key` names the node among all of the server. `overrides` win over its properties file. The random numbers of its
    processes follow from `seed`. `ports` has the node that listens on each port of the cluster.
    """

    key: str
    overrides: list[str]
    log_level: str
    seed: str
    ports: Mapping[int, int]


class HostedNode:
    """`report` gets each event of the node, and each change of a fault. `faults` are those that a process begins with.

    The tasks of its processes run in `nursery`.
    """

    def __init__(
        self,
        local: LocalNode,
        settings: NodeSettings,
        zygote: ZygoteLink,
        nursery: trio.Nursery,
        report: Callable[[int, Mapping[str, Any]], None],
        faults: Callable[[int], Mapping[str, Any]],
    ) -> None:
        self.node_id = local.node_id
        self.address = local.address
        self.state = NodeState.DOWN
        self.process: ForkedProcess | None = None
        self.output = Path(local.properties_path).with_suffix(".log")
        self._properties = local.properties_path
        self._settings = settings
        self._zygote = zygote
        self._nursery = nursery
        self._report = report
        self._faults = faults
        self._link: JsonLines | None = None
        self._answers: dict[int, _Answer] = {}
        self._commands = 0
        self.launches = 0
        self._changed = trio.Event()
        # Held while a process is forked: it can be killed only after that.
        self._launching = trio.Lock()
        self._is_closed = self._is_stopping = False

    @property
    def is_running(self) -> bool:
        return self.state in (NodeState.STARTING, NodeState.SERVING, NodeState.PAUSED)

    @property
    def is_paused(self) -> bool:
        return self.state is NodeState.PAUSED

    @property
    def _has_process(self) -> bool:
        """True also while the node shuts down."""
        return self.process is not None and not self.process.ended.is_set()

    async def launch(self) -> None:
        """Start a process. It may not serve before other nodes run. Raises ActionRefused."""
        async with self._launching:
            if self._is_closed:
                raise ActionRefused("the cluster has ended")
            if self.is_running:
                raise ActionRefused(f"node {self.node_id} runs already")
            if self._has_process:
                raise ActionRefused(f"node {self.node_id} has not shut down yet")
            ours, theirs = socket.socketpair()
            self.launches += 1
            try:
                self.process = await self._zygote.fork(f"{self._settings.key}-{self.launches}", theirs)
            except ForkFailed as failed:
                ours.close()
                raise ActionRefused(f"node {self.node_id} has no process: {failed}") from failed
            # From here on, commands are sent. They come after the spec, as `send` takes its lock at once.
            self._set_state(NodeState.STARTING)
            self._link = JsonLines(ours)
            self._nursery.start_soon(self._follow, self.process, self._link)
            spec = {
                "properties": self._properties,
                "overrides": self._settings.overrides,
                "output": str(self.output),
                "log_level": self._settings.log_level,
                "seed": f"{self._settings.seed}/{self.launches}",
                "faults": self._faults(self.node_id),
                "ports": self._settings.ports,
            }
            with contextlib.suppress(trio.BrokenResourceError):  # the process has ended
                await self._link.send(spec)

    async def wait_serving(self) -> None:
        """Raises NodeFailed if the node ends before it serves."""
        while self.state is not NodeState.SERVING:
            if not self.is_running:
                raise NodeFailed(f"node {self.node_id} has ended:\n{self.output_tail()}")
            await self._changed.wait()

    async def begin_stop(self) -> None:
        """Ask it to shut down cleanly. Raises ActionRefused."""
        process = self._running("stop")
        self._is_stopping = True  # a process that is paused meanwhile would never end
        try:
            with trio.CancelScope(shield=True):  # a node that was asked ends, so its state has to say so
                await self.call("stop")
        finally:
            self._is_stopping = False
        if self.process is process:
            self._set_state(NodeState.DOWN)

    async def wait_ended(self) -> None:
        """Wait until its process has ended. Raises NotReached."""
        process = self.process
        if process is None:
            return
        with trio.move_on_after(SHUTDOWN_S):
            await process.ended.wait()
        if not process.ended.is_set():
            raise NotReached(
                f"node {self.node_id} has not shut down within {SHUTDOWN_S:g} s; it may be suspended (SIGSTOP), and "
                f"kill({self.node_id}) ends it. The end of its log:\n{self.output_tail()}"
            )

    async def kill(self) -> None:
        """kill -9, also while it shuts down. The node's process has ended on return. Raises ActionRefused."""
        async with self._launching:
            if not self._has_process:
                self._running("kill")
            await self._kill()

    async def close(self) -> None:
        """Kill the process, if there is one. No other is started."""
        async with self._launching:
            self._is_closed = True
            await self._kill()

    async def _kill(self) -> None:
        process = self.process
        if process is not None and not process.ended.is_set():
            self._set_state(NodeState.DOWN)
            await self._zygote.signal(process, signal.SIGKILL)
            await process.ended.wait()

    async def pause(self) -> None:
        process = self._running("pause")
        if self.is_paused:
            raise ActionRefused(f"node {self.node_id} is paused already")
        if self.state is NodeState.STARTING:
            raise ActionRefused(f"node {self.node_id} does not serve yet")
        if self._is_stopping:
            raise ActionRefused(f"node {self.node_id} shuts down")
        self._set_state(NodeState.PAUSED)
        await self._zygote.signal(process, signal.SIGSTOP)

    async def resume(self) -> None:
        process = self._running("resume")
        if not self.is_paused:
            raise ActionRefused(f"node {self.node_id} is not paused")
        self._set_state(NodeState.SERVING)  # first, because a kill may come during the signal
        await self._zygote.signal(process, signal.SIGCONT)

    async def call(self, command: str, **arguments: object) -> Any:
        """Have the node serve a command of `jepsen.testing.node_commands`. Raises ActionRefused; NodeNotRunning if it
        ends meanwhile.

        A paused node is not asked: it would carry the command out when it is resumed, after the caller has given up.
        """
        self._running(command)
        if self.is_paused:
            raise ActionRefused(f"{command}: node {self.node_id} is paused; `resume` lets it go on")
        assert self._link is not None, "it runs"
        self._commands += 1
        number, answer = self._commands, _Answer(self._link)
        self._answers[number] = answer
        try:
            with trio.fail_after(_COMMAND_S):
                # Where the node cannot be reached, `_follow` ends the wait once its process has ended.
                with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._link.send({"id": number, "command": command, **arguments})
                await answer.arrived.wait()
        except trio.TooSlowError:
            raise ActionRefused(
                f"node {self.node_id} has not answered within {_COMMAND_S:g} s; it may be suspended (SIGSTOP), and "
                f"kill({self.node_id}) ends it"
            ) from None
        finally:
            del self._answers[number]
        if answer.has_lost_node:
            raise NodeNotRunning(f"{command}: node {self.node_id} has ended{self._failure()}")
        if answer.error is not None:
            raise ActionRefused(f"node {self.node_id}: {answer.error}")
        return answer.value

    def output_tail(self) -> str:
        """The end of the node's log."""
        text = self.output.read_text(errors="replace") if self.output.exists() else ""
        return "\n".join(text.splitlines()[-_OUTPUT_LINES:])

    def _running(self, action: str) -> ForkedProcess:
        if not self.is_running or self.process is None:
            raise NodeNotRunning(f"{action}: node {self.node_id} does not run, it is {self.state}{self._failure()}")
        return self.process

    def _failure(self) -> str:
        """How a node that has failed has ended, with the end of its log; empty for other nodes."""
        if self.state is not NodeState.FAILED or self.process is None or self.process.code is None:
            return ""
        code = self.process.code
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return f": its process has ended by itself {how}. The end of its log, {self.output}:\n{self.output_tail()}"

    async def _follow(self, process: ForkedProcess, link: JsonLines) -> None:
        """Take the messages of one process until it has ended."""
        try:
            async for message in link.received():
                self._take(message, link)
            await process.ended.wait()
            if self._link is link and self.is_running:
                self._set_state(NodeState.FAILED)
        finally:
            for answer in self._answers.values():
                if answer.link is link:
                    answer.has_lost_node = True
                    answer.arrived.set()
            await link.aclose()

    def _take(self, message: Mapping[str, Any], link: JsonLines) -> None:
        if "event" in message or "fault" in message:
            self._report(self.node_id, message)
        elif "serving" in message:
            if self._link is link and self.state is NodeState.STARTING:
                self._set_state(NodeState.SERVING)
        elif (answer := self._answers.get(message["id"])) is not None:
            answer.error, answer.value = message.get("error"), message.get("value")
            answer.arrived.set()

    def _set_state(self, state: NodeState) -> None:
        self.state = state
        self._changed.set()
        self._changed = trio.Event()


@attrs.define(eq=False)
class _Answer:
    link: JsonLines
    has_lost_node: bool = False
    arrived: trio.Event = attrs.field(factory=trio.Event)
    value: Any = None
    error: str | None = None
