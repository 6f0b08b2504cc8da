"""The timeline of a run for a person: faults, what became of processes, and what the application said."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any, Final

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
        self._conditions: dict[str, None] = {}
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
        for condition in [each for each in present if each not in self._conditions]:
            self.add("", condition)
        for condition in [each for each in self._conditions if each not in present]:
            self.add("", f"over: {condition}")
        self._conditions = present

    def _present_conditions(self) -> Iterator[str]:
        hosts = self._cluster.victims
        for host in hosts:
            yield from _conditions_of(host)
        links = self._cluster.simulation.network.links
        pairs: dict[str, list[tuple[Host, Host]]] = {}
        for one, other in combinations(hosts, 2):
            for word in _conditions_between(links, one, other):
                pairs.setdefault(word, []).append((one, other))
        for word, affected in pairs.items():
            yield from _grouped(word, affected, hosts)


def _errors_of(event: Event) -> str:
    errors: Any = event.fields.get("errors") or ()
    messages: Any = event.fields.get("messages") or ()
    named = [f"{error}: {message}" for error, message in zip(errors, messages, strict=True)]
    return f" with {'; '.join(named)}" if named else ""


def _conditions_of(host: Host) -> Iterator[str]:
    volume = host.volume
    if host.wall_offset_s:
        yield f"clock of {host} wrong by {host.wall_offset_s:+.0f} s"
    if volume.is_full:
        yield f"disk of {host} full"
    if volume.is_stalled:
        yield f"disk of {host} stalled"
    if volume.slowness != 1.0:
        yield f"disk of {host} {volume.slowness:g} times slower"
    if volume.sync_failures:
        yield f"fsyncs of {host} fail"
    if volume.broken:
        yield f"writes of {host} fail"


def _conditions_between(links: Links, one: Host, other: Host) -> Iterator[str]:
    there, back = links.link(one.name, other.name), links.link(other.name, one.name)
    if there.is_blocked and back.is_blocked:
        yield "cut"
    elif there.is_blocked or back.is_blocked:
        yield "cut in one direction"
    if _is_slow(there) or _is_slow(back):
        yield "slow"


def _grouped(word: str, pairs: Sequence[tuple[Host, Host]], hosts: Sequence[Host]) -> Iterator[str]:
    """The pairs of hosts whose links are in a condition, in one text for a host that all others are paired with."""
    left = list(pairs)
    for host in hosts:
        of_host = [pair for pair in pairs if host in pair]
        if len(of_host) == len(hosts) - 1:
            yield f"{word}: {host} - all others"
            left = [pair for pair in left if host not in pair]
    for one, other in left:
        yield f"{word}: {one} - {other}"


def _is_slow(link: Link) -> bool:
    return link.latency != LATENCY_SECONDS or link.loss > 0
