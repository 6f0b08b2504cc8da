"""A node of a test cluster, in the process that the zygote has forked for it.

It is the `Node` that `kraft start` runs, with an environment of its own: disk, clock and sockets with faults
(`jepsen.testing.faulty_environment`), and a tracer that reports events to the supervisor. One socket to the supervisor
carries JSON lines, commands in and events out:

    supervisor -> node   {"properties": "node.properties", ...}, the `NodeSpec`, and then
                         {"id": 1, "command": "stop", ...}
    node -> supervisor   {"id": 1, "value": ...} or {"id": 1, "error": "..."}
                         {"event": "leader_elected", "level": "info", "at": 12.5, "fields": {...}}
                         {"fault": "fault-1", "fired": 3, "held": 1}
                         {"serving": true}

`jepsen.testing.node_commands` has the commands, and `jepsen.testing.node_faults` those on faults. The node ends at once
when the socket is closed.
"""

import gc
import os
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import attrs
import trio

from broker.cli.event_printer import EventPrinter
from broker.cli.node_config import read_node_config
from broker.events import ALL_CATALOGUES, EVENT_KINDS
from broker.log_levels import LogLevels
from broker.node import Node
from jepsen.testing.faulty_environment import FaultyEnvironment
from jepsen.testing.json_lines import JsonLines
from jepsen.testing.node_commands import COMMANDS, CommandRefused, Commands
from kraft.events import Level

# Events that wait for the supervisor. A node reports a few hundred when a cluster of hundreds of partitions changes.
_EVENTS_MAX: Final = 10_000
# Events below the level `info` that a timeline needs: they name each partition.
_REPORTED_BELOW_INFO: Final = ("partition_changed",)
_LOST_SUPERVISOR: Final = 71


@attrs.frozen
class NodeSpec:
    """The request for a node: its properties file, configs that win over it, the file for its output, the level of its
    log, the seed of its random numbers, the faults that are in force from its first request on, and the node that
    listens on each port of the cluster.
    """

    properties: str
    overrides: tuple[str, ...]
    output: str
    log_level: str
    seed: str
    faults: Mapping[str, Mapping[str, Any]]
    ports: Mapping[str, int]


def run_node(supervisor: socket.socket) -> int:
    """Run a node until the supervisor asks it to stop, or has ended. Returns the exit code of the process."""
    trio.run(_run, supervisor)
    return 0


async def _run(supervisor: socket.socket) -> None:
    link = JsonLines(supervisor)
    messages = link.received()
    async for message in messages:
        await _run_node(link, messages, NodeSpec(**{**message, "overrides": tuple(message["overrides"])}))
        return
    os._exit(_LOST_SUPERVISOR)


async def _run_node(link: JsonLines, messages: AsyncIterator[dict[str, Any]], spec: NodeSpec) -> None:
    _write_output_to(spec.output)
    config = read_node_config(spec.properties, spec.overrides)
    reporter = _EventReporter(link)
    levels = LogLevels([catalogue.package for catalogue in ALL_CATALOGUES], Level[spec.log_level.upper()])
    printer = EventPrinter(config.node_id, levels)

    def trace(kind: str, /, **fields: object) -> None:
        printer.trace(kind, **fields)
        reporter.trace(kind, **fields)

    environment = FaultyEnvironment(
        config.node_id, list(config.log_directories), spec.seed, spec.ports, trace, reporter.report
    )
    environment.begin_all(spec.faults)
    node = Node(environment.env, config, levels, environment.dispatchers)
    async with trio.open_nursery() as nursery:
        await nursery.start(environment.run)
        nursery.start_soon(printer.run)
        nursery.start_soon(reporter.run)
        nursery.start_soon(_take_commands, node, link, messages, nursery, {**COMMANDS, **environment.commands})
        await node.run(task_status=_Serving(node, reporter))
        await reporter.flush()
        nursery.cancel_scope.cancel()


def _write_output_to(path: str) -> None:
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)


async def _take_commands(
    node: Node, link: JsonLines, messages: AsyncIterator[dict[str, Any]], nursery: trio.Nursery, commands: Commands
) -> None:
    async for message in messages:
        nursery.start_soon(_serve_command, node, link, message, commands)
    os._exit(_LOST_SUPERVISOR)


async def _serve_command(node: Node, link: JsonLines, message: dict[str, Any], commands: Commands) -> None:
    number, name = message.pop("id"), message.pop("command")
    try:
        answer = {"id": number, "value": await commands[name](node, **message)}
    except CommandRefused as refused:
        answer = {"id": number, "error": str(refused)}
    await link.send(answer)


class _EventReporter:
    """A tracer that reports events to the supervisor. The oldest ones are lost if they cannot be sent fast enough."""

    def __init__(self, link: JsonLines) -> None:
        self._link = link
        self._waiting: deque[dict[str, object]] = deque(maxlen=_EVENTS_MAX)
        self._arrived = trio.Event()
        self._levels = {
            kind: declared.level.name.lower()
            for kind, declared in EVENT_KINDS.items()
            if declared.level >= Level.INFO or kind in _REPORTED_BELOW_INFO
        }

    def trace(self, kind: str, /, **fields: object) -> None:
        if (level := self._levels.get(kind)) is not None:
            self.report({"event": kind, "level": level, "at": time.monotonic(), "fields": fields})

    def report(self, message: dict[str, object]) -> None:
        self._waiting.append(message)
        self._arrived.set()

    async def run(self) -> None:
        """Send what is reported, until cancelled."""
        while True:
            await self._arrived.wait()
            await self.flush()

    async def flush(self) -> None:
        """Send all that has been reported."""
        self._arrived = trio.Event()
        messages, self._waiting = self._waiting, deque(maxlen=_EVENTS_MAX)
        await self._link.send(*messages)


@attrs.frozen
class _Serving:
    """The `task_status` of the node: tells the supervisor that it serves.

    A node that is stopped while it waits for other nodes reports a start, too, and does not serve.
    """

    node: Node
    reporter: _EventReporter

    def started(self, value: None = None) -> None:
        if self.node.is_serving:
            gc.freeze()
            self.reporter.report({"serving": True})
