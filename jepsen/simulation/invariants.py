"""What must hold after every event, whatever has gone wrong: one class for each invariant.

They listen to what nodes trace and to what befalls hosts, and know more than any node does.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from broker.storage.log_dirs import NoLogDirOnline
from jepsen.simulation.hosts import Host, leaves
from jepsen.simulation.trace import Event, Trace


class Invariant(Protocol):
    def observe(self, event: Event) -> str | None:
        """What is wrong now that this has happened; None where all is well."""
        ...


class Watch:
    """Shows every event to every invariant, and tells `on_violation` what is broken and how.

    It does not raise: an event is traced in the middle of something that might catch it.
    """

    def __init__(self, trace: Trace, invariants: Sequence[Invariant], on_violation: Callable[[str], None]) -> None:
        self._invariants = invariants
        self._on_violation = on_violation
        trace.listeners.append(self._observe)

    def _observe(self, event: Event) -> None:
        for invariant in self._invariants:
            wrong = invariant.observe(event)
            if wrong is not None:
                self._on_violation(f"{type(invariant).__name__}: {wrong}")


class OneLeaderPerEpoch:
    """No epoch of the metadata log has two leaders (Raft's election safety, section 5.2 of the paper)."""

    def __init__(self) -> None:
        self._leaders: dict[object, tuple[object, object]] = {}

    def observe(self, event: Event) -> str | None:
        if event.kind != "leader":
            return None
        who = (event.fields["node"], event.host)
        first = self._leaders.setdefault(event.fields["epoch"], who)
        return None if first == who else f"epoch {event.fields['epoch']} has the leaders {first} and {who}"


class EpochsNeverGoBack:
    """A node never takes part in an epoch below one it was in, across all its lives."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}

    def observe(self, event: Event) -> str | None:
        if event.kind != "leader":
            return None
        epoch, before = _int(event, "epoch"), self._epochs.get(event.host, 0)
        self._epochs[event.host] = max(epoch, before)
        return f"{event.host} leads in epoch {epoch} after {before}" if epoch < before else None


class CommittedEntriesStay:
    """What a single voter has committed is still in its log when it recovers, also after a power cut.

    Entries count as committed once they are synced, and also when a leader begins to lead with them: it hands over
    all that it found.
    """

    def __init__(self) -> None:
        self._committed: dict[str, int] = {}
        self._recovered: dict[str, int] = {}

    def observe(self, event: Event) -> str | None:
        host = event.host
        if event.kind == "log_recovered":
            self._recovered[host] = end = _int(event, "end_offset")
            if end < self._committed.get(host, 0):
                return f"{host} recovered up to {end}, and had committed up to {self._committed[host]}"
        elif event.kind == "log_synced":
            self._committed[host] = max(self._committed.get(host, 0), _int(event, "end_offset"))
        elif event.kind == "leader":
            self._committed[host] = max(self._committed.get(host, 0), self._recovered.get(host, 0))
        return None


class DiesOfFaultsOnly:
    """A node ends by itself only when its disk fails, and only with the errors that say so."""

    _ALLOWED = (OSError, NoLogDirOnline)

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        self._hosts = hosts
        self._met_before: dict[str, int] = {}

    def observe(self, event: Event) -> str | None:
        if event.kind == "process-started":
            self._met_before[event.host] = self._hosts[event.host].volume.faults_met
        if event.kind != "process-ended":
            return None
        host = self._hosts[event.host]
        causes = [] if host.cause is None else list(leaves(host.cause))
        strange = [cause for cause in causes if not isinstance(cause, self._ALLOWED)]
        if strange:
            return f"{host} died of {strange[0]!r}"
        if causes and host.volume.faults_met == self._met_before[host.name]:
            return f"{host} died of {causes[0]!r}, and nothing was wrong with its disk"
        return None


class HandlersNeverFail:
    """No request makes a handler fail in a way that nobody has thought of."""

    def observe(self, event: Event) -> str | None:
        return str(event.fields["error"]) if event.kind == "handler-failed" else None


def node_invariants(hosts: Mapping[str, Host]) -> list[Invariant]:
    """All of them, for one simulation."""
    return [
        OneLeaderPerEpoch(),
        EpochsNeverGoBack(),
        CommittedEntriesStay(),
        DiesOfFaultsOnly(hosts),
        HandlersNeverFail(),
    ]


def _int(event: Event, name: str) -> int:
    value: Any = event.fields[name]
    assert isinstance(value, int), f"{name} of {event} is an offset or an epoch"
    return value
