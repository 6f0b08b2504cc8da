"""The promise of a bank: transactions move amounts between accounts, and the total of all balances stays the same."""

from collections import Counter, defaultdict, deque
from collections.abc import Container, Iterator, Mapping

import attrs

from jepsen.checkers.checker import Anomaly
from jepsen.checkers.records import TopicPartition, excerpt, final_reads, name_of
from jepsen.history import History, Operation, Outcome
from jepsen.values import OPENING_BALANCE, Posting, transaction_of


class BalancesAddUp:
    """No amount is created or lost: after each committed transaction the balances have the same total, and each posting
    continues from the balance that the account's last posting has left. ("bank")

    The final reads show this, and so do the reads of each client from offset zero on. A client that starts again from
    there reads most records again, of which the first reading counts: it may start again before it has read all
    partitions, so that its second reading is not complete without the first.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        places = _places(history)
        finals = final_reads(history) if places else {}
        last = _Replay(places)
        for partition, final in finals.items():
            yield from self._anomalies(last.read(partition, final.operation))
        for place in last.unfinished(finals):
            what = f"{place.transaction} at {place.offset} of {name_of(place.partition)} is torn or out of order"
            yield Anomaly(type(self).__name__, what, (place.proof,))
        for reads in _reads_by_client(history, {partition for each in places.values() for partition in each}):
            replay = _Replay(places)
            for partition, operation in reads:
                yield from self._anomalies(replay.read(partition, operation))

    def _anomalies(self, mistakes: "Iterator[_Mistake]") -> Iterator[Anomaly]:
        for mistake in mistakes:
            yield Anomaly(type(self).__name__, mistake.what, mistake.proof)


@attrs.frozen
class _Mistake:
    what: str
    proof: tuple[Operation, ...]


@attrs.frozen
class _Place:
    """A posting as it was read."""

    partition: TopicPartition
    offset: int
    transaction: str
    posting: Posting
    operation: Operation

    @property
    def proof(self) -> Operation:
        return excerpt(self.operation, self.offset)


def _places(history: History) -> Mapping[str, Counter[TopicPartition]]:
    """The number of postings in each partition, by transaction."""
    places: dict[str, Counter[TopicPartition]] = {}
    for operation in history.of("transact"):
        counts: Counter[TopicPartition] = Counter()
        for topic, index, values in operation.value.records:
            counts[topic, index] += sum(Posting.of(value) is not None for value in values)
        if counts.total():
            places[operation.value.name] = +counts
    return places


def _reads_by_client(
    history: History, partitions: Container[TopicPartition]
) -> Iterator[list[tuple[TopicPartition, Operation]]]:
    """The reads of each client of these partitions, in their order."""
    reads: dict[str, list[tuple[TopicPartition, Operation]]] = defaultdict(list)
    for operation in history.of("poll", outcome=Outcome.OK):
        partition = operation.value.topic, operation.value.partition
        if partition in partitions:
            reads[operation.client].append((partition, operation))
    yield from reads.values()


class _Replay:
    """Executes transactions in the order of their records, each one when all of its postings have been read."""

    def __init__(self, places: Mapping[str, Counter[TopicPartition]]) -> None:
        self._places = places
        self._queues: dict[TopicPartition, deque[_Place]] = defaultdict(deque)
        self._balances: dict[int, tuple[int, _Place]] = {}
        self._ends: Counter[TopicPartition] = Counter()
        # The total of all balances less the opening ones.
        self._excess = 0

    def read(self, partition: TopicPartition, operation: Operation) -> Iterator[_Mistake]:
        """Execute what is complete with these records, unless they were read before. Returns the mistakes."""
        queue = self._queues[partition]
        for offset, value in operation.result:
            if offset < self._ends[partition]:
                continue
            self._ends[partition] = offset + 1
            posting, name = Posting.of(value), transaction_of(value)
            if posting is not None and name in self._places:
                queue.append(_Place(partition, offset, name, posting, operation))
        yield from self._execute_from(partition)

    def unfinished(self, read: Container[TopicPartition]) -> Iterator[_Place]:
        """The first posting of each partition that waits for others of its transaction, which have been read if they
        exist: `read` are the partitions that have been read to their ends.
        """
        for queue in self._queues.values():
            if queue and all(partition in read for partition in self._places[queue[0].transaction]):
                yield queue[0]

    def _execute_from(self, partition: TopicPartition) -> Iterator[_Mistake]:
        following = deque([partition])
        while following:
            queue = self._queues[following.popleft()]
            if queue and self._is_complete(queue[0].transaction):
                name = queue[0].transaction
                yield from self._execute(name)
                following.extend(self._places[name])

    def _is_complete(self, name: str) -> bool:
        """True if all postings of a transaction are the next ones in their partitions."""
        for partition, count in self._places[name].items():
            queue = self._queues[partition]
            if len(queue) < count or any(queue[at].transaction != name for at in range(count)):
                return False
        return True

    def _execute(self, name: str) -> Iterator[_Mistake]:
        postings = [self._queues[where].popleft() for where, count in self._places[name].items() for _ in range(count)]
        excess = self._excess
        for place in postings:
            posting = place.posting
            balance, last = self._balances.get(posting.account, (OPENING_BALANCE, None))
            if posting.before != balance:
                what = f"{name} finds {posting.before} in account {posting.account}, which has {balance}"
                yield _Mistake(what, (*(() if last is None else (last.proof,)), place.proof))
            self._balances[posting.account] = posting.after, place
            self._excess += posting.after - balance
        if self._excess != excess:
            what = f"after {name}, the total of all balances has changed by {self._excess - excess}"
            yield _Mistake(what, tuple(place.proof for place in postings))
