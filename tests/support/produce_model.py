"""A producer's accumulator, and two brokers that lose connections, responses and leadership, controlled by a script.

The brokers follow Kafka's rules for sequences (ProducerAppendInfo.java). They share the partitions' logs, so a leader
change loses no records; `lose_tail` simulates an unclean election. A producer snapshot has only the last batch of each
producer, so a restarted leader considers the retry of an earlier batch out of order.
"""

from collections import deque
from collections.abc import Iterable
from itertools import pairwise

import attrs

from broker.client.errors import ClientError
from broker.client.producer.accumulator import Accumulator, AccumulatorLimits
from broker.client.producer.batch import RECORD_OVERHEAD_BYTES, Batch, OnDelivery
from broker.client.producer.buffer_memory import BufferMemory
from broker.client.producer.compression_ratio import CompressionRatios
from broker.client.producer.produce_requests import ProduceOutcome, produce_outcome
from broker.client.producer.sequences import NO_SEQUENCE, Identity, ProducerIdentity, sequence_after
from broker.client.types import RecordMetadata, TopicPartition
from broker.wire.errors import ErrorCode

NODES = (0, 1)
RECORD_BYTES = RECORD_OVERHEAD_BYTES
LIMITS = AccumulatorLimits(batch_size=61 + 3 * RECORD_BYTES, linger_s=1.0, delivery_timeout_s=60.0)
RETRY_S = 0.1
REMEMBERED_BATCHES = 5


@attrs.frozen
class Sent:
    """A batch in a request, as it was sent."""

    batch: Batch
    identity: Identity
    base_sequence: int
    numbers: tuple[int, ...]


@attrs.define
class ProducerState:
    """A leader's state of the producer: its epoch, and base sequence, count and offset of the last batches."""

    epoch: int
    batches: deque[tuple[int, int, int]]

    @property
    def next_sequence(self) -> int:
        base, count, _ = self.batches[-1]
        return sequence_after(base, count)


@attrs.define
class PartitionLog:
    """The numbers of the records in a partition, and the producer's state there."""

    leader: int = 0
    numbers: list[int] = attrs.field(factory=list)
    state: ProducerState | None = None
    # All batches of the producer, each with its epoch.
    history: list[tuple[int, tuple[int, int, int]]] = attrs.field(factory=list)

    def append(self, sent: Sent, batch_max: int) -> tuple[ErrorCode, int]:
        """The error code, and the base offset of the batch."""
        if len(sent.numbers) > batch_max:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        offset = len(self.numbers)
        if sent.base_sequence == NO_SEQUENCE:
            self.numbers += sent.numbers
            return ErrorCode.NONE, offset
        state = self.state
        if state is not None and sent.identity.epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if state is not None and sent.identity.epoch == state.epoch:
            for base, count, appended_at in state.batches:
                if (base, count) == (sent.base_sequence, len(sent.numbers)):
                    return ErrorCode.NONE, appended_at
            if sent.base_sequence != state.next_sequence:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        elif state is not None and sent.base_sequence != 0:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        if state is None or sent.identity.epoch > state.epoch:
            state = self.state = ProducerState(sent.identity.epoch, deque(maxlen=REMEMBERED_BATCHES))
        state.batches.append((sent.base_sequence, len(sent.numbers), offset))
        self.history.append((sent.identity.epoch, state.batches[-1]))
        self.numbers += sent.numbers
        return ErrorCode.NONE, offset

    def lose_tail(self) -> int:
        """Drop the last batch, as an unclean election may do. Returns its number of records."""
        if not self.history:
            return 0
        _, (_, count, offset) = self.history.pop()
        del self.numbers[offset:]
        epochs = {epoch for epoch, _ in self.history[-1:]}
        batches = [batch for epoch, batch in self.history if epoch in epochs]
        self.state = ProducerState(epochs.pop(), deque(batches, maxlen=REMEMBERED_BATCHES)) if epochs else None
        return count

    def restart(self) -> None:
        """Forget all batches of the producer except the last one, like a leader that restarts from a snapshot."""
        if self.state is not None and self.state.batches:
            self.state.batches = deque([self.state.batches[-1]], maxlen=REMEMBERED_BATCHES)


