"""The timeline of a run for a person: faults, what became of processes, and what the application said."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs
import trio

from broker.printable import printable
from jepsen.simulation.cluster import Cluster
from jepsen.simulation.hosts import Host
from jepsen.simulation.network.links import LATENCY_SECONDS, Link, Links
from jepsen.simulation.trace import Event

# The entries that are kept of a run: the last ones.
ENTRIES_MAX: Final = 5000
# How often links and disks are compared with their state before, in virtual seconds.
_COMPARE_SECONDS: Final = 0.1
# The kind of a condition, and the host or the two hosts that it affects.
_Condition: TypeAlias = tuple[str, str]
_NEMESIS: Final = "nemesis"
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "process_killed": "killed",
        "process_ended": "ended",
        "power_cut": "lost its power",
        "paused": "paused",
        "resumed": "goes on",
    }
)


@attrs.frozen
class TimelineEntry:
    """An event `seconds` after the begin of a run, in virtual time.

    `who` is a node, a process, the nemesis, or empty for a link. The text of an observation is what a process has
    passed to `Machine.observe`.
    """

    seconds: float
    who: str
    text: str
    is_observation: bool = False

    def __str__(self) -> str:
        first, *others = map(printable, self.text.split("\n"))
        return "\n".join(
            [f"{self.seconds:9.3f} s  {self.who:10} {first}".rstrip(), *(f"{'':23}{each}" for each in others)]
        )


class Timeline:
    """Collects entries while a run goes on. `entries` are the last ENTRIES_MAX of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.entries: deque[TimelineEntry] = deque(maxlen=ENTRIES_MAX)
        self._is_complete = False
        self._conditions: dict[_Condition, None] = {}
        trace = cluster.simulation.trace
        trace.listeners.append(self._on_event)
        trace.message_listeners.append(self._on_message)

    def complete(self) -> None:
        """Leave out what follows: all processes are killed at the end of a run."""
        self._is_complete = True

    async def compare_conditions(self) -> None:
        """Add a line whenever the condition of a link, a disk or a clock changes, until cancelled."""
        while True:
            self._compare()
            await trio.sleep(_COMPARE_SECONDS)

    def add(self, who: str, text: str, *, is_observation: bool = False) -> None:
        """Add an entry about `who`."""
        if not self._is_complete:
            self.entries.append(TimelineEntry(self._cluster.simulation.clock.now, who, text, is_observation))

    def _on_event(self, event: Event) -> None:
        if event.host == _NEMESIS:
            self.add(_NEMESIS, event.kind)
        elif event.kind == "process_started":
            self.add(event.host, "started" if event.fields["incarnation"] == 1 else "started again")
        elif event.kind in _WORDS:
            self.add(event.host, _WORDS[event.kind] + _errors_of(event))

    def _on_message(self, host: str, text: str) -> None:
        if host in self._cluster.applications:
            self.add(host, text)

    def _compare(self) -> None:
        present = dict.fromkeys(self._present_conditions())
        begun = [each for each in present if each not in self._conditions]
        over = [each for each in self._conditions if each not in present]
        self._conditions = present
        parts = [*_by_kind(begun), *(f"over: {each}" for each in _by_kind(over))]
        if parts:
            self.add("", "; ".join(parts))

    def _present_conditions(self) -> Iterator[_Condition]:
        hosts = self._cluster.victims
        for host in hosts:
            for kind in _conditions_of(host):
                yield kind, str(host)
        links = self._cluster.simulation.network.links
        pairs: dict[str, list[tuple[Host, Host]]] = {}
        for one, other in combinations(hosts, 2):
            for kind in _conditions_between(links, one, other):
                pairs.setdefault(kind, []).append((one, other))
        for kind, affected in pairs.items():
            for where in _grouped(affected, hosts):
                yield kind, where


def _by_kind(conditions: Sequence[_Condition]) -> Iterator[str]:
    for kind in dict.fromkeys(kind for kind, _ in conditions):
        yield f"{kind} {', '.join(where for each, where in conditions if each == kind)}"


def _errors_of(event: Event) -> str:
    errors: Any = event.fields.get("errors") or ()
    messages: Any = event.fields.get("messages") or ()
    named = [f"{error}: {message}" for error, message in zip(errors, messages, strict=True)]
    return f" with {'; '.join(named)}" if named else ""


def _conditions_of(host: Host) -> Iterator[str]:
    volume = host.volume
    if host.wall_offset_s:
        yield f"clock wrong by {host.wall_offset_s:+.0f} s on"
    if volume.is_full:
        yield "disk full on"
    if volume.is_stalled:
        yield "disk stalled on"
    if volume.slowness != 1.0:
        yield f"disk {volume.slowness:g} times slower on"
    if volume.sync_failures:
        yield "fsyncs fail on"
    if volume.broken:
        yield "writes fail on"


def _conditions_between(links: Links, one: Host, other: Host) -> Iterator[str]:
    there, back = links.link(one.name, other.name), links.link(other.name, one.name)
    if there.is_blocked and back.is_blocked:
        yield "cut:"
    elif there.is_blocked or back.is_blocked:
        yield "cut in one direction:"
    if _is_slow(there) or _is_slow(back):
        yield "slow:"


def _grouped(pairs: Sequence[tuple[Host, Host]], hosts: Sequence[Host]) -> Iterator[str]:
    """The pairs of hosts as texts: a host that is paired with all others has one text for all its pairs."""
    left = list(pairs)
    for host in hosts:
        if len([pair for pair in pairs if host in pair]) == len(hosts) - 1 > 1:
            yield f"{host} - all others"
            left = [pair for pair in left if host not in pair]
    for one, other in left:
        yield f"{one} - {other}"


def _is_slow(link: Link) -> bool:
    return link.latency != LATENCY_SECONDS or link.loss > 0
