"""A consume-transform-produce job as a process that tests kill: `python -m tests.support.transform_process '{...}'`.

It copies one topic to another, exactly once: a transaction has the records of one poll, and the group's next offsets. A
transaction that fails is aborted, and the consumer rewinds to the committed offsets; after a fatal error both clients
are opened again. It prints a line for each transaction.
"""

import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import attrs
import confluent_kafka
from confluent_kafka import KafkaException

from broker.client import (
    ClientError,
    ConsumerRecord,
    KafkaError,
    OffsetAndMetadata,
    SyncConsumer,
    SyncProducer,
    TopicPartition,
    TransactionAbortable,
)
from jepsen.processes.launcher import LaunchedProcess, Program, launcher

_TRANSFORM: Final = Program(
    "tests.support.transform_process",
    ("confluent_kafka", "broker.client.blocking.consumer", "broker.client.blocking.producer"),
)
_RECORDS_MAX: Final = 200
_POLL_S: Final = 0.2
# Longer than the loss of a coordinator takes.
_CALL_S: Final = 60.0
# Longer than the default timeout of the job's transactions: afterwards, the call cannot have an effect.
_HUNG_S: Final = 15.0
_IDLE_S: Final = 5.0
_STATISTICS_S: Final = 1.0
# The exit code of a job that has hung.
_HUNG_CODE: Final = 3
_COMMITTED: Final = "committed"
_ABORTED: Final = "aborted"
_REOPENED: Final = "reopened"
_HUNG: Final = "hung"


@attrs.frozen
class TransformJob:
    """`client` is a key of CLIENTS."""

    client: str
    servers: str
    source: str
    target: str
    group: str
    transactional_id: str
    transaction_timeout_ms: int = 10_000

    def run(self) -> NoReturn:
        while True:
            try:
                CLIENTS[self.client](self)
            except (ClientError, KafkaError, KafkaException) as error:
                _print(_REOPENED, repr(error))


def _print(what: str, *words: object) -> None:
    print(f"{time.time():.3f}", what, *words, flush=True)


# confluent-kafka


