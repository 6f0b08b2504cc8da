"""The environment of a node of a test cluster: disk, clock, sockets and dispatchers that pass through its faults."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

import trio

from jepsen.testing.faults import filtered_dispatchers
from jepsen.testing.faults.client_events import ClientEvents
from jepsen.testing.faulty_disk import DiskFaults, FaultyDisk
from jepsen.testing.flipped_bit import BitFlipper
from jepsen.testing.links import NodeLinks
from jepsen.testing.node_clock import NodeClock
from jepsen.testing.node_commands import Commands
from jepsen.testing.node_faults import CLOCK, DISK, LINK, NodeFaults
from kraft.env import Env, Tracer


class FaultyEnvironment:
    """`env` and `dispatchers` are for the `Node`; `commands` are those that the supervisor sends.

    `report` gets messages for the supervisor. Sockets of the calling Trio program pass through faults from here on.
    """

    def __init__(
        self,
        node_id: int,
        log_directories: list[str],
        seed: str,
        ports: Mapping[str, int],
        trace: Tracer,
        report: Callable[[dict[str, object]], None],
    ) -> None:
        self.faults = NodeFaults(node_id, report)
        events = ClientEvents(partial(_report_event, report), self.faults.requests.name_of)
        self.faults.requests.when_answered = events.answered
        disk = DiskFaults(node_id, time.time, self.faults.changed)
        clock = NodeClock(node_id, self.faults.changed)
        self._links = NodeLinks(
            node_id, {int(port): node for port, node in ports.items()}, time.time, self.faults.changed
        )
        self.faults.kinds |= {LINK: self._links, DISK: disk, CLOCK: clock}
        self.env = Env(FaultyDisk(disk), Random(seed), clock.now, trace)
        self.dispatchers = filtered_dispatchers(self.faults.requests, self._links)
        self.commands: Commands = {**self.faults.commands, **clock.commands, **BitFlipper(log_directories).commands}

    def begin_all(self, faults: Mapping[str, Mapping[str, Any]]) -> None:
        """Put the faults in force that were begun before this process, and make its sockets from here on."""
        self.faults.begin_all(faults)
        trio.socket.set_custom_socket_factory(self._links)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry the bytes of links, and report changes of faults, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._links.run)
            nursery.start_soon(self.faults.run)
            task_status.started()


def _report_event(report: Callable[[dict[str, object]], None], kind: str, fields: dict[str, object]) -> None:
    report({"event": kind, "level": "info", "at": time.monotonic(), "fields": fields})
