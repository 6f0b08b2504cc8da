"""Small histories, linearizable and not."""

from jepsen.checkers.linearizability import find_contradiction
from jepsen.checkers.registers import Register
from jepsen.checkers.topics import MetadataIsLinearizable
from jepsen.history import History, Operation, Outcome
from jepsen.values import Change


def done(began: float, ended: float, function: str, *rest: object, result: object = None) -> Operation:
    operation = Operation("client", function, (function, "key", *rest), began)
    operation.outcome, operation.completed_at, operation.result = Outcome.OK, ended, result
    return operation


def unknown(began: float, function: str, *rest: object) -> Operation:
    return Operation("client", function, (function, "key", *rest), began)


def is_linearizable(*operations: Operation) -> bool:
    return find_contradiction(operations, Register()) is None


def test_read_returns_an_earlier_write() -> None:
    write = done(0, 1, "write", "a")
    assert is_linearizable(write, done(2, 3, "read", result="a"))
    assert not is_linearizable(write, done(2, 3, "read", result=None))


def test_read_may_return_or_miss_a_concurrent_write() -> None:
    write = done(0, 4, "write", "a")
    for seen in ("a", None):
        assert is_linearizable(write, done(1, 2, "read", result=seen))


def test_value_that_was_read_stays_written() -> None:
    write = done(0, 9, "write", "a")
    assert not is_linearizable(write, done(1, 2, "read", result="a"), done(3, 4, "read", result=None))


def test_of_two_writes_one_is_the_last_for_everybody() -> None:
    writes = done(0, 5, "write", "a"), done(0, 5, "write", "b")
    assert is_linearizable(*writes, done(6, 7, "read", result="a"), done(8, 9, "read", result="a"))
    assert not is_linearizable(*writes, done(6, 7, "read", result="a"), done(8, 9, "read", result="b"))


def test_operation_of_unknown_outcome_may_take_effect_late_or_never() -> None:
    write = unknown(0, "write", "a")
    assert is_linearizable(write, done(5, 6, "read", result=None))
    assert is_linearizable(write, done(5, 6, "read", result=None), done(7, 8, "read", result="a"))
    assert not is_linearizable(write, done(5, 6, "read", result="a"), done(7, 8, "read", result=None))


def test_comparison_returns_the_found_value() -> None:
    assert is_linearizable(done(0, 1, "cas", "a", None, result=None), done(2, 3, "cas", "b", "a", result="a"))
    assert not is_linearizable(done(0, 1, "cas", "a", None, result=None), done(2, 3, "cas", "b", None, result=None))


class SampleHistory(History):
    """Changes of the topic "shared-0-0", one after the other."""

    def __init__(self, *changes: tuple[str, int, str]) -> None:
        super().__init__(self._tick)
        self._time = 0.0
        for function, partitions, answer in changes:
            self.ok(self.invoke("client", function, Change("shared-0-0", partitions)), answer)

    def _tick(self) -> float:
        self._time += 1
        return self._time

    @property
    def is_linearizable(self) -> bool:
        return list(MetadataIsLinearizable().check(self)) == []


def test_a_topic_is_created_grown_and_deleted() -> None:
    created, exists = ("share-topic", 2, "NONE"), ("share-topic", 2, "TOPIC_ALREADY_EXISTS")
    deleted, unknown_topic = ("drop-topic", 0, "NONE"), ("drop-topic", 0, "UNKNOWN_TOPIC_OR_PARTITION")
    grown, not_grown = ("grow-topic", 3, "NONE"), ("grow-topic", 2, "INVALID_PARTITIONS")
    assert SampleHistory(created, exists, grown, not_grown, deleted, unknown_topic, created).is_linearizable
    for impossible in ((created, created), (created, unknown_topic), (deleted,), (created, grown, grown), (exists,)):
        assert not SampleHistory(*impossible).is_linearizable
