"""The workloads: their clients, and the promises by which they are checked."""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import attrs

from broker.coordinator.internal_topics import SHARE_GROUP_STATE
from jepsen.checkers import (
    ACKS_ONE_CHECKERS,
    IDEMPOTENT_CHECKERS,
    SHARE_CHECKERS,
    TRANSACTION_CHECKERS,
    Checker,
    count_losses,
)
from jepsen.checkers.forwarded_topics import FORWARDED_TOPIC_CHECKERS
from jepsen.checkers.groups import GROUP_CHECKERS
from jepsen.checkers.nodes import NodesRunUntilStopped, RecoveryIsBounded
from jepsen.checkers.offsets import OFFSET_CHECKERS
from jepsen.checkers.replicas import ReplicasAreIdentical
from jepsen.history import History, Outcome
from jepsen.processes.clients.client import EITHER, KRAFT, LIBRDKAFKA, RETENTION_CHECK_S, SHARE, MemberPlan
from jepsen.processes.clients.transacting import BANK, OUTPUT, TRANSACTIONAL_ROLES, transactional_id_of
from jepsen.processes.run.member_processes import Group
from metadata.protocol import AcknowledgeType


def _sessions(history: History) -> Mapping[str, str]:
    sessions = dict.fromkeys((each.client, each.value.session) for each in history.of("send"))
    given_up = len(sessions) - len(dict.fromkeys(client for client, _ in sessions))
    return {"sessions that librdkafka ended": str(given_up)}


def _losses(history: History) -> Mapping[str, str]:
    return {"lost, as acks=1 allows": str(count_losses(history))}


def _transactions(history: History) -> Mapping[str, str]:
    decisions = Counter(
        f"{'commits' if each.value.is_commit else 'aborts'} {each.outcome.value}"
        for each in history.of("end-transaction")
    )
    return {f"transactions: {name}": str(count) for name, count in sorted(decisions.items())}


def _shares(history: History) -> Mapping[str, str]:
    """The deliveries and the acknowledgements of records by group and type."""
    counts: Counter[str] = Counter()
    for operation in history.of("acquire", outcome=Outcome.OK):
        group, records = operation.value.group, operation.result.records
        counts[f"{group}: deliveries"] += len(records)
        counts[f"{group}: deliveries after the first"] += sum(count > 1 for _, _, count in records)
    for operation in history.of("acknowledge", outcome=Outcome.OK):
        for first, last, kind in operation.value.batches:
            counts[f"{operation.value.group}: {AcknowledgeType(kind).name} stored"] += last - first + 1
    return {name: str(count) for name, count in sorted(counts.items())}


@attrs.frozen
class Workload:
    """`clients` are roles (`jepsen.processes.clients`) by name; their `rate` is of operations per second, each.

    Members of `groups` join and leave at the same time. `first` are the roles of the clients that prepare the cluster,
    and `last` those of the clients that read the final state. `notes` returns figures of a history that are only
    reported. `more_topics` are those besides the topic that all clients use, and `state_topics` the internal topics
    whose leaders are killed as well. `configs` are configs of the nodes.
    """

    clients: Mapping[str, str]
    checkers: tuple[Checker, ...]
    rate: float
    last: tuple[str, ...] = ("read",)
    is_idempotent: bool = True
    notes: Callable[[History], Mapping[str, str]] = _sessions
    groups: tuple[Group, ...] = ()
    more_topics: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    state_topics: tuple[str, ...] = ()
    configs: Mapping[str, str] = MappingProxyType({})

    def transactional_ids(self) -> list[str]:
        """The transactional ids of the clients, see `jepsen.processes.clients.transacting`."""
        names = [name for name, role in self.clients.items() if role in TRANSACTIONAL_ROLES]
        return list(dict.fromkeys(map(transactional_id_of, names)))

    def places(self) -> dict[str, MemberPlan]:
        """The names of the members of groups, and their plans."""
        return {name: plan for group in self.groups for name, plan in group.places().items()}


