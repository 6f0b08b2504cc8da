"""The steps of a failover, from the logs of the nodes and of the client."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks.clusters import KraftMember

_CLIENT_LINE: Final = re.compile(r"%7\|(\d+\.\d+)\|\w+\|[^|]*\| \[[^]]*\]: (.*)")
# The client's steps in a failover, as librdkafka logs them and as this benchmark prints them.
_CLIENT_STEPS: Final = (
    (re.compile(r"ProduceRequest failed: (.*?): explicit"), "client: a produce request failed, {}"),
    (re.compile(r"(\S+): Broker changed state UP -> DOWN"), "client: the connection to {} broke"),
    (
        # Not a refresh of the metadata that tells of the leader that the client knows.
        re.compile(r"\S+ \[0\]: leader ((?!(\S+ epoch \S+) -> leader \2$)\S+ epoch \S+ -> leader \S+ epoch \S+)"),
        "client: leader {}",
    ),
    (
        re.compile(r"Topic \S+ \[0\]: joining broker .*\b(\d+) message\(s\) queued"),
        "client: partition moved, {} records wait",
    ),
    (re.compile(r"(\S+): Broker changed state APIVERSION_QUERY -> UP"), "client: connected to {}"),
)
_LOST: Final = ("connection_closed", "fetcher_disconnected", "rpc_connection_ended", "rpc_connection_lost")


class LoggedMember(KraftMember):
    """A member whose log has the steps of elections and of partitions."""

    def command(self) -> list[str]:
        return [*super().command(), "--log-level", "debug", "--log-format", "json"]


@attrs.frozen
class Event:
    """A line of a node's log; `moment` is in seconds since 1970."""

    moment: float
    node: int
    kind: str
    fields: Mapping[str, Any]


@attrs.frozen
class Step:
    moment: float
    text: str


def read_events(members: Iterable[KraftMember]) -> list[Event]:
    """The events of all nodes, in their order."""
    events = [
        event for member in members for event in events_of(member.place.node_id, member.log.read_text(errors="replace"))
    ]
    return sorted(events, key=lambda event: event.moment)


def events_of(node: int, log: str) -> Iterator[Event]:
    """The events in the log of a node."""
    for line in log.splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            yield Event(datetime.fromisoformat(event["time"]).timestamp(), node, event["event"], event["fields"])


def active_controller(events: Iterable[Event], moment: float) -> int | None:
    """The node that was elected last before a moment."""
    elected = [event.node for event in events if event.kind == "leader_elected" and event.moment < moment]
    return elected[-1] if elected else None


def next_leader(events: Iterable[Event], begin: float, end: float) -> float | None:
    """The seconds from `begin` until a node led partition 0; None if none did before `end`."""
    led = (each.moment for each in events if each.kind == "partition_led" and each.fields["partition"] == 0)
    return next((moment - begin for moment in led if begin <= moment <= end), None)


def node_steps(events: Iterable[Event], begin: float, end: float) -> Iterator[Step]:
    """The first event of each kind of step between two moments."""
    kinds: dict[str, Callable[[Event], str]] = {
        "notices": lambda event: f"node {event.node} notices a broken connection",
        "prospective": lambda event: f"node {event.node} asks for an election",
        "leader": lambda event: f"node {event.node} is elected in epoch {event.fields['epoch']}",
        "leader_elected": lambda event: f"node {event.node} has committed an entry of its epoch, and is the controller",
        "broker_fenced": lambda event: (
            f"node {event.node} has committed that broker {event.fields['broker']} is fenced"
        ),
        "partition_led": lambda event: f"node {event.node} leads the partition",
        "fetcher_connected": lambda event: f"node {event.node} fetches from node {event.fields['source']}",
    }
    for event in events:
        if begin <= event.moment <= end:
            name = "notices" if event.kind in _LOST else event.kind
            name = event.fields["role"] if event.kind == "role_changed" else name
            if name == "partition_led" and event.fields["partition"] != 0:
                continue
            if (text := kinds.pop(name, None)) is not None:
                yield Step(event.moment, text(event))


def client_steps(log: Path, begin: float, end: float) -> Iterator[Step]:
    """The steps of the client between two moments."""
    for line in log.read_text(errors="replace").splitlines():
        found = _CLIENT_LINE.match(line)
        if found is None or not begin <= float(found[1]) <= end:
            continue
        for pattern, text in _CLIENT_STEPS:
            if step := pattern.search(found[2]):
                yield Step(float(found[1]), text.format(step[1]))
