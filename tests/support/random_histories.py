"""Random histories from a seed: operations of clients and their results, with planted anomalies."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import attrs

from jepsen.history import History, Operation, Outcome
from jepsen.values import (
    Change,
    Commit,
    CommittedRead,
    Decision,
    GroupOffsets,
    GroupPoll,
    Healing,
    Ownership,
    Polling,
    ReplicaLog,
    ReplicaRead,
    SeenTopic,
    Sending,
    Transaction,
    TransactionPoll,
    WantedTopic,
    transformed,
)

PARTITIONS = (("t", 0), ("t", 1), ("f", 0))
INPUTS = (("in", 0), ("in", 1))
OUTPUT = ("out", 0)
GROUPS = ("g", "h")
# The creation time of all values, as `jepsen.checkers.offsets` reads it.
_MADE_MS = 1_000
READS = ("poll", "poll-group", "poll-transaction", "final-read")


@attrs.define
class RandomHistory:
    """A random history, valid without `anomalies`. Each anomaly changes the result of one operation."""

    seed: int
    batches: int = 30
    anomalies: int = 0
    history: History = attrs.field(init=False)
    _rng: Random = attrs.field(init=False)
    _time: float = attrs.field(init=False, default=0.0)
    _read_up_to: dict[tuple[str, int], int] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._rng = Random(self.seed)
        self.history = History(self._tick)
        for name in ("t", "f"):
            self._do("admin", "create-topic", WantedTopic(name, 2, is_flushed=name == "f"), f"id-{name}")
        logs = {partition: self._writes(partition) for partition in PARTITIONS}
        for partition, log in logs.items():
            self._reads(partition, log)
        for group in GROUPS:
            for partition in PARTITIONS:
                self._consumes(group, partition, logs[partition])
        self._contends()
        transacted = self._transacts()
        self._ends(logs)
        self._ends_transactions(transacted)
        self._sort()
        for _ in range(self.anomalies):
            self._plant()
        self._sort()

    def _sort(self) -> None:
        self.history.operations.sort(key=lambda each: each.invoked_at)

    def _tick(self) -> float:
        self._time += 0.001
        return round(self._time, 3)

    def _do(self, client: str, function: str, value: Any, result: Any, outcome: Outcome = Outcome.OK) -> Operation:
        operation = self.history.invoke(client, function, value)
        if outcome is Outcome.OK:
            self.history.ok(operation, result)
        else:
            (self.history.fail if outcome is Outcome.FAIL else self.history.info)(operation, str(result))
        return operation

    def _writes(self, partition: tuple[str, int]) -> list[str]:
        topic, index = partition
        log: list[str] = []
        sequence = 0
        for _ in range(self.batches):
            count = self._rng.randint(1, 3)
            kind = self._rng.random()
            if kind < 0.1:
                refused = Sending(topic, index, "r", sequence, (f"r/{topic}-{index}@{_MADE_MS}/{sequence}",))
                self._do("producer", "send", refused, "MESSAGE_TOO_LARGE", Outcome.FAIL)
                continue
            values = tuple(f"s/{topic}-{index}@{_MADE_MS}/{sequence + at}" for at in range(count))
            sending = Sending(topic, index, "s", sequence, values)
            sequence += count
            if kind < 0.8:
                self._do("producer", "send", sending, None if kind < 0.15 else len(log))
            else:
                self._do("producer", "send", sending, "timed out", Outcome.INFO)
            log += values
        return log

    def _reads(self, partition: tuple[str, int], log: Sequence[str]) -> None:
        for start in range(0, len(log), 5):
            records = tuple((at, log[at]) for at in range(start, min(start + 5, len(log))))
            self._do("consumer", "poll", Polling(*partition, start), records)
        self._do("consumer", "poll", Polling(*partition, len(log)), ())
        for end in sorted(self._rng.sample(range(len(log)), 5)):
            self._do("asker", "list-end", partition, (end, end // 10))
            self._do("asker", "see-epochs", partition, ((0, end, 0),))
        self._do("asker", "find-time", (*partition, _MADE_MS), 0)

    def _consumes(self, group: str, partition: tuple[str, int], log: Sequence[str]) -> None:
        half = len(log) // 2
        committed = -1
        for generation, (member, start, end) in enumerate((("a", 0, half), ("b", half, len(log))), 1):
            name = f"{group}-{member}-{partition[0]}{partition[1]}"
            own = Ownership(group, name, generation, (partition,), f"i-{partition[0]}{partition[1]}")
            self._do(name, "assign", own, None)
            read = CommittedRead(group, name, (partition,))
            self._do(name, "fetch-committed", read, ((*partition, committed),))
            for at in range(start, end, 4):
                records = tuple((offset, log[offset]) for offset in range(at, min(at + 4, end)))
                self._do(name, "poll-group", GroupPoll(group, name, *partition), records)
            committed = end
            self._do(name, "commit", Commit(group, name, generation, ((*partition, end),)), None)
            self._do(name, "revoke", own, None)

    def _contends(self) -> None:
        for name in ("shared-0", "shared-1"):
            self._do("a", "share-topic", Change(name, 1), "NONE")
            self._do("b", "share-topic", Change(name, 1), "TOPIC_ALREADY_EXISTS")
            self._do("a", "grow-topic", Change(name, 3), "NONE")
            self._do("b", "see-topic", Change(name), 3)
            self._do("b", "drop-topic", Change(name), "NONE")
        for key in ("x", "y"):
            self._do("a", "write", ("write", key, f"{key}1"), None)
            self._do("b", "cas", ("cas", key, f"{key}2", f"{key}1"), f"{key}1")
            self._do("a", "read", ("read", key), f"{key}2")

    def _transacts(self) -> dict[tuple[str, int], list[str]]:
        """Transactions that write to the inputs, and others that transform all of it. Markers have no offsets here."""
        logs: dict[tuple[str, int], list[str]] = {partition: [] for partition in (*INPUTS, OUTPUT)}
        for number in range(self.batches):
            name, kind = f"p.1.{number}", self._rng.random()
            records = {each: tuple(f"{name}/{each[0]}-{each[1]}@{_MADE_MS}/{at}" for at in range(2)) for each in INPUTS}
            value = Transaction("p", name, tuple((*partition, values) for partition, values in records.items()))
            if self._transacts_once(value, logs, kind):
                self._transforms(f"x.1.{number}", records, logs)
            self._polls_transactions(logs)
        return logs

    def _transacts_once(self, value: Transaction, logs: dict[tuple[str, int], list[str]], kind: float = 0.0) -> bool:
        """A transaction that is committed if `kind` is low, else aborted, or of unknown outcome."""
        sends = [
            (self.history.invoke("p", "send", Sending(topic, index, "", 0, values)), values)
            for topic, index, values in value.records
        ]
        self._do("p", "transact", value, None)
        is_applied = kind < 0.6 or kind > 0.9
        decision = self.history.invoke("p", "end-transaction", Decision(value.name, kind < 0.6 or kind >= 0.8))
        for operation, values in sends:
            log = logs[operation.value.topic, operation.value.partition]
            match kind:
                case _ if kind < 0.6:
                    self.history.ok(operation, len(log))
                case _ if kind < 0.8:
                    self.history.fail(operation, "aborted")
                case _:
                    self.history.info(operation, "timed out")
            log += values if is_applied else ()
        if kind < 0.8:
            self.history.ok(decision, None)
        else:
            self.history.info(decision, "timed out")
        return is_applied

    def _transforms(
        self, name: str, records: dict[tuple[str, int], tuple[str, ...]], logs: dict[tuple[str, int], list[str]]
    ) -> None:
        # The first attempt is aborted, and the records are polled again.
        self._polls_in(f"{name}a", records, logs)
        self._do("x", "transact", Transaction("x", f"{name}a", ()), None)
        self._do("x", "end-transaction", Decision(f"{name}a", is_commit=False), None)
        self._polls_in(name, records, logs)
        outputs = tuple(transformed(name, "x", value) for values in records.values() for value in values)
        offsets = tuple((*partition, len(logs[partition])) for partition in INPUTS)
        self._transacts_once(Transaction("x", name, ((*OUTPUT, outputs),), "x", offsets), logs)

    def _polls_in(
        self, name: str, records: dict[tuple[str, int], tuple[str, ...]], logs: dict[tuple[str, int], list[str]]
    ) -> None:
        """The last records of the inputs are polled within a transaction, one by one."""
        for (topic, index), values in records.items():
            for offset, value in enumerate(values, len(logs[topic, index]) - len(values)):
                self._do("x", "poll-transaction", TransactionPoll(name, "x", topic, index, offset), ((offset, value),))

    def _polls_transactions(self, logs: dict[tuple[str, int], list[str]]) -> None:
        """A consumer reads a partition from zero, or goes on with another one."""
        partition = self._rng.choice((*INPUTS, OUTPUT))
        log, end = logs[partition], self._read_up_to.get(partition, 0)
        start = 0 if self._rng.random() < 0.2 else end
        self._read_up_to[partition] = len(log)
        self._do("reader", "poll", Polling(*partition, start), tuple(enumerate(log))[start:])
        self._do("reader", "see-stable", partition, (len(log), len(log) + 1, len(log) - 1))

    def _ends_transactions(self, logs: dict[tuple[str, int], list[str]]) -> None:
        for partition, log in logs.items():
            self._do("last", "final-read", partition, tuple(enumerate(log)))
        offsets = tuple((*partition, len(logs[partition])) for partition in INPUTS)
        self._do("last", "final-offsets", GroupOffsets("x", INPUTS), offsets)

    def _ends(self, logs: dict[tuple[str, int], list[str]]) -> None:
        for partition, log in logs.items():
            self._do("last", "final-read", partition, tuple(enumerate(log)))
            for node in ("n1", "n2"):
                replica = ReplicaLog(len(log), ((0, len(log), "c0ffee"),))
                self._do("disks", "read-replica", ReplicaRead(*partition, node), replica)
        seen = {name: SeenTopic(f"id-{name}", 2) for name in ("t", "f")}
        self._do("admin", "list-topics", None, seen)
        self._do("run", "heal", Healing("leaders", 5.0), None)

    def _plant(self) -> None:
        function = self._rng.choice(sorted(_PLANTS))
        done = list(self.history.of(function, outcome=Outcome.OK))
        if done:
            self._rng.choice(_PLANTS[function])(self._rng.choice(done), self._rng)


def _drop_record(operation: Operation, rng: Random) -> None:
    at = rng.randrange(len(operation.result) or 1)
    operation.result = tuple(record for index, record in enumerate(operation.result) if index != at)


def _move_record(operation: Operation, rng: Random) -> None:
    if operation.result:
        at = rng.randrange(len(operation.result))
        records = list(operation.result)
        records[at] = (records[at][0] + rng.choice((-2, 1, 3)), records[at][1])
        operation.result = tuple(records)


def _replace_record(operation: Operation, rng: Random) -> None:
    if operation.result:
        at = rng.randrange(len(operation.result))
        records = list(operation.result)
        records[at] = (records[at][0], rng.choice((records[at - 1][1], "from/nowhere@5/0")))
        operation.result = tuple(records)


def _fail(operation: Operation, rng: Random) -> None:
    operation.outcome, operation.result = Outcome.FAIL, "refused"


def _shift_offset(operation: Operation, rng: Random) -> None:
    if operation.result is not None:
        operation.result = max(0, operation.result + rng.choice((-3, -1, 2)))


def _begin_earlier(operation: Operation, rng: Random) -> None:
    operation.invoked_at = round(operation.invoked_at * rng.random(), 3)


def _begin_later(operation: Operation, rng: Random) -> None:
    operation.invoked_at += 1
    assert operation.completed_at is not None, "only what has ended well is changed"
    operation.completed_at += 1


def _swap_records(operation: Operation, rng: Random) -> None:
    values = [value for _, value in operation.result]
    rng.shuffle(values)
    operation.result = tuple(enumerate(values))


def _lose_power_and_a_record(operation: Operation, rng: Random) -> None:
    _lose_power(operation, rng)
    _drop_record(operation, rng)


def _lose_power(operation: Operation, rng: Random) -> None:
    operation.incarnation = 1


def _lower_generation(operation: Operation, rng: Random) -> None:
    operation.value = attrs.evolve(operation.value, generation=rng.choice((1, 2)))


def _other_member(operation: Operation, rng: Random) -> None:
    operation.value = attrs.evolve(operation.value, member=f"stranger-{rng.randrange(3)}")


def _second_owner(operation: Operation, rng: Random) -> None:
    operation.value = attrs.evolve(operation.value, instance="", generation=rng.choice((1, 2)), partitions=PARTITIONS)


def _other_offset(operation: Operation, rng: Random) -> None:
    operation.result = tuple((topic, index, rng.choice((0, 3, 9, -1))) for topic, index, _ in operation.result)


def _other_answer(operation: Operation, rng: Random) -> None:
    operation.result = rng.choice(("NONE", "UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_ALREADY_EXISTS", 7))


def _other_value(operation: Operation, rng: Random) -> None:
    operation.result = rng.choice(("x1", "y1", "z", None))


def _other_position(operation: Operation, rng: Random) -> None:
    operation.value = attrs.evolve(operation.value, position=operation.value.position + rng.choice((-1, 1, 2)))


def _other_end(operation: Operation, rng: Random) -> None:
    operation.result = (rng.randrange(50), operation.result[1])


def _other_epoch(operation: Operation, rng: Random) -> None:
    operation.result = tuple((first, last, rng.randrange(3)) for first, last, _ in operation.result)


def _other_decision(operation: Operation, rng: Random) -> None:
    operation.value = attrs.evolve(operation.value, is_commit=not operation.value.is_commit)


def _other_stable_offset(operation: Operation, rng: Random) -> None:
    _, high_watermark, last_read = operation.result
    operation.result = rng.choice((high_watermark + 1, last_read)), high_watermark, last_read


def _other_batches(operation: Operation, rng: Random) -> None:
    operation.result = attrs.evolve(operation.result, batches=((0, 4, "bad"),))


_READ_PLANTS = (_drop_record, _move_record, _replace_record, _fail, _lose_power, _begin_earlier)
_PLANTS: dict[str, Sequence[Callable[[Operation, Random], None]]] = {
    "send": (_shift_offset, _fail, _lose_power, _begin_earlier),
    **dict.fromkeys(READS, _READ_PLANTS),
    "poll-transaction": (*_READ_PLANTS, _other_position),
    "final-read": (*_READ_PLANTS, _swap_records, _lose_power_and_a_record),
    "assign": (_lower_generation, _other_member, _second_owner, _lose_power),
    "commit": (_lower_generation, _other_member, _fail, _begin_earlier, _begin_later),
    "fetch-committed": (_other_offset, _begin_earlier),
    "share-topic": (_other_answer,),
    "grow-topic": (_other_answer,),
    "see-topic": (_other_answer,),
    "read": (_other_value,),
    "cas": (_other_value,),
    "list-end": (_other_end,),
    "see-epochs": (_other_epoch,),
    "find-time": (_shift_offset,),
    "read-replica": (_other_batches,),
    "end-transaction": (_other_decision, _fail, _begin_later),
    "see-stable": (_other_stable_offset,),
    "final-offsets": (_other_offset,),
}
