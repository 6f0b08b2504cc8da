"""Waiters for an offset are completed once, when the offset is reached."""

from broker.replication.waiters import Acknowledgements
from broker.wire.errors import ErrorCode


class Waiting:
    """Collects the results, and may run a function on completion."""

    def __init__(self) -> None:
        self.results: list[ErrorCode] = []

    def complete(self, code: ErrorCode) -> None:
        self.results.append(code)


def waiting_for(acknowledgements: Acknowledgements, *offsets: int) -> list[Waiting]:
    waiting = [Waiting() for _ in offsets]
    for one, offset in zip(waiting, offsets, strict=True):
        acknowledgements.add(one, offset)
    return waiting


def test_waiters_complete_when_their_offset_is_reached() -> None:
    acknowledgements = Acknowledgements()
    first, second, third = waiting_for(acknowledgements, 1, 2, 3)
    acknowledgements.complete_up_to(2)
    assert (first.results, second.results, third.results) == ([ErrorCode.NONE], [ErrorCode.NONE], [])
    acknowledgements.complete_up_to(3)
    assert third.results == [ErrorCode.NONE]
    assert not acknowledgements


def test_retried_batch_completes_with_the_requests_before_it() -> None:
    acknowledgements = Acknowledgements()
    first, again = waiting_for(acknowledgements, 5, 2)
    acknowledgements.complete_up_to(4)
    assert (first.results, again.results) == ([], [])
    acknowledgements.complete_up_to(5)
    assert (first.results, again.results) == ([ErrorCode.NONE], [ErrorCode.NONE])


def test_discarded_waiter_is_not_completed() -> None:
    acknowledgements = Acknowledgements()
    first, second = waiting_for(acknowledgements, 1, 1)
    acknowledgements.discard(first)
    acknowledgements.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (first.results, second.results) == ([], [ErrorCode.NOT_LEADER_OR_FOLLOWER])


def test_waiters_fail_in_the_order_in_which_they_were_added() -> None:
    acknowledgements, failed = Acknowledgements(), list[int]()

    class Numbered(Waiting):
        def complete(self, code: ErrorCode) -> None:
            failed.append(numbers[self])

    numbers = {Numbered(): number for number in range(3)}
    for waiter in numbers:
        acknowledgements.add(waiter, 1)
    acknowledgements.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert failed == [0, 1, 2]


def test_completed_waiter_may_add_another_one() -> None:
    """A completed response lets the connection's next request run, which appends."""
    acknowledgements = Acknowledgements()

    class Appending(Waiting):
        def complete(self, code: ErrorCode) -> None:
            super().complete(code)
            acknowledgements.add(later, 9)

    later, first = Waiting(), Appending()
    acknowledgements.add(first, 1)
    acknowledgements.complete_up_to(1)
    assert (first.results, later.results, len(acknowledgements)) == ([ErrorCode.NONE], [], 1)