@attrs.define
class Link:
    """The connection to a node: requests that the node has not read, and responses that have not arrived."""

    requests: deque[list[Sent]] = attrs.field(factory=deque)
    responses: deque[list[tuple[Sent, ErrorCode, int]]] = attrs.field(factory=deque)

    @property
    def in_flight(self) -> int:
        return len(self.requests) + len(self.responses)


class ProduceModel:
    """A producer and two brokers. `outcomes` has the result of each record, by its number."""

    def __init__(self, partitions: int = 2, *, batch_max: int = 1_000, is_idempotent: bool = True) -> None:
        self.now = 0.0
        self.batch_max = batch_max
        self.identity = ProducerIdentity() if is_idempotent else None
        self.identities_assigned = 0
        self.memory = BufferMemory(10**9)
        self.accumulator = Accumulator(LIMITS, self.identity, CompressionRatios(is_compressing=False), self.memory)
        self.logs = {TopicPartition("t", number): PartitionLog() for number in range(partitions)}
        self.links = {node: Link() for node in NODES}
        self.outcomes: dict[int, RecordMetadata | Exception] = {}
        self.partition_of: dict[int, TopicPartition] = {}
        self.fatal_codes: deque[ErrorCode] = deque()
        self.on_wire_max = 0

    # Actions of scripts

    def add(self, partition: int, count: int = 1) -> None:
        queue = self.accumulator.queue(TopicPartition("t", partition))
        for _ in range(count):
            number = len(self.partition_of)
            self.partition_of[number] = queue.partition
            batch = self.accumulator.batch_for(queue, RECORD_BYTES, self.now)
            batch.records.append((number, None, None, ()))
            batch.size += RECORD_BYTES
            self.memory.used += RECORD_BYTES
            batch.add_callback(len(batch.records) - 1, self._noting(number))

    def drain(self) -> None:
        """Let the producer send the batches that are due."""
        for batch in self.accumulator.expired(self.now):
            self.accumulator.fail(batch, ClientError("expired"))
        drained = self.accumulator.drain(
            self.now, lambda partition: self.logs[partition].leader, lambda node: self.links[node].in_flight < 5
        )
        if drained.is_identity_missing and self.identity is not None:
            self.identities_assigned += 1
            self.identity.assigned(self.identities_assigned, 0)
        for node, batches in drained.batches.items():
            self.links[node].requests.append(
                [Sent(each, each.identity, each.base_sequence, numbers(each)) for each in batches]
            )
        self._check()

    def serve(self, node: int, code: ErrorCode | None = None, *, after_append: bool = False) -> None:
        """Let a node process its next request. With `code` it responds with this error, by default without
        appending.
        """
        link = self.links[node]
        if not link.requests:
            return
        answers = []
        for sent in link.requests.popleft():
            log = self.logs[sent.batch.partition]
            if log.leader != node:
                answers.append((sent, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1))
            elif code is not None and not after_append:
                answers.append((sent, code, -1))
            else:
                found, offset = log.append(sent, self.batch_max)
                answers.append((sent, found if code is None or found else code, offset))
        link.responses.append(answers)

    def answer(self, node: int) -> None:
        """Let the node's next response arrive."""
        link = self.links[node]
        if not link.responses:
            return
        answers = link.responses.popleft()
        for sent, _, _ in answers:
            self.accumulator.end_attempt(sent.batch)
        for sent, code, offset in answers:
            self._apply(sent.batch, code, offset)

    def break_connection(self, node: int) -> None:
        link = self.links[node]
        lost = [sent for sents in link.requests for sent in sents]
        lost += [sent for answers in link.responses for sent, _, _ in answers]
        link.requests.clear()
        link.responses.clear()
        for sent in lost:
            self.accumulator.end_attempt(sent.batch)
            sent.batch.retry_at = self.now + RETRY_S

    def move_leader(self, partition: int) -> None:
        log = self.logs[TopicPartition("t", partition)]
        log.leader = 1 - log.leader

    def lose_tail(self, partition: int) -> None:
        self.logs[TopicPartition("t", partition)].lose_tail()

    def restart(self, partition: int) -> None:
        self.logs[TopicPartition("t", partition)].restart()

    def settle(self) -> None:
        """Process all requests without faults until every record has its outcome."""
        for _ in range(2_000):
            if self.accumulator.is_empty:
                return
            self.now += RETRY_S
            self.drain()
            for node in NODES:
                self.serve(node)
                self.answer(node)
        raise AssertionError("records without an outcome")

    # Actions of the producer

    @property
    def written(self) -> list[int]:
        """The numbers of the records that were acknowledged."""
        return [number for number, outcome in self.outcomes.items() if isinstance(outcome, RecordMetadata)]

    def check_order(self) -> None:
        """Check that no record is in a log twice, that every log is in order, and that every record has an outcome."""
        for partition, log in self.logs.items():
            assert log.numbers == sorted(set(log.numbers)), f"{partition}: {log.numbers}"
        assert len(self.outcomes) == len(self.partition_of), "every record has one outcome"
        assert self.memory.used == 0, "all memory is free again"

    def check_logs(self) -> None:
        """Like `check_order`; also check that every acknowledged record is in its log at the acknowledged offset."""
        self.check_order()
        for number in self.written:
            outcome = self.outcomes[number]
            assert isinstance(outcome, RecordMetadata)
            assert self.logs[self.partition_of[number]].numbers[outcome.offset] == number

    def _noting(self, number: int) -> OnDelivery:
        def note(metadata: RecordMetadata | None, error: Exception | None) -> None:
            assert number not in self.outcomes, "a record has one outcome"
            outcome = metadata or error
            assert outcome is not None
            self.outcomes[number] = outcome

        return note

    def _apply(self, batch: Batch, code: ErrorCode, offset: int) -> None:
        verdict = produce_outcome(code, len(batch.records), 0, is_idempotent=self.identity is not None)
        if verdict is ProduceOutcome.APPENDED:
            self.accumulator.succeed(batch, offset)
        elif verdict is ProduceOutcome.SPLIT:
            self.accumulator.split(batch, self.now)
        elif verdict is ProduceOutcome.FAILED:
            self.accumulator.fail(batch, ClientError(code.name))
        else:
            if verdict is ProduceOutcome.SEQUENCE_REJECTED:
                self.accumulator.reject_sequence(batch, ClientError(code.name))
            batch.retry_at = self.now + RETRY_S

    def _check(self) -> None:
        """Check the invariants of batches in flight."""
        for partition in self.logs:
            queue = self.accumulator.queue(partition)
            on_wire = [sent for link in self.links.values() for sents in link.requests for sent in sents]
            on_wire += [sent for link in self.links.values() for answers in link.responses for sent, _, _ in answers]
            here = [sent for sent in on_wire if sent.batch.partition == partition]
            self.on_wire_max = max(self.on_wire_max, len(here))
            assert len(here) == queue.on_wire <= LIMITS.in_flight_max
            if self.identity is not None and not queue.must_renumber:
                assert are_contiguous(queue.outstanding) or queue.sequences.has_gap


def numbers(batch: Batch) -> tuple[int, ...]:
    return tuple(timestamp_ms for timestamp_ms, _, _, _ in batch.records)


def are_contiguous(batches: Iterable[Batch]) -> bool:
    return all(
        sequence_after(one.base_sequence, len(one.records)) == other.base_sequence and one.identity == other.identity
        for one, other in pairwise(batches)
    )
