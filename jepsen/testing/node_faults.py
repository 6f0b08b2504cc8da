"""The faults of one node: the supervisor begins and ends them, and is told when they fire."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
import trio

from broker.node import Node
from jepsen.testing.faults import ActiveFault, FaultRefused, RequestFilter, fault_of
from jepsen.testing.faults.fault import ActionKind, selection_of
from jepsen.testing.faults.shapes import Subject
from jepsen.testing.node_commands import CommandRefused

# Requests that one answer has at most: about 300 bytes each.
REQUESTS_MAX: Final = 1_000


class NodeFaults:
    """`report` gets `{"fault": ID, "fired": 3, "held": 1}` after a fault has changed."""

    def __init__(self, node_id: int, report: Callable[[dict[str, object]], None]) -> None:
        self.requests = RequestFilter(node_id, time.time, self._fault_changed)
        self.commands: Mapping[str, Callable[..., Awaitable[Any]]] = {
            "begin_fault": self.begin,
            "describe_fault": self.describe,
            "end_fault": self.end,
            "list_requests": self.list_requests,
            "release_fault": self.release,
            "retire_fault": self.retire,
        }
        self._report = report
        self._changed: dict[str, ActiveFault] = {}
        self._has_changed = trio.Event()

    def begin_all(self, faults: Mapping[str, Mapping[str, Any]]) -> None:
        """Put the faults in force that were begun before this process. Its metadata cannot be older than it."""
        for fault_id, words in faults.items():
            fault = fault_of(words)
            if fault.kind is not ActionKind.STALE:
                self.requests.begin(fault, fault_id)

    async def begin(self, node: Node, fault: str, words: Mapping[str, Any]) -> None:
        if fault in self.requests.faults:
            return  # this process has begun with it
        try:
            self.requests.begin(fault_of(words), fault)
        except FaultRefused as refused:
            raise CommandRefused(str(refused)) from refused

    async def end(self, node: Node, fault: str) -> None:
        if (active := self.requests.faults.get(fault)) is not None:
            self.requests.end(active)

    async def release(self, node: Node, fault: str) -> None:
        if (active := self.requests.faults.get(fault)) is not None:
            active.release()

    async def retire(self, node: Node, fault: str) -> None:
        """Do not let it fire again; it has fired often enough on other nodes."""
        if (active := self.requests.faults.get(fault)) is not None:
            active.retire()

    async def describe(self, node: Node, fault: str) -> dict[str, Any] | None:
        """The counts and the firings of a fault; None after its end."""
        active = self.requests.faults.get(fault)
        return None if active is None else {**_counts(active), "firings": list(map(_shown, active.firings))}

    async def list_requests(self, node: Node, words: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The latest requests that a selection concerns."""
        found = list(self.requests.history.matching(selection_of(words)))
        return [_shown(served) for served in found[-REQUESTS_MAX:]]

    def _fault_changed(self, active: ActiveFault) -> None:
        self._changed[active.id] = active
        self._has_changed.set()

    async def run(self) -> None:
        """Report changes, until cancelled. Changes between two reports are one."""
        while True:
            await self._has_changed.wait()
            self._has_changed = trio.Event()
            changed, self._changed = self._changed, {}
            for active in changed.values():
                self._report(_counts(active))
            await trio.lowlevel.checkpoint()


def _counts(active: ActiveFault) -> dict[str, object]:
    return {"fault": active.id, "fired": active.fired, "held": active.held}


def _shown(value: Any) -> Any:
    """An attrs object as JSON has it: without private fields, and a subject with the parts that it has."""
    if isinstance(value, tuple):
        return [_shown(each) for each in value]
    if not attrs.has(type(value)):
        return value
    fields = {each.name: getattr(value, each.name) for each in attrs.fields(type(value)) if each.name[0] != "_"}
    is_subject = isinstance(value, Subject)
    return {name: _shown(each) for name, each in fields.items() if not (is_subject and each is None)}
