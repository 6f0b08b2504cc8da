"""The faults of one node: the supervisor begins and ends them, and is told when they fire."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import attrs
import trio

from broker.node import Node
from jepsen.testing.faults import ActiveFault, FaultRefused, RequestFilter, fault_of
from jepsen.testing.faults.fault import ActionKind, selection_of
from jepsen.testing.faults.shapes import Subject
from jepsen.testing.node_commands import CommandRefused

# Requests that one answer has at most: about 300 bytes each.
REQUESTS_MAX: Final = 1_000
# The kinds of faults.
REQUEST: Final = "request"
LINK: Final = "link"
DISK: Final = "disk"
CLOCK: Final = "clock"


class BegunFault(Protocol):
    """A fault that is in force on this node. `fired` counts what it has affected, and `firings` has the latest."""

    id: str
    fired: int
    held: int

    @property
    def firings(self) -> Iterable[Any]: ...

    def release(self) -> None: ...

    def retire(self) -> None: ...


class FaultKind(Protocol):
    """The faults of one kind on this node. `begin` raises FaultRefused."""

    @property
    def faults(self) -> Mapping[str, Any]: ...

    def begin(self, fault_id: str, words: Mapping[str, Any]) -> None: ...

    def end(self, active: Any) -> None: ...


class RequestFaults:
    """The faults of the protocol."""

    def __init__(self, requests: RequestFilter) -> None:
        self._requests = requests

    @property
    def faults(self) -> Mapping[str, ActiveFault]:
        return self._requests.faults

    def begin(self, fault_id: str, words: Mapping[str, Any]) -> None:
        self._requests.begin(fault_of(words), fault_id)

    def end(self, active: ActiveFault) -> None:
        self._requests.end(active)


class NodeFaults:
    """`report` gets `{"fault": ID, "fired": 3, "held": 1}` after a fault has changed. `kinds` has the other kinds."""

    def __init__(self, node_id: int, report: Callable[[dict[str, object]], None]) -> None:
        self.requests = RequestFilter(node_id, time.time, self.changed)
        self.kinds: dict[str, FaultKind] = {REQUEST: RequestFaults(self.requests)}
        self.commands: Mapping[str, Callable[..., Awaitable[Any]]] = {
            "begin_fault": self.begin,
            "describe_fault": self.describe,
            "end_fault": self.end,
            "list_requests": self.list_requests,
            "release_fault": self.release,
            "retire_fault": self.retire,
        }
        self._report = report
        self._changed: dict[str, BegunFault] = {}
        self._has_changed = trio.Event()

    def begin_all(self, faults: Mapping[str, Mapping[str, Any]]) -> None:
        """Put the faults in force that were begun before this process. Its metadata cannot be older than it."""
        for fault_id, described in faults.items():
            words = described["words"]
            if described["kind"] != REQUEST or fault_of(words).kind is not ActionKind.STALE:
                self.kinds[described["kind"]].begin(fault_id, words)

    async def begin(self, node: Node, fault: str, kind: str, words: Mapping[str, Any]) -> None:
        if self._find(fault) is not None:
            return  # this process has begun with it
        try:
            self.kinds[kind].begin(fault, words)
        except (FaultRefused, OSError) as refused:  # the process has no descriptor for another socket
            raise CommandRefused(str(refused)) from refused

    async def end(self, node: Node, fault: str) -> dict[str, Any] | None:
        """End a fault. Returns its last counts and firings; None if it has ended before."""
        described = await self.describe(node, fault)
        for kind in self.kinds.values():
            if (active := kind.faults.get(fault)) is not None:
                kind.end(active)
        return described

    async def release(self, node: Node, fault: str) -> None:
        if (active := self._find(fault)) is not None:
            active.release()

    async def retire(self, node: Node, fault: str) -> None:
        """Do not let it fire again; it has fired often enough on other nodes."""
        if (active := self._find(fault)) is not None:
            active.retire()

    async def describe(self, node: Node, fault: str) -> dict[str, Any] | None:
        """The counts and the firings of a fault; None after its end."""
        active = self._find(fault)
        return None if active is None else {**_counts(active), "firings": list(map(_shown, active.firings))}

    def _find(self, fault: str) -> BegunFault | None:
        found: list[BegunFault] = [kind.faults[fault] for kind in self.kinds.values() if fault in kind.faults]
        return found[0] if found else None

    async def list_requests(self, node: Node, words: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The latest requests that a selection concerns."""
        found = list(self.requests.history.matching(selection_of(words)))
        return [_shown(served) for served in found[-REQUESTS_MAX:]]

    def changed(self, active: BegunFault) -> None:
        """Called when a fault has fired, or holds more or fewer."""
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


def _counts(active: BegunFault) -> dict[str, object]:
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
