"""Copies the failed records of one share-partition to the dead-letter topic of its group (KIP-1191).

The records are ARCHIVING meanwhile. The share coordinator has stored that, so that a new leader of the share-partition
goes on. A record is copied at least once. It is copied twice if a leader dies between the copy and the change to
ARCHIVED, or if the response to a write is lost. As in Kafka, records that cannot be copied are archived, too; an event
names them.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Final

import trio

from broker.share_partitions.dead_letter_batch import Source, build_batch
from broker.share_partitions.dead_letter_topics import DeadLetterTopics, Destination
from broker.share_partitions.in_flight import DeadLetters
from broker.share_partitions.settings import DeliverySettings
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from kraft.background_tasks import BackgroundTasks
from kraft.env import Tracer

# How long a write is tried again, from the last success of the share-partition on. It outlasts the election of another
# leader after the death of a broker. Kafka tries five times.
RETRY_S: Final = 60.0
_BACKOFF_S: Final = 0.1
_BACKOFF_S_MAX: Final = 1.0
_JITTER: Final = 0.2
# Batches that are built or written at once by all share-partitions of a broker: some tens of MiB of memory. Those to
# one leader have a bound of their own: if it hangs, they wait for PRODUCE_TIMEOUT_MS, and batches to others go on.
_BATCHES_MAX: Final = 32
_BATCHES_PER_LEADER: Final = 4
# Kafka's. It is longer than a leader waits for a follower that hangs (`replica.lag.time.max.ms`).
PRODUCE_TIMEOUT_MS: Final = 30_000
_ALL_REPLICAS: Final = -1
# The controller cannot place the replicas while brokers are down.
_ALSO_RETRIABLE: Final = (ErrorCode.INVALID_REPLICATION_FACTOR,)


@lazy_attrs.define
class DeadLetterCounts:
    """Counts of one group for metrics: the records that were copied, and the writes that were sent and have failed."""

    records: int = 0
    requests: int = 0
    failed_requests: int = 0


class RecordsRefused(KafkaError):
    """A batch was not written because of some of its records, by their indexes; because of all if none are named."""

    def __init__(self, code: ErrorCode, message: str, indexes: Sequence[int]) -> None:
        super().__init__(code, message)
        self.indexes = indexes


@lazy_attrs.frozen
class Outcome:
    """The outcome of a write. It is about the records `letters`, of which `count` were written."""

    letters: Sequence[DeadLetters]
    count: int
    error: KafkaError | None = None


class DeadLetterWriter:
    """Lets the queues of a broker write. `run` must run.

    `send` has a broker carry out a Produce request, and returns the response; None if the broker could not be reached.
    """

    def __init__(
        self,
        topics: DeadLetterTopics,
        settings: Callable[[str], DeliverySettings],
        send: Callable[[int, ProduceRequest], Awaitable[Any]],
        wall_ms: Callable[[], int],
        rng: Random,
        trace: Tracer,
    ) -> None:
        self.topics = topics
        self.settings = settings
        self.wall_ms = wall_ms
        self.trace = trace
        self.counts: dict[str, DeadLetterCounts] = {}
        self._send = send
        self._rng = rng
        self._slots = trio.CapacityLimiter(_BATCHES_MAX)
        self._slots_of_leaders: dict[int, trio.CapacityLimiter] = {}
        self._tasks = BackgroundTasks()

    async def run(self) -> None:
        """Carries the tasks of queues, until cancelled."""
        await self._tasks.run()

    def start(self, task: Callable[[], Awaitable[None]]) -> None:
        """Runs the task of a queue."""
        self._tasks.start_soon(task)

    def counts_of(self, group_id: str) -> DeadLetterCounts:
        return self.counts.setdefault(group_id, DeadLetterCounts())

    def forget_unused_counts(self) -> None:
        """Forgets the counts of groups that have no dead-letter topic any more."""
        for group_id in [each for each in self.counts if not self.settings(each).dead_letter_topic]:
            del self.counts[group_id]

    async def write(self, source: Source, waiting: Sequence[DeadLetters]) -> Outcome:
        """Writes dead letters of the first records of `waiting`."""
        name = self.settings(source.group_id).dead_letter_topic
        try:
            leader = self.topics.find(name, source.partition).leader
        except KafkaError as error:
            return Outcome(waiting, 0, error)
        # A batch that waits for a leader that hangs has none of the slots of all.
        async with self._slots_of(leader), self._slots:
            return await self._write(source, waiting)

    def _slots_of(self, leader: int) -> trio.CapacityLimiter:
        slots = self._slots_of_leaders.get(leader)
        if slots is None:
            slots = self._slots_of_leaders[leader] = trio.CapacityLimiter(_BATCHES_PER_LEADER)
        return slots

    async def _write(self, source: Source, waiting: Sequence[DeadLetters]) -> Outcome:
        settings = self.settings(source.group_id)
        try:
            destination = self.topics.find(settings.dead_letter_topic, source.partition)
            max_message_bytes, copies = destination.max_message_bytes, settings.copies_dead_letters
            batch = await build_batch(source, waiting, max_message_bytes, copies=copies, wall_ms=self.wall_ms())
        except KafkaError as error:
            return Outcome(waiting, 0, error)
        try:
            if batch.offsets:
                await self._produce(destination, batch.encoded, self.counts_of(source.group_id))
        except RecordsRefused as error:
            return Outcome(batch.letters_at(error.indexes) or batch.letters, 0, error)
        except KafkaError as error:
            return Outcome(batch.letters, 0, error)
        return Outcome(batch.letters, len(batch.offsets))

    async def _produce(self, destination: Destination, encoded: bytes, counts: DeadLetterCounts) -> None:
        """Has the leader of the destination append a batch. Raises KafkaError."""
        partition = PartitionProduceData(index=destination.partition, records=memoryview(encoded))
        topic = TopicProduceData(topic_id=destination.topic_id, partition_data=[partition])
        request = ProduceRequest(acks=_ALL_REPLICAS, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[topic])
        counts.requests += 1
        response = await self._send(destination.leader, request)
        if response is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"broker {destination.leader} cannot be reached")
        answers = [each for topic in response.responses for each in topic.partition_responses]
        if len(answers) != 1:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"broker {destination.leader} has not answered")
        answer = answers[0]
        if answer.error_code:
            indexes = [each.batch_index for each in answer.record_errors]
            raise RecordsRefused(ErrorCode.of(answer.error_code), answer.error_message or "", indexes)

    async def create_topic(self, source: Source) -> KafkaError | None:
        """Creates the dead-letter topic of a group. Returns the error of the controller, if there is one."""
        try:
            await self.topics.create(self.settings(source.group_id).dead_letter_topic)
        except KafkaError as error:
            return error
        return None

    def report_lost(self, source: Source, letters: Sequence[DeadLetters], error: KafkaError) -> None:
        """Reports records that have failed, and that are not copied."""
        self.counts_of(source.group_id).failed_requests += 1
        self.trace(
            "dead_letters_lost",
            group=source.group_id,
            topic=source.partition.topic,
            partition=source.partition.index,
            first_offset=min(each.first_offset for each in letters),
            last_offset=max(each.last_offset for each in letters),
            count=sum(each.last_offset - each.first_offset + 1 for each in letters),
            dead_letter_topic=self.settings(source.group_id).dead_letter_topic,
            error=str(error),
        )

    def backoff_s(self, attempts: int) -> float:
        """The pause after so many attempts in a row that have failed."""
        pause_s = min(_BACKOFF_S * 2.0 ** min(attempts - 1, 16), _BACKOFF_S_MAX)
        return pause_s * self._rng.uniform(1 - _JITTER, 1 + _JITTER)


@lazy_attrs.define(eq=False)
class _Waiting:
    """Records that wait for their copy, since a time of Trio's clock."""

    letters: DeadLetters
    since: float


