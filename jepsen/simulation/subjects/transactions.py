"""Transactional clients of simulated nodes: producers, consumers, groups that consume, transform and produce, a bank,
and clients that mix polls and sends.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Final

import trio

from broker.coordinator.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from jepsen.checkers import TRANSACTION_CHECKERS, Anomaly
from jepsen.history import History
from jepsen.simulation.invariants import Committed
from jepsen.simulation.subjects.subject import Run, Start
from jepsen.values import WantedTopic
from jepsen.workloads.bank import audit_accounts, move_amounts
from jepsen.workloads.client import Client
from jepsen.workloads.committed_reader import ends_of, read_all_committed, read_committed
from jepsen.workloads.mixed_transactions import Subscription, mix_polls_and_sends
from jepsen.workloads.transactional_producer import write_transactions
from jepsen.workloads.transformer import transform, wait_transformed

INPUT: Final = "txn-in"
OUTPUT: Final = "txn-out"
BANK: Final = "txn-bank"
_INPUT_PARTITIONS: Final = 3
_OUTPUT_PARTITIONS: Final = 2
_BANK_PARTITIONS: Final = 3
# Few, so that transactional ids share a coordinator, and not all of them do.
_STATE_PARTITIONS: Final = 2
_PRODUCED_PER_SECOND: Final = (0.5, 2.0, 5.0)
_MOVED_PER_SECOND: Final = (0.5, 1.5)
_MIXED_PER_SECOND: Final = (0.5, 1.0)
_PROTOCOLS: Final = ("classic", "consumer")


def transactional_topics(brokers: int) -> Sequence[WantedTopic]:
    """The topics of transactions, which lose nothing as long as replicas in sync keep their disks.

    None of them is compacted: each replica compacts at another time, and the invariants compare all batches.
    """
    most = min(3, brokers)
    safe = (("min.insync.replicas", str(most - 1)), ("flush.messages", "1"))
    return (
        WantedTopic(INPUT, _INPUT_PARTITIONS, configs=safe, replication_factor=most),
        WantedTopic(OUTPUT, _OUTPUT_PARTITIONS, configs=safe, replication_factor=most),
        WantedTopic(BANK, _BANK_PARTITIONS, configs=safe, replication_factor=most),
        WantedTopic(CONSUMER_OFFSETS, _STATE_PARTITIONS, configs=safe, replication_factor=most),
        WantedTopic(TRANSACTION_STATE, _STATE_PARTITIONS, configs=safe, replication_factor=most),
    )


class TransactionalClients:
    """See the module's docstring. `client_for` returns a client by its name, which uses `history`."""

    def __init__(
        self, topics: Sequence[WantedTopic], history: History, client_for: Callable[[str], Client], rng: Random
    ) -> None:
        self.topics = topics
        self.history = history
        self._client_for = client_for
        self._rng = rng
        self._group = f"transformers-{rng.randrange(100)}"
        self._protocol = rng.choice(_PROTOCOLS)
        self._subscription = Subscription(f"mixers-{rng.randrange(100)}", rng.choice(_PROTOCOLS))
        self._inputs = [(INPUT, index) for index in range(_INPUT_PARTITIONS)]
        self._outputs = [(OUTPUT, index) for index in range(_OUTPUT_PARTITIONS)]
        self._accounts = [(BANK, index) for index in range(_BANK_PARTITIONS)]

    async def prepare(self, run: Run, committed: Committed) -> None:
        """Do nothing: these clients prepare what they need themselves."""

    def start(self, start: Start, nursery: trio.Nursery) -> None:
        """Start all clients. Some producers share a transactional id."""
        rng, per_second = self._rng, self._rng.choice(_PRODUCED_PER_SECOND)
        ids = [f"producer-{number}" for number in range(rng.randint(1, 3))]
        for number, transactional_id in enumerate([*ids, *rng.choices(ids, k=rng.randint(0, 2))]):
            client = self._client_for(f"t{number}")
            start(nursery, client, write_transactions, transactional_id, self._inputs, per_second)
        for topic, index in (*self._inputs, *self._outputs):
            start(nursery, self._client_for(f"c-{topic}-{index}"), read_committed, topic, index)
        self._start_transformers(start, nursery, rng.randint(1, 3))
        # A subset, because all of them in every seed would cost too much time.
        chosen = rng.choice(((self._start_bank,), (self._start_mixers,), (self._start_bank, self._start_mixers)))
        for start_more in chosen:
            start_more(start, nursery, rng)

    def _start_transformers(self, start: Start, nursery: trio.Nursery, count: int) -> None:
        rng = self._rng
        for number in range(count):
            # The last one may be a zombie of the first.
            is_zombie = number > 1 and rng.random() < 0.5
            transactional_id = f"{self._group}-{0 if is_zombie else number}"
            client = self._client_for(f"x{number}")
            start(nursery, client, transform, transactional_id, self._group, self._protocol, [INPUT], self._outputs)

    def _start_bank(self, start: Start, nursery: trio.Nursery, rng: Random) -> None:
        """Start tellers, who share a transactional id, and an auditor."""
        per_second = rng.choice(_MOVED_PER_SECOND)
        for number in range(rng.randint(1, 2)):
            start(nursery, self._client_for(f"b{number}"), move_amounts, "teller", self._accounts, per_second)
        start(nursery, self._client_for("auditor"), audit_accounts, self._accounts)

    def _start_mixers(self, start: Start, nursery: trio.Nursery, rng: Random) -> None:
        """Start clients that assign all partitions to themselves, or subscribe, or some of both."""
        per_second, kinds = rng.choice(_MIXED_PER_SECOND), rng.choices((None, self._subscription), k=rng.randint(1, 2))
        for number, subscription in enumerate(kinds):
            client = self._client_for(f"m{number}")
            transactional_id = f"mixer-{number}"
            start(nursery, client, mix_polls_and_sends, transactional_id, self._inputs, per_second, subscription)

    async def verify(self, start: Start, run: Run, committed: Committed) -> None:
        """Wait until no transaction is open and all records are transformed, and read all records.

        A transaction hangs, as in Kafka, if the coordinator's records of it were lost: only an administrator ends it.
        """
        if self._have_lost_records(committed):
            return
        client = self._client_for("txn-final")
        reads = [(partition, await run(client, read_all_committed, client, *partition)) for partition in self._inputs]
        async with trio.open_nursery() as nursery:
            # Some pauses in transactions, one after the other, take longer than the healing may.
            task = partial(transform, has_pauses=False)
            last = self._client_for("x0.last")
            start(nursery, last, task, f"{self._group}-0", self._group, self._protocol, [INPUT], self._outputs)
            await run(client, wait_transformed, client, self._group, ends_of(reads))
            nursery.cancel_scope.cancel()
        for partition in (*self._outputs, *self._accounts):
            await run(client, read_all_committed, client, *partition)

    def anomalies(self, committed: Committed) -> Iterator[Anomaly]:
        """Nothing is promised about transactions after a permitted loss of their records."""
        if self._have_lost_records(committed):
            return
        for checker in TRANSACTION_CHECKERS:
            yield from checker.check(self.history)

    def _have_lost_records(self, committed: Committed) -> bool:
        names = [topic.name for topic in self.topics]
        return any(log.losses for log in committed.logs.values() if log.topic in names)
