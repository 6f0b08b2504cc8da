"""Share groups on simulated nodes: producers, members that come and go, and an administrator that waits for the end."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

import trio

from broker.coordinator.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from broker.replication.partition import Partition
from broker.storage.log import Log
from broker.wire.errors import KafkaError
from broker.wire.records import iter_headers
from jepsen.checkers import DEAD_LETTER_CHECKERS, SHARE_CHECKERS, Anomaly
from jepsen.history import History
from jepsen.share_values import LostDeadLetters, ShareGroupSettings, StoredWrite, StoredWrites
from jepsen.simulation.hosts import Host
from jepsen.simulation.invariants import Committed
from jepsen.simulation.invariants.replicas import integer
from jepsen.simulation.subjects.data import node_on
from jepsen.simulation.subjects.subject import Run, Start
from jepsen.simulation.trace import Event
from jepsen.stored_share_states import stored_writes
from jepsen.values import WantedTopic
from jepsen.workloads.client import Client
from jepsen.workloads.consumer import read_all
from jepsen.workloads.dead_letter_reader import read_dead_letters
from jepsen.workloads.producer import produce_to_all
from jepsen.workloads.share_administration import begin_share_groups, describe_empty_group, wait_finished
from jepsen.workloads.share_member import churn_share_members, finish_records
from jepsen.workloads.share_session import ShareGroup

TOPIC: Final = "share-queue"
DEAD_LETTERS: Final = "dlq.share-queue"
_PARTITIONS: Final = 2
# Few, so that share-partitions share a coordinator, and not all of them do.
_STATE_PARTITIONS: Final = 2
_LEVEL: Final = 2
_READ_BYTES: Final = 1 << 20
_PRODUCED_PER_SECOND: Final = (0.3, 1.0, 2.0)
_LIFETIME_SECONDS: Final = (4.0, 15.0, 60.0)
_RETENTION_CHECK_S: Final = 1.0
# Short timeouts, and state that is stored in many small pieces and pruned soon.
SHARE_CONFIGS: Final[Mapping[str, str]] = {
    "group.share.min.session.timeout.ms": "6000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "2000",
    "group.share.initialize.retry.interval.ms": "3000",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "share.coordinator.state.topic.prune.interval.ms": "3000",
    "share.coordinator.cold.partition.snapshot.interval.ms": "5000",
    # Groups that are empty meanwhile stay: they have no offsets whose retention could end.
    "offsets.retention.check.interval.ms": f"{_RETENTION_CHECK_S * 1000:.0f}",
}


def share_topics(brokers: int) -> Sequence[WantedTopic]:
    """The topics of share groups, which lose nothing as long as replicas in sync keep their disks."""
    most = min(3, brokers)
    safe = (("min.insync.replicas", str(most - 1)), ("flush.messages", "1"))
    return (
        WantedTopic(TOPIC, _PARTITIONS, configs=safe, replication_factor=most),
        WantedTopic(
            DEAD_LETTERS,
            _PARTITIONS,
            configs=(*safe, ("errors.deadletterqueue.group.enable", "true")),
            replication_factor=most,
        ),
        WantedTopic(CONSUMER_OFFSETS, _STATE_PARTITIONS, configs=safe, replication_factor=most),
        WantedTopic(SHARE_GROUP_STATE, _STATE_PARTITIONS, configs=safe, replication_factor=most),
    )


class StoredShareStates:
    """Reads what share coordinators have written from the nodes' logs, once it is committed and before it is pruned.

    `observe` listens to the trace. `topics` maps the ids of topics to their names.
    """

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        self.topics: dict[bytes, str] = {}
        self._hosts = hosts
        self._read_until: dict[int, int] = {}
        self._writes: dict[int, list[StoredWrite]] = {}
        self._is_complete = True

    def observe(self, event: Event) -> None:
        if event.kind == "replica_committed" and event.fields["topic"] == SHARE_GROUP_STATE:
            index, end = integer(event, "partition"), integer(event, "high_watermark")
            replica = _replica_on(self._hosts[event.host], SHARE_GROUP_STATE, index)
            if replica is not None and replica.log is not None:
                self._read(replica.log, index, end)

    def _read(self, log: Log, index: int, end: int) -> None:
        offset, writes = self._read_until.get(index, 0), self._writes.setdefault(index, [])
        try:
            while offset < end:
                self._is_complete &= log.log_start_offset <= offset
                found = log.read(offset, _READ_BYTES, upper_bound=end, min_one_batch=True)
                content = found.file.read(found.position, found.size)
                writes += stored_writes(content, offset, self.topics)
                *_, (_, last) = iter_headers(content)
                self._read_until[index] = offset = last.next_offset
        except (KafkaError, OSError):
            return  # the disk has just failed; another replica has the same

    def record(self, client: Client) -> None:
        """Add the writes to the history."""
        assert self._is_complete, "writes were pruned before they were read"
        for index, writes in sorted(self._writes.items()):
            operation = client.history.invoke(client.name, "read-share-states", index)
            client.history.ok(operation, StoredWrites(tuple(writes)))


def _replica_on(host: Host, topic: str, index: int) -> Partition | None:
    node = node_on(host)
    local = None if node is None or node.broker is None else node.broker.partitions.topic(topic)
    return None if local is None else local.partitions.get(index)


class ShareClients:
    """See the module's docstring. `client_for` returns a client by its name, which uses `history`."""

    def __init__(
        self,
        topics: Sequence[WantedTopic],
        history: History,
        client_for: Callable[[str], Client],
        hosts: Mapping[str, Host],
        rng: Random,
    ) -> None:
        self.topics = topics
        self.history = history
        self._client_for = client_for
        self._hosts = hosts
        self._rng = rng
        self._partitions = [(TOPIC, index) for index in range(_PARTITIONS)]
        self._settings = [
            ShareGroupSettings(
                f"shares{number}-{rng.randrange(100)}",
                rng.choice((2, 3, 5)),
                rng.choice((1000, 3000)),
                dead_letter_topic=DEAD_LETTERS,
            )
            for number in range(rng.choice((1, 1, 2)))
        ]
        self._groups: list[ShareGroup] = []
        self._stored = StoredShareStates(hosts)

    async def prepare(self, run: Run, committed: Committed) -> None:
        """Enable share groups. The topics exist."""
        client = self._client_for("share-admin")
        await run(client, begin_share_groups, client, _LEVEL, self._settings)
        topic_id = committed.image.topics.by_name[TOPIC].topic_id
        self._stored.topics[topic_id] = TOPIC
        self._groups = [
            ShareGroup(
                each.group, {TOPIC: _PARTITIONS}, {TOPIC: topic_id}, self._leader_epochs, self._rng.random() < 0.7
            )
            for each in self._settings
        ]

    async def _leader_epochs(
        self, client: Client, partitions: Collection[tuple[str, int]]
    ) -> Mapping[tuple[str, int], int]:
        """The epochs in which the client's node leads partitions now, according to that node."""
        assert client.address is not None, "it connects to one node"
        host = self._hosts[client.address[0]]
        led = {each: _replica_on(host, *each) for each in partitions}
        return {each: replica.leader_epoch for each, replica in led.items() if replica is not None and replica.leads}

    def start(self, start: Start, nursery: trio.Nursery) -> None:
        """Start producers, and two to four places in each group, which members take one after the other."""
        rng, per_second = self._rng, self._rng.choice(_PRODUCED_PER_SECOND)
        start(nursery, self._client_for("share-producer"), produce_to_all, self._partitions, per_second)
        for group in self._groups:
            for number in range(rng.randint(2, 4)):
                client = self._client_for(f"{group.name}-{number}")
                start(nursery, client, churn_share_members, group, rng.choice(_LIFETIME_SECONDS))

    async def verify(self, start: Start, run: Run, committed: Committed) -> None:
        """Have members finish all records in the healed cluster, and read the topic."""
        if self._have_lost_records(committed):
            return
        client = self._client_for("share-final")
        reads = {each: await run(client, read_all, client, *each) for each in self._partitions}
        ends = {each: records[-1][0] + 1 if records else 0 for each, records in reads.items()}
        async with trio.open_nursery() as nursery:
            for group in self._groups:
                for number in range(2):
                    start(nursery, self._client_for(f"{group.name}-{number}.last"), finish_records, group)
            for group in self._groups:
                await run(client, wait_finished, client, group.name, ends)
            nursery.cancel_scope.cancel()
        self._stored.record(client)
        for group in self._groups:
            await run(client, describe_empty_group, client, group.name, _RETENTION_CHECK_S)
        for index in range(_PARTITIONS):
            await run(client, read_dead_letters, client, DEAD_LETTERS, index)

    def anomalies(self, committed: Committed) -> Iterator[Anomaly]:
        """Nothing is promised about share groups after a permitted loss of records or of state."""
        if self._have_lost_records(committed):
            return
        for checker in (*SHARE_CHECKERS, *DEAD_LETTER_CHECKERS):
            yield from checker.check(self.history)

    def observe(self, event: Event) -> None:
        """Read what share coordinators write, and record the offsets of dead letters that nodes could not write."""
        self._stored.observe(event)
        if event.kind == "dead_letters_lost":
            fields: Any = event.fields
            names = ("group", "topic", "partition", "first_offset", "last_offset")
            lost = LostDeadLetters(*(fields[name] for name in names))
            self.history.ok(self.history.invoke(event.host, "dead-letters-lost", lost), None)

    def _have_lost_records(self, committed: Committed) -> bool:
        names = [topic.name for topic in self.topics]
        return any(log.losses for log in committed.logs.values() if log.topic in names)
