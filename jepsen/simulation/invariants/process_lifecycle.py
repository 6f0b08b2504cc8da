"""Invariants about the end of processes and the failure of requests."""

from collections.abc import Mapping, Sequence

from jepsen.simulation.hosts import Host, leaves
from jepsen.simulation.invariants.watch import Invariant
from jepsen.simulation.trace import Event
from kraft.log import CorruptLog


class OnlyFaultsEndProcesses:
    """A node ends by itself only after a failure of its disk, and only with one of the errors in `allowed`.

    `hosts` are those of nodes. CorruptLog is allowed as well, but only on a host whose disk is damaged.
    """

    kinds: Sequence[str] = ("process_started", "process_ended")

    def __init__(self, hosts: Mapping[str, Host], allowed: tuple[type[Exception], ...]) -> None:
        self._hosts = hosts
        self._allowed = allowed
        self._met_before: dict[str, int] = {}

    def observe(self, event: Event) -> str | None:
        host = self._hosts.get(event.host)
        if host is None:
            return None
        if event.kind == "process_started":
            self._met_before[event.host] = host.volume.faults_met
            return None
        causes = [] if host.cause is None else list(leaves(host.cause))
        is_damaged = host.volume.is_damaged
        allowed = (*self._allowed, CorruptLog) if is_damaged else self._allowed
        strange = [cause for cause in causes if not isinstance(cause, allowed)]
        if strange:
            return f"{host} died of {strange[0]!r}"
        if causes and not is_damaged and host.volume.faults_met == self._met_before[host.name]:
            return f"{host} died of {causes[0]!r}, although its disk had no fault"
        return None


class HandlersNeverFail:
    """No request makes a handler fail with an unexpected exception."""

    kinds: Sequence[str] = ("handler_failed",)

    def observe(self, event: Event) -> str | None:
        return str(event.fields["error"])


def process_invariants(hosts: Mapping[str, Host], allowed: tuple[type[Exception], ...] = (OSError,)) -> list[Invariant]:
    return [OnlyFaultsEndProcesses(hosts, allowed), HandlersNeverFail()]