class HangWatch:
    """A thread that ends the process if a call of a producer of librdkafka has hung.

    librdkafka 2.16 may wait forever, whatever the timeout, for the coordinator of a group: if its broker has left the
    metadata since librdkafka has cached it, no event has librdkafka look for another one (librdkafka issues 5511 and
    5456). An application can only restart then. A call has hung if it has lasted for 15 s and its client was idle for
    the last 5 s: it waited for no response, and sent no request other than Metadata. So a client that waits for a node
    is never restarted, and fails the test.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self._closed = False
        # (time in seconds, the traffic until then), of the last seconds.
        self._history: deque[tuple[float, Mapping[str, object]]] = deque(maxlen=int(_IDLE_S / _STATISTICS_S) + 1)

    @property
    def settings(self) -> dict[str, Any]:
        """The producer's settings with which it reports its traffic."""
        return {"statistics.interval.ms": int(_STATISTICS_S * 1000), "stats_cb": self.take_statistics}

    def start(self, producer: confluent_kafka.Producer) -> None:
        threading.Thread(target=self._run, args=[producer], daemon=True).start()

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the call within the block."""
        self._began = time.monotonic()
        try:
            yield
        finally:
            self._began = None

    def take_statistics(self, statistics: str) -> None:
        """Called by librdkafka every second."""
        read = json.loads(statistics)
        self._history.append((read["ts"] / 1e6, _traffic(read["brokers"])))

    def is_idle(self) -> bool:
        """True if the client has sent nothing and has waited for no response in the last 5 s."""
        if len(self._history) != self._history.maxlen:
            return False
        first, last = self._history[0], self._history[-1]
        return last[0] - first[0] > 0.9 * _IDLE_S and all(
            traffic == first[1] and not traffic["unanswered"] for _, traffic in self._history
        )

    def _run(self, producer: confluent_kafka.Producer) -> None:
        while not self._closed:
            producer.poll(_POLL_S)
            began = self._began
            if began is not None and time.monotonic() - began > _HUNG_S and self.is_idle():
                _print(_HUNG, json.dumps(self._history[-1][1]))
                os._exit(_HUNG_CODE)


def _traffic(brokers: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
    """The requests without a response, and the number sent by broker and API, from statistics of librdkafka."""
    return {
        "unanswered": sum(each["waitresp_cnt"] for each in brokers.values()),
        "sent": {
            name: {api: count for api, count in each["req"].items() if count and api != "Metadata"}
            for name, each in brokers.items()
        },
    }


def _transform_with_confluent(job: TransformJob) -> NoReturn:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": job.servers,
            "group.id": job.group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "log_level": 0,
        }
    )
    watch = HangWatch()
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": job.servers,
            "transactional.id": job.transactional_id,
            "transaction.timeout.ms": job.transaction_timeout_ms,
            "linger.ms": 5,
            "log_level": 0,
            **watch.settings,
        }
    )
    watch.start(producer)
    try:
        _retried(lambda: producer.init_transactions(_CALL_S))
        consumer.subscribe([job.source])
        while True:
            messages = [each for each in consumer.consume(_RECORDS_MAX, _POLL_S) if each.error() is None]
            if messages:
                _transact_with_confluent(job, consumer, producer, messages, watch)
    finally:
        watch.close()
        consumer.close()


def _transact_with_confluent(
    job: TransformJob,
    consumer: confluent_kafka.Consumer,
    producer: confluent_kafka.Producer,
    messages: list[confluent_kafka.Message],
    watch: HangWatch,
) -> None:
    began = time.monotonic()
    offsets: dict[tuple[str, int], int] = {}
    try:
        producer.begin_transaction()
        for message in messages:
            producer.produce(job.target, message.value(), message.key())
            place = message.topic(), message.partition()
            offsets[place] = message.offset() + 1  # type: ignore[index,operator]
        next_offsets = [confluent_kafka.TopicPartition(*place, offset) for place, offset in offsets.items()]
        group = consumer.consumer_group_metadata()
        with watch.watched():
            _retried(lambda: producer.send_offsets_to_transaction(next_offsets, group, _CALL_S))
        _retried(lambda: producer.commit_transaction(_CALL_S))
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        _retried(lambda: producer.abort_transaction(_CALL_S))
        _print(_ABORTED, repr(error))
        for each in consumer.committed(consumer.assignment(), _CALL_S):
            each.offset = each.offset if each.offset >= 0 else confluent_kafka.OFFSET_BEGINNING
            consumer.seek(each)
    else:
        _print(_COMMITTED, len(messages), f"{time.monotonic() - began:.3f}")


def _retried(call: Callable[[], object]) -> None:
    """Make a call of a transaction until its outcome is known: librdkafka says which errors are retriable."""
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


# The client library


def _transform_with_library(job: TransformJob) -> NoReturn:
    settings: Mapping[str, Any] = {"bootstrap_servers": job.servers}
    with (
        SyncProducer(
            **settings,
            transactional_id=job.transactional_id,
            transaction_timeout_ms=job.transaction_timeout_ms,
        ) as producer,
        SyncConsumer(
            **settings,
            topics=[job.source],
            group_id=job.group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        producer.init_transactions()
        while True:
            if records := consumer.fetch(max_records=_RECORDS_MAX, timeout_s=_POLL_S):
                _transact_with_library(job, consumer, producer, records)


def _transact_with_library(
    job: TransformJob, consumer: SyncConsumer, producer: SyncProducer, records: list[ConsumerRecord]
) -> None:
    began = time.monotonic()
    offsets = {}
    try:
        with producer.transaction():
            for record in records:
                producer.send_soon(job.target, record.value, key=record.key)
                offsets[TopicPartition(record.topic, record.partition)] = OffsetAndMetadata(record.offset + 1)
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    except TransactionAbortable as error:
        _print(_ABORTED, repr(error))
        assigned = list(consumer.assignment())
        for partition, committed in consumer.committed(assigned).items():
            if committed is None:
                consumer.seek_to_beginning([partition])
            else:
                consumer.seek(partition, committed.offset)
    else:
        _print(_COMMITTED, len(records), f"{time.monotonic() - began:.3f}")


CLIENTS: Final[Mapping[str, Callable[[TransformJob], NoReturn]]] = {
    "confluent-kafka": _transform_with_confluent,
    "library": _transform_with_library,
}


# The parent process


class TransformProcess:
    """A job in its own process. Its output goes to a file, to which each start appends.

    `hung` counts how often it was started again because a call of its client did not return.
    """

    def __init__(self, job: TransformJob, output: Path) -> None:
        self.job = job
        self.output = output
        self.hung = 0
        self._committed_before = 0
        self._process: LaunchedProcess | None = None

    def start(self) -> None:
        with self.output.open("ab") as file:
            self._committed_before = self.transactions()[_COMMITTED]
            self._process = launcher().start(_TRANSFORM, [json.dumps(attrs.asdict(self.job))], file.fileno())

    def kill(self) -> None:
        """kill -9."""
        self.restart_if_hung()
        assert self._process is not None, "it was started"
        self._process.kill()
        self._process.wait(10)

    def restart_if_hung(self) -> None:
        """Start the process again if its client has hung. Fails if it has ended for another reason."""
        assert self._process is not None, "it was started"
        code = self._process.poll()
        if code == _HUNG_CODE:
            self.hung += 1
            self.start()
        else:
            assert code is None, f"the job ended with {code}:\n{self.output.read_text()[-3000:]}"

    def discard(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)

    @property
    def has_committed(self) -> bool:
        """True if it has committed a transaction since it was last started."""
        return self.transactions()[_COMMITTED] > self._committed_before

    def transactions(self) -> dict[str, int]:
        """How many transactions were committed, aborted because of an error, and given up with their producer."""
        words = [line.split() for line in self.output.read_text().splitlines()]
        kinds = [each[1] for each in words if len(each) > 1]
        return {kind: kinds.count(kind) for kind in (_COMMITTED, _ABORTED, _REOPENED)}


if __name__ == "__main__":
    TransformJob(**json.loads(sys.argv[1])).run()
