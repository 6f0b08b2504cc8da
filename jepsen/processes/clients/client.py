"""The base of all clients: a plan, random numbers, a history that is written to a file, and the end of standard input
as the signal to stop.
"""

import json
import os
import sys
import threading
import time
from io import FileIO
from random import Random
from typing import Any, Final, Self

import attrs

from jepsen.history import History
from jepsen.journal import Journal

# Far below librdkafka's defaults, which wait for minutes until they look for another leader; it retries all the same.
_TIMEOUT_CONFIGS: Final[dict[str, str | int]] = {
    "socket.timeout.ms": 4_000,
    "topic.metadata.refresh.interval.ms": 2_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "socket.connection.setup.timeout.ms": 3_000,
    "log_level": 0,
}


# The protocol of share groups (KIP-932).
SHARE: Final = "share"
# How often brokers look for share groups that have expired, in seconds. No share group may.
RETENTION_CHECK_S: Final = 1.0
# Client libraries of members of share groups.
KRAFT: Final = "kraft"
LIBRDKAFKA: Final = "librdkafka"
# A protocol: now one, now the other, with assignors of its choice.
EITHER: Final = "either"


@attrs.frozen
class MemberPlan:
    """How a client belongs to a group. `protocol` is the client's `group.protocol`, or EITHER.

    `assignor` is the client's own, or the brokers' with the "consumer" protocol. `instance` is what makes it a static
    member (KIP-345); empty, it is none. `commits_each` poll before it polls again; otherwise at times, in passing. With
    SHARE, `library` is the client library; empty, it is none: the member sends requests itself.
    """

    group: str
    protocol: str
    assignor: str
    instance: str = ""
    commits_each: bool = False
    library: str = ""


@attrs.frozen
class ClientPlan:
    """The plan of a client. `zero` is the begin of the run by `time.monotonic`.

    `rate` is in operations per second; 0 is unlimited. `member` is for members of groups. `configs` are for TLS and
    SASL.
    """

    role: str
    name: str
    bootstrap: str
    journal: str
    zero: float
    seed: int
    topic: str = ""
    partitions: int = 0
    rate: float = 0.0
    is_idempotent: bool = True
    member: MemberPlan | None = None
    configs: dict[str, str] = attrs.field(factory=dict)

    def text(self) -> str:
        return json.dumps(attrs.asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        content = json.loads(text)
        member = content.pop("member")
        return cls(**content, member=None if member is None else MemberPlan(**member))


class Client:
    """`stopping` is set when standard input ends: the parent process wants the client to end, or is gone."""

    def __init__(self, plan: ClientPlan) -> None:
        self.plan = plan
        self.rng = Random(f"{plan.seed} {plan.name}")
        self.stopping = threading.Event()
        # Unbuffered: a line is one write, and there whatever becomes of this process.
        self._file = FileIO(plan.journal, "a")
        self.history = History(self.now, Journal(self._file).note)
        threading.Thread(target=self._await_end, daemon=True).start()

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.plan.zero

    def settings(self, **more: str | int) -> dict[str, Any]:
        """librdkafka's."""
        # An underscore where librdkafka has a dot.
        named = {name.replace("_", "."): value for name, value in more.items()}
        own = {"bootstrap.servers": self.plan.bootstrap, "client.id": self.plan.name}
        return {**own, **self.plan.configs, **_TIMEOUT_CONFIGS, **named}

    def pause(self) -> None:
        """Wait for a random time, so that a loop runs `rate` times a second on average, or until `stopping` is set."""
        if self.plan.rate:
            self.stopping.wait(self.rng.expovariate(self.plan.rate))

    def _await_end(self) -> None:
        # Not through a buffer: its lock, held by a thread that waits, would be in the way of the process's end.
        while os.read(sys.stdin.fileno(), 1):
            pass
        self.stopping.set()