_PRODUCERS: Final = MappingProxyType({"p1": "produce", "p2": "produce"})
_PRODUCERS_AND_CONSUMERS: Final = MappingProxyType({"p1": "produce", "p2": "produce", "c1": "consume", "c2": "consume"})
WORKLOADS: Final[Mapping[str, Workload]] = MappingProxyType(
    {
        "queue": Workload(_PRODUCERS_AND_CONSUMERS, (*IDEMPOTENT_CHECKERS, NodesRunUntilStopped()), rate=100),
        "acks1": Workload(
            _PRODUCERS_AND_CONSUMERS,
            (*ACKS_ONE_CHECKERS, NodesRunUntilStopped()),
            rate=100,
            is_idempotent=False,
            notes=_losses,
        ),
        "metadata": Workload(
            MappingProxyType({"a1": "contend", "a2": "contend", "a3": "contend", "p1": "produce"}),
            (*FORWARDED_TOPIC_CHECKERS, *IDEMPOTENT_CHECKERS, NodesRunUntilStopped()),
            rate=3,
            last=("see-topics", "read"),
        ),
        "offsets": Workload(
            MappingProxyType({"p1": "produce", "p2": "produce", "o1": "ask", "o2": "ask", "c1": "consume"}),
            (*OFFSET_CHECKERS, *IDEMPOTENT_CHECKERS, NodesRunUntilStopped()),
            rate=50,
        ),
        "transactions": Workload(
            MappingProxyType(
                {
                    **dict.fromkeys(("t1a", "t1b", "t2a"), "transact"),
                    **dict.fromkeys(("x1a", "x1b", "x2a"), "transform"),
                    **dict.fromkeys(("b1a", "b1b"), "move-amounts"),
                    "m1a": "mix-assigned",
                    **dict.fromkeys(("m2a", "m3a"), "mix-subscribed"),
                    "c1": "consume-committed",
                    "c2": "audit",
                }
            ),
            (*TRANSACTION_CHECKERS, ReplicasAreIdentical(), RecoveryIsBounded(), NodesRunUntilStopped()),
            rate=10,
            last=("read-transactions",),
            notes=_transactions,
            more_topics=(OUTPUT, BANK),
        ),
        "groups": Workload(
            _PRODUCERS,
            (*GROUP_CHECKERS, *IDEMPOTENT_CHECKERS, NodesRunUntilStopped()),
            rate=25,
            groups=(
                Group("range", "classic", "range", members=2),
                Group("sticky", "classic", "cooperative-sticky", members=2, is_static=True),
                Group("uniform", "consumer", "uniform", members=2),
                Group("static", "consumer", "range", members=2, is_static=True),
                Group("mixed", EITHER, "range or uniform", members=3),
            ),
        ),
        "shares": Workload(
            _PRODUCERS,
            (*SHARE_CHECKERS, *IDEMPOTENT_CHECKERS, NodesRunUntilStopped()),
            rate=15,
            first=("begin-shares",),
            last=("read", "finish-shares"),
            notes=_shares,
            groups=(
                Group("known", SHARE, "simple", members=3),
                Group("mixed", SHARE, "simple", members=4, libraries=(KRAFT, LIBRDKAFKA, "")),
            ),
            state_topics=(SHARE_GROUP_STATE,),
            # Groups that are empty meanwhile stay: they have no offsets whose retention could end.
            configs={"offsets.retention.check.interval.ms": f"{RETENTION_CHECK_S * 1000:.0f}"},
        ),
        "commits": Workload(
            _PRODUCERS,
            (*GROUP_CHECKERS, *IDEMPOTENT_CHECKERS, NodesRunUntilStopped()),
            rate=50,
            groups=(
                Group("old", "classic", "range", members=2, commits_each=True),
                Group("new", "consumer", "uniform", members=2, commits_each=True),
            ),
        ),
    }
)
