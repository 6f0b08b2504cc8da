"""The promises about offsets, epochs and times in responses, each kept and broken."""

from collections.abc import Sequence

from jepsen.checkers import Checker
from jepsen.checkers.offsets import EndsNeverGoBack, EpochsGrowWithOffsets, TimesFindTheFirst
from jepsen.history import History

PARTITION = ("t", 0)


class SampleHistory(History):
    def __init__(self) -> None:
        super().__init__(lambda: 0.0)

    def answers(self, function: str, value: object, result: object, began: float = 0, ended: float = 0) -> None:
        operation = self.invoke("c", function, value, at=began)
        self.ok(operation, result)
        operation.completed_at = ended

    def ends(self, began: float, ended: float, offset: int, epoch: int) -> None:
        self.answers("list-end", PARTITION, (offset, epoch), began, ended)

    def breaks(self, checker: Checker) -> Sequence[str]:
        return [anomaly.what for anomaly in checker.check(self)]


def epochs(*runs: tuple[int, int, int]) -> Sequence[str]:
    history = SampleHistory()
    for run in runs:
        history.answers("see-epochs", PARTITION, (run,))
    return history.breaks(EpochsGrowWithOffsets())


def test_epochs_that_grow_may_be_seen_in_pieces() -> None:
    assert not epochs((0, 9, 1), (5, 7, 1), (3, 9, 1), (10, 20, 3), (15, 22, 3))


def test_two_epochs_of_one_offset_are_noticed() -> None:
    assert epochs((0, 9, 1), (9, 20, 2))
    assert epochs((0, 9, 1), (4, 4, 2))


def test_an_epoch_lower_than_one_before_is_noticed() -> None:
    assert epochs((0, 9, 2), (10, 12, 1))


def test_concurrent_requests_may_return_ends_in_any_order() -> None:
    history = SampleHistory()
    history.ends(0, 5, 10, epoch=1)
    history.ends(1, 2, 7, epoch=1)
    history.ends(6, 7, 10, epoch=2)
    assert not history.breaks(EndsNeverGoBack())


def test_an_end_that_goes_back_is_noticed_also_under_a_later_epoch() -> None:
    for epoch in (1, 2):
        history = SampleHistory()
        history.ends(0, 1, 10, epoch=1)
        history.ends(2, 3, 9, epoch=epoch)
        assert history.breaks(EndsNeverGoBack())


def test_a_leader_that_does_not_know_that_it_was_deposed_may_tell_less() -> None:
    history = SampleHistory()
    history.ends(0, 1, 10, epoch=2)
    history.ends(2, 3, 9, epoch=1)
    assert not history.breaks(EndsNeverGoBack())


def found(time: int, offset: int) -> Sequence[str]:
    """The broken promises if `offset` is returned for `time`, with records of times 5, 3, 7."""
    history = SampleHistory()
    history.answers("final-read", PARTITION, ((0, "s/0@5/0"), (1, "s/0@3/1"), (2, "s/0@7/2")))
    history.answers("find-time", (*PARTITION, time), offset)
    return history.breaks(TimesFindTheFirst())


def test_a_time_finds_the_first_record_that_is_not_older() -> None:
    assert not found(4, 0)
    assert not found(6, 2)
    assert not found(9, -1)
    assert found(6, 0)
    assert found(3, 1)
    assert found(8, 2)