class DeadLetterQueue:
    """See the module's docstring. `archive` is called with records that are copied, or cannot be.

    One batch is written at a time, beginning with the lowest offsets: the start offset waits for them.
    """

    __slots__ = ("_archive", "_has_task", "_is_closed", "_progress_at", "_source", "_waiting", "_writer")

    def __init__(
        self, source: Source, writer: DeadLetterWriter, archive: Callable[[Sequence[DeadLetters]], None]
    ) -> None:
        self._source = source
        self._writer = writer
        self._archive = archive
        self._waiting: list[_Waiting] = []
        self._progress_at = 0.0
        self._has_task = self._is_closed = False

    @property
    def is_idle(self) -> bool:
        """True if no record waits for its copy."""
        return not self._waiting

    def add(self, letters: Sequence[DeadLetters]) -> None:
        """Copy these records."""
        if not letters:
            return
        now = trio.current_time()
        self._waiting += [_Waiting(each, now) for each in letters]
        if not self._has_task:
            self._has_task = True
            self._writer.start(self._run)

    def close(self) -> None:
        """Copy nothing more: the next leader of the share-partition does."""
        self._is_closed = True
        self._waiting.clear()

    async def _run(self) -> None:
        attempts = 0
        while self._waiting:
            self._waiting.sort(key=lambda each: each.letters.first_offset)
            outcome = await self._writer.write(self._source, [each.letters for each in self._waiting])
            if self._is_closed:
                break
            if outcome.error is None:
                attempts, self._progress_at = 0, trio.current_time()
                self._writer.counts_of(self._source.group_id).records += outcome.count
                self._finish(outcome.letters)
            else:
                attempts += 1
                await self._failed(outcome.letters, outcome.error, attempts)
        self._has_task = False

    def _finish(self, letters: Sequence[DeadLetters]) -> None:
        """Archive some of the waiting records, which may be parts of their ranges."""
        finished = deque(letters)
        rest: list[_Waiting] = []
        for each in sorted(self._waiting, key=lambda each: each.letters.first_offset):
            first, last = each.letters.first_offset, each.letters.last_offset
            while finished and finished[0].last_offset <= last:
                done = finished.popleft()
                if done.first_offset > first:
                    part = each.letters._replace(first_offset=first, last_offset=done.first_offset - 1)
                    rest.append(_Waiting(part, each.since))
                first = done.last_offset + 1
            if first <= last:
                rest.append(_Waiting(each.letters._replace(first_offset=first), each.since))
        self._waiting = rest
        self._archive(letters)

    async def _failed(self, affected: Sequence[DeadLetters], error: KafkaError, attempts: int) -> None:
        """Give records up, or pause before the next attempt."""
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            error = await self._writer.create_topic(self._source) or error
        if not (error.retriable or error.code in _ALSO_RETRIABLE):
            self._give_up(affected, error)
            return
        oldest = trio.current_time() - RETRY_S
        overdue = [
            each.letters
            for each in self._waiting
            if each.letters.first_offset <= affected[-1].last_offset and max(each.since, self._progress_at) <= oldest
        ]
        self._give_up(overdue, error)
        await trio.sleep(self._writer.backoff_s(attempts))

    def _give_up(self, letters: Sequence[DeadLetters], error: KafkaError) -> None:
        """Archive records without a copy, and report them."""
        if not letters or self._is_closed:
            return
        self._writer.report_lost(self._source, letters, error)
        self._finish(letters)
