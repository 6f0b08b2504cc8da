"""A member of a consumer group: records its assignments, polls and commits, and the committed offsets at its start.

Each incarnation is a process, so that it can be killed. The history records the calls of its callbacks.
"""

import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from jepsen.history import Operation
from jepsen.processes.clients.client import EITHER, Client
from jepsen.processes.clients.consuming import record_of
from jepsen.values import Commit, CommittedRead, GroupPoll, Ownership

_BATCH: Final = 100
_WAIT_SECONDS: Final = 0.1
# How long an answer about committed offsets is waited for, within a callback.
_ANSWER_SECONDS: Final = 5.0
# The probability of an asynchronous commit after a poll; and the probability that a member fetches the committed
# offsets itself, instead of leaving that to librdkafka.
_COMMITS: Final = 0.2
_ASKS: Final = 0.5
# How long after a fatal error another consumer is made.
_SECONDS_OF_GRIEF: Final = 1.0
# Kafka's default is 45 s, which is longer than most faults here.
_SESSION_MS: Final = 6_000
_HEARTBEAT_MS: Final = 1_000
# How librdkafka writes down what a consumer knows of its group: this, and the generation in the machine's own order.
_METADATA_HEAD: Final = b"CGMDv2:"


def join(client: Client) -> None:
    """Consume until `stopping` is set; then leave the group, unless as a static member of a classic one.

    A consumer that fails is replaced by another one. A static member is refused, which is fatal, while its former
    incarnation may still exist (KIP-848).
    """
    consumers = 0
    while not client.stopping.is_set():
        member = _Member(client, f"{client.plan.name}.{consumers}")
        while not (client.stopping.is_set() or member.is_over):
            member.poll()
        member.close()
        if member.is_over:
            client.stopping.wait(_SECONDS_OF_GRIEF)
        consumers += 1


