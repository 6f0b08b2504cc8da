"""The topic with the decisions on batches: one record per batch, under the id of the query, in one partition.

Only the last decision of a query matters, so the topic is compacted. A decision is written in a transaction: first
uncommitted, then everything before it is read, and it is committed if the batch was not decided there. All drivers of a
query share a transactional id. So an earlier driver, which may still run, cannot commit a decision after a later one
has looked.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from broker.client import (
    ConfigResource,
    ConfigResourceType,
    KafkaError,
    NewTopic,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    TimedOut,
    TopicPartition,
)
from broker.client.config import ClientConfig
from broker.spark.clients import CONSUMERS
from broker.spark.options import IllegalOption, client_settings
from broker.spark.sink.decisions import Decision, TransactionalIds

# How many offsets before the end are read first, and the factor by which more are read until there is a decision.
_FIRST_OFFSETS: Final = 64
_GROWTH: Final = 16
_PARTITION: Final = 0
_CONFIGS: Final = {"cleanup.policy": "compact", "segment.ms": "3600000"}
# A driver of another query that died while it wrote its decision delays this one for so long.
_TRANSACTION_TIMEOUT_MS: Final = 30_000
_WAIT_S: Final = 60.0
_CLOSE_S: Final = 5.0
# A fetch of control records only returns nothing, after this time.
_POLL_S: Final = 0.02
# A fetch at the end of the topic would otherwise delay the next one, from an earlier offset, by half a second.
_FETCH_WAIT_MS: Final = 10


class Proposal(NamedTuple):
    """A decision that is written and not yet committed, and the last decision of the query before it."""

    last: Decision | None
    commit: Callable[[], None]


class DecisionLog:
    """Reads and writes the decisions of one query."""

    def __init__(self, admin: SyncAdmin, settings: Mapping[str, object], topic: str, ids: TransactionalIds) -> None:
        """`settings` are Kafka's keys of any client, `bootstrap.servers` among them."""
        self._admin = admin
        self._settings = client_settings(settings, ClientConfig)
        self._topic = topic
        self._partition = TopicPartition(topic, _PARTITION)
        self._ids = ids

    def last(self) -> Decision | None:
        """The last decision of the query, or None. A decision that is being written may be missed."""
        if not self._exists():
            return None
        with self._consumer() as consumer:
            return self._last_before(consumer, consumer.end_offsets([self._partition])[self._partition])

    @contextmanager
    def propose(self, decision: Decision) -> Iterator[Proposal]:
        """Writes a decision, which is aborted at the end of the block unless it was committed.

        Fences earlier drivers of the query. Raises IllegalOption for a topic that does not keep its records,
        CorruptDecision, KafkaError, TimedOut. If the commit fails, the decision may be in force or not.
        """
        if not self._exists():
            self._create()
        settings = {
            **self._settings,
            "transactional.id": self._ids.of_decisions,
            "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
        }
        with SyncProducer(config=settings) as producer, self._consumer() as consumer:
            producer.begin_transaction()
            written = producer.send(
                self._topic, decision.to_json(), key=self._ids.query_id.encode(), partition=_PARTITION
            )
            last = self._last_before(consumer, written.offset)
            if last is None:
                self._check_policy()
            try:
                yield Proposal(last, producer.commit_transaction)
            except BaseException:
                # A commit that was not answered would otherwise be waited for as long as the brokers are away.
                producer.close(timeout_s=_CLOSE_S)
                raise

    @contextmanager
    def _consumer(self) -> Iterator[SyncConsumer]:
        settings = {**self._settings, "isolation.level": "read_committed", "fetch.max.wait.ms": _FETCH_WAIT_MS}
        with CONSUMERS.lend(settings) as consumer:
            consumer.assign([self._partition])
            yield consumer

    def _last_before(self, consumer: SyncConsumer, end: int) -> Decision | None:
        """The last committed decision before an offset, once no transaction before it is open."""
        earliest = consumer.beginning_offsets([self._partition])[self._partition]
        count = _FIRST_OFFSETS
        while earliest < end:
            start = max(earliest, end - count)
            value = self._last_value(consumer, start, end)
            if value is not None:
                return Decision.from_json(self._ids.query_id, value)
            if start == earliest:
                return None
            count *= _GROWTH
        return None

    def _last_value(self, consumer: SyncConsumer, start: int, end: int) -> bytes | None:
        key = self._ids.query_id.encode()
        found = None
        consumer.seek(self._partition, start)
        deadline = time.monotonic() + _WAIT_S
        while consumer.position(self._partition) < end:
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"the decisions in the topic {self._topic} could not be read within {_WAIT_S:g} s: if a transaction"
                    " is open there, find it with `kraft transactions find-hanging`, and let decisionsTopic name a"
                    " topic that only these sinks write to"
                )
            for record in consumer.fetch(timeout_s=_POLL_S):
                if record.key == key and record.offset < end:
                    found = record.value
        return found

    def _exists(self) -> bool:
        try:
            self._admin.describe_topics([self._topic]).raise_first()
        except KafkaError as error:
            if error.code.name != "UNKNOWN_TOPIC_OR_PARTITION":
                raise
            return False
        return True

    def _create(self) -> None:
        """Creates the topic. It may be there: a broker may not know yet of a topic that exists."""
        try:
            self._admin.create_topics([NewTopic(self._topic, num_partitions=1, configs=_CONFIGS)]).raise_first()
        except KafkaError as error:
            if error.code.name != "TOPIC_ALREADY_EXISTS":
                raise

    def _check_policy(self) -> None:
        """Raises IllegalOption for a topic that does not keep its records."""
        topic = ConfigResource(ConfigResourceType.TOPIC, self._topic)
        policy = self._admin.describe_configs([topic]).value(topic)["cleanup.policy"].value
        if policy != "compact":
            raise IllegalOption(
                f"the topic {self._topic}, which decisionsTopic names, has cleanup.policy={policy}, so that decisions"
                " would be lost and batches written twice: set its cleanup.policy to compact"
            )
