"""Clients with and without quotas on simulated nodes, while the quotas of others change all the time."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

import attrs
import trio

from jepsen.checkers import QUOTA_CHECKERS, Anomaly
from jepsen.history import History
from jepsen.simulation.invariants import Committed
from jepsen.simulation.subjects.subject import Run, Start
from jepsen.values import QuotaUser, WantedTopic
from jepsen.workloads.client import Client
from jepsen.workloads.quota_storm import (
    change_other_quotas,
    fetch_steadily,
    produce_steadily,
    set_quotas,
)

TOPIC: Final = "paced"
_PARTITIONS: Final = 2
# The partitions of the clients: each one without a quota shares its leader with a limited one of its kind. Both have a
# producer: a fetch of an empty partition is so small that its client would repeat it some hundred times per second.
_INDEXES: Final = (0, 1, 1, 0, 0, 1)
# The time over which the clients are judged, after all faults are healed.
_JUDGED_SECONDS: Final = 30.0
# The time before that in which no client uses its quota, longer than all windows: no client has to pay for earlier use.
_REST_SECONDS: Final = 4.0
# Some clients are idle for this time, which is longer than all windows.
_IDLE: Final = (8.0, 18.0)
_NOT_IDLE: Final = (0.0, 0.0)
# Large compared with a request, so that one request more or less per window makes no difference.
_LIMITS: Final = (6_000.0, 8_000.0, 10_000.0)
# During the faults, clients need not be judged, so that few requests suffice: they have this part of their quotas, and
# pause so long before each request that they exceed it.
_PART_DURING_FAULTS: Final = 0.2
_PAUSE_SECONDS_DURING_FAULTS: Final = 0.4
_CHANGES_PER_SECOND: Final = (1.0, 5.0)


def quota_topics(brokers: int) -> Sequence[WantedTopic]:
    return (WantedTopic(TOPIC, _PARTITIONS, replication_factor=min(2, brokers)),)


class QuotaClients:
    """See the module's docstring. `client_for` returns a client by its name and history.

    Faults disturb the clients, so they are judged after these alone: by another history, and as new connections.
    """

    def __init__(
        self,
        topics: Sequence[WantedTopic],
        history: History,
        ignored: History,
        client_for: Callable[[str], Client],
        rng: Random,
    ) -> None:
        self.topics = topics
        self.history, self._ignored = history, ignored
        self._client_for = client_for
        self._rng = rng
        self._users = [*self._limited_users(), *self._free_users()]
        self._users_during_faults = [
            attrs.evolve(
                user,
                limit=None if user.limit is None else user.limit * _PART_DURING_FAULTS,
                pause_seconds=_PAUSE_SECONDS_DURING_FAULTS,
            )
            for user in self._users
        ]

    def _limited_users(self) -> Iterator[QuotaUser]:
        for number, waits in enumerate((True, False)):
            for kind, key in (("p", "producer_byte_rate"), ("f", "consumer_byte_rate")):
                yield QuotaUser(f"limited-{kind}{number}", key, self._rng.choice(_LIMITS), waits)

    def _free_users(self) -> Iterator[QuotaUser]:
        yield QuotaUser("free-p", "producer_byte_rate", None, waits=False, pause_seconds=0.2)
        yield QuotaUser("free-f", "consumer_byte_rate", None, waits=False, pause_seconds=0.2)

    async def prepare(self, run: Run, committed: Committed) -> None:
        """Do nothing: these clients prepare what they need themselves."""

    def start(self, start: Start, nursery: trio.Nursery) -> None:
        """Start all clients, and the changes of quotas."""
        start(nursery, self._client_for("quotas"), set_quotas, self._users_during_faults)
        self._start_changes(start, nursery, "")
        self._start_users(start, nursery, "", self._users_during_faults, self._ignored)

    def _start_changes(self, start: Start, nursery: trio.Nursery, when: str) -> None:
        per_second = self._rng.choice(_CHANGES_PER_SECOND)
        start(nursery, self._client_for(f"storm{when}"), change_other_quotas, per_second)

    def _start_users(
        self, start: Start, nursery: trio.Nursery, when: str, users: Sequence[QuotaUser], history: History
    ) -> None:
        for user, index in zip(users, _INDEXES, strict=True):
            client = self._client_for(f"{user.client_id}{when}")
            client = attrs.evolve(client, history=history, client_id=user.client_id)
            use = produce_steadily if user.key == "producer_byte_rate" else fetch_steadily
            idle = _IDLE if history is self.history and user.limit is not None and not user.waits else _NOT_IDLE
            start(nursery, client, use, user, TOPIC, index, idle)

    async def verify(self, start: Start, run: Run, committed: Committed) -> None:
        """Have all clients use up their quotas for some time, in a cluster that works."""
        client = self._client_for("quotas-final")
        await run(client, set_quotas, client, self._users)
        await trio.sleep(_REST_SECONDS)
        async with trio.open_nursery() as nursery:
            self._start_changes(start, nursery, ".last")
            self._start_users(start, nursery, ".last", self._users, self.history)
            await trio.sleep(_JUDGED_SECONDS)
            nursery.cancel_scope.cancel()

    def anomalies(self, committed: Committed) -> Iterator[Anomaly]:
        for checker in QUOTA_CHECKERS:
            yield from checker.check(self.history)