class _Member:
    def __init__(self, client: Client, name: str) -> None:
        assert client.plan.member is not None, "the plan of a member"
        self.is_over = False
        self._plan = client.plan.member
        self._begins_anew = self._plan.protocol == EITHER
        if self._begins_anew:
            protocol, assignor = client.rng.choice((("classic", "range"), ("consumer", "uniform")))
            self._plan = attrs.evolve(self._plan, protocol=protocol, assignor=assignor)
        self._client = client
        self._name = name
        self._asks = client.rng.random() < _ASKS
        self._owned: set[int] = set()
        # Where each partition is to go on that was polled since the last commit.
        self._processed: dict[int, int] = {}
        self._committing: Operation | None = None
        self._consumer = Consumer(self._settings())
        self._consumer.subscribe(
            [client.plan.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def poll(self) -> None:
        by_partition: dict[int, list[Message]] = {}
        for message in self._consumer.consume(_BATCH, _WAIT_SECONDS):
            error = message.error()
            if error is None:
                by_partition.setdefault(message.partition() or 0, []).append(message)
            else:
                self._fail(message.partition() or 0, error)
        for partition, messages in by_partition.items():
            self._record(partition, messages)
        if self._plan.commits_each:
            self._commit(self._taken(list(self._processed)))
        elif self._committing is None and self._client.rng.random() < _COMMITS:
            self._commit_in_passing(self._taken(list(self._processed)))

    def close(self) -> None:
        self._consumer.close()

    def _fail(self, partition: int, error: KafkaError) -> None:
        """End this consumer: librdkafka may not recover from an error, such as an offset that it could not fetch."""
        polling = GroupPoll(self._plan.group, self._name, self._client.plan.topic, partition)
        self._client.history.info(self._client.history.invoke(self._name, "poll-group", polling), str(error))
        self.is_over = True

    def _record(self, partition: int, messages: Sequence[Message]) -> None:
        """Begun and completed at once: callbacks within the same call of librdkafka come before its records."""
        history, topic = self._client.history, self._client.plan.topic
        polling = history.invoke(self._name, "poll-group", GroupPoll(self._plan.group, self._name, topic, partition))
        records = [record_of(message) for message in messages]
        history.ok(polling, records)
        self._processed[partition] = records[-1][0] + 1

    # Callbacks

    def _on_error(self, error: KafkaError) -> None:
        self.is_over = self.is_over or error.fatal()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._note("assign", partitions)
        self._owned |= {each.partition for each in partitions}
        starts = self._committed(partitions) if self._asks and partitions else partitions
        is_incremental = self._plan.protocol == "consumer" or self._plan.assignor.startswith("cooperative")
        # A partition that was revoked during the request cannot be assigned any more. A callback must not fail:
        # librdkafka's binding for Python does not recover from that.
        with suppress(KafkaException):
            (consumer.incremental_assign if is_incremental else consumer.assign)(starts)

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit(self._given_up(partitions))
        self._note("revoke", partitions)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._given_up(partitions)
        self._note("lose", partitions)

    def _given_up(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """The offsets to commit of partitions that it gives up."""
        numbers = [each.partition for each in partitions]
        self._owned.difference_update(numbers)
        return self._taken(numbers)

    def _note(self, function: str, partitions: Sequence[TopicPartition]) -> None:
        history, named = self._client.history, tuple((each.topic, each.partition) for each in partitions)
        ownership = Ownership(self._plan.group, self._name, self._generation(), named, self._plan.instance)
        history.ok(history.invoke(self._name, function, ownership), None)

    # Committed offsets

    def _taken(self, partitions: Sequence[int]) -> list[TopicPartition]:
        """The offsets to commit of these partitions; each is returned once."""
        topic = self._client.plan.topic
        return [
            TopicPartition(topic, partition, self._processed.pop(partition))
            for partition in partitions
            if partition in self._processed
        ]

    def _commit(self, offsets: list[TopicPartition]) -> None:
        """And wait for the answer."""
        if not offsets:
            return
        operation = self._begun(offsets)
        try:
            told = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as exception:
            error = exception.args[0]
            assert isinstance(error, KafkaError), "as librdkafka has it"
            self._complete(operation, [error])
        else:
            self._complete(operation, [each.error for each in told or ()])

    def _commit_in_passing(self, offsets: list[TopicPartition]) -> None:
        if offsets:
            self._committing = self._begun(offsets)
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def _on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """Called with the result of an asynchronous commit."""
        operation, self._committing = self._committing, None
        if operation is not None:
            self._complete(operation, [error, *(each.error for each in partitions)])

    def _complete(self, operation: Operation, errors: Sequence[KafkaError | None]) -> None:
        """Without an acknowledgement, the outcome is unknown: librdkafka may have sent several requests.

        The offsets of partitions that the member still owns are committed later.
        """
        error = next(filter(None, errors), None)
        if error is None:
            self._client.history.ok(operation, None)
            return
        self._client.history.info(operation, error.name())
        for _, partition, offset in operation.value.offsets:
            if partition in self._owned:
                self._processed.setdefault(partition, offset)

    def _begun(self, offsets: Sequence[TopicPartition]) -> Operation:
        named = tuple((each.topic, each.partition, each.offset) for each in offsets)
        commit = Commit(self._plan.group, self._name, self._generation(), named)
        return self._client.history.invoke(self._name, "commit", commit)

    def _committed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The start positions. Without a response, librdkafka has to fetch them again."""
        history, named = self._client.history, tuple((each.topic, each.partition) for each in partitions)
        read = CommittedRead(self._plan.group, self._name, named)
        operation = history.invoke(self._name, "fetch-committed", read)
        with suppress(KafkaException):
            told = self._consumer.committed(partitions, timeout=_ANSWER_SECONDS)
            if not any(each.error for each in told):
                result = tuple((each.topic, each.partition, max(each.offset, -1)) for each in told)
                history.ok(operation, result)
                return told
        history.info(operation, "no answer")
        return partitions

    def _generation(self) -> int:
        """The generation, or the member's epoch with the "consumer" protocol; -1 if it is not a member, or if it may
        not be compared.

        An empty group that is joined with the other protocol is a new group, which counts from 1 again.
        """
        if self._begins_anew:
            return -1
        metadata: Any = self._consumer.consumer_group_metadata()
        assert metadata.startswith(_METADATA_HEAD), metadata
        generation: int = struct.unpack_from("=i", metadata, len(_METADATA_HEAD))[0]
        return generation

    def _settings(self) -> dict[str, object]:
        settings = {
            **self._client.settings(),
            "group.id": self._plan.group,
            "group.protocol": self._plan.protocol,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "check.crcs": "true",
            "fetch.wait.max.ms": 250,
            "fetch.error.backoff.ms": 50,
            "on_commit": self._on_commit,
            "error_cb": self._on_error,
        }
        if self._plan.instance:
            settings["group.instance.id"] = self._plan.instance
        if self._plan.protocol == "consumer":
            return settings | {"group.remote.assignor": self._plan.assignor}
        return settings | {
            "partition.assignment.strategy": self._plan.assignor,
            "session.timeout.ms": _SESSION_MS,
            "heartbeat.interval.ms": _HEARTBEAT_MS,
        }
