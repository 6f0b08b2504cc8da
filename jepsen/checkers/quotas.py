"""Promises about client quotas: limited clients get what their quotas allow, and no other client notices."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.history import History, Operation, Outcome

# A client is judged over intervals of this length.
INTERVAL_SECONDS: Final = 8.0
# Limits of a client's rate, apart from its quota: so much of it, and at once what it allows in the windows.
TOLERANCE: Final = 0.1
BURST_SECONDS: Final = 3.0
# The longest time of an answer over a healthy network, and the longest pause of a client with a small request.
ANSWER_SECONDS: Final = 0.5
PAUSE_SECONDS_MAX: Final = 5.0


def _by_client(history: History) -> dict[str, list[Operation]]:
    operations = defaultdict(list)
    for operation in history.of("paced-produce", "paced-fetch", outcome=Outcome.OK):
        operations[operation.client].append(operation)
    return operations


def _completed(operation: Operation) -> float:
    assert operation.completed_at is not None, "it succeeded"
    return operation.completed_at


class LimitedClientsStayWithinTheirQuotas:
    """A limited client uses no more than its quota over some seconds, also after it was idle, however it behaves."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operations in _by_client(history).values():
            limit = operations[0].value.limit
            if limit is None:
                continue
            times = [_completed(operation) for operation in operations]
            used = [0]
            for operation in operations:
                used.append(used[-1] + operation.result[0])
            for first, began in enumerate(times):
                end = bisect_left(times, began + INTERVAL_SECONDS)
                largest = max(operation.result[0] for operation in operations[first:end])
                allowed = limit * (INTERVAL_SECONDS + BURST_SECONDS) * (1 + TOLERANCE) + largest
                if used[end] - used[first] > allowed:
                    what = f"{used[end] - used[first]} bytes within {INTERVAL_SECONDS} s, at {limit} per second"
                    yield Anomaly(type(self).__name__, what, (operations[first], operations[end - 1]))
                    break


class LimitedClientsGetTheirQuotas:
    """A limited client that sends without pause gets its quota, and never waits much longer than it has to.

    At first it has nothing to pay for: it has been idle for all windows. It may then even use more at once.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        for operations in _by_client(history).values():
            limit = operations[0].value.limit
            if limit is not None:
                yield from self._check(operations, limit)

    def _check(self, operations: Sequence[Operation], limit: float) -> Iterator[Anomaly]:
        busy = [operations[0]]
        for before, after in pairwise(operations):
            waited = _completed(after) - after.invoked_at
            if waited > PAUSE_SECONDS_MAX:
                yield Anomaly(type(self).__name__, f"no answer for {waited:.1f} s", (before, after))
                return
            if after.invoked_at - _completed(before) > PAUSE_SECONDS_MAX:  # the client was idle for all windows
                yield from self._check_busy(busy, limit)
                busy = []
            busy.append(after)
        yield from self._check_busy(busy, limit)

    def _check_busy(self, busy: Sequence[Operation], limit: float) -> Iterator[Anomaly]:
        seconds = _completed(busy[-1]) - busy[0].invoked_at
        used = sum(operation.result[0] for operation in busy)
        if seconds >= INTERVAL_SECONDS and used < limit * seconds * (1 - TOLERANCE):
            what = f"{used} bytes within {seconds:.1f} s, at {limit} per second"
            yield Anomaly(type(self).__name__, what, (busy[0], busy[-1]))


class OtherClientsAreNotAffected:
    """A client without a quota is answered at once, and is never told to pause."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operations in _by_client(history).values():
            for operation in operations if operations[0].value.limit is None else ():
                seconds = _completed(operation) - operation.invoked_at
                if operation.result[1] or seconds > ANSWER_SECONDS:
                    what = f"throttled for {operation.result[1]} ms, and answered after {seconds:.3f} s"
                    yield Anomaly(type(self).__name__, what, (operation,))
                    return


class ThrottledClientsAreAnsweredAtOnce:
    """A client that waits for its throttle time is answered at once, with the next throttle time (KIP-219)."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operations in _by_client(history).values():
            for operation in operations if operations[0].value.waits else ():
                seconds = _completed(operation) - operation.invoked_at
                if seconds > ANSWER_SECONDS:
                    what = f"answered after {seconds:.3f} s, although its throttle time was over"
                    yield Anomaly(type(self).__name__, what, (operation,))
                    return


class ThrottleTimesAreKept:
    """The next request of a client that ignores its throttle time is carried out only after that (KIP-219)."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operations in _by_client(history).values():
            for before, after in pairwise(operations):
                until = _completed(before) + before.result[1] / 1000
                if after.serial == before.serial + 1 and _completed(after) < until - ANSWER_SECONDS:
                    what = f"answered {until - _completed(after):.3f} s before the end of its throttle time"
                    yield Anomaly(type(self).__name__, what, (before, after))
                    return


QUOTA_CHECKERS: tuple[Checker, ...] = (
    OtherClientsAreNotAffected(),
    ThrottledClientsAreAnsweredAtOnce(),
    ThrottleTimesAreKept(),
    LimitedClientsStayWithinTheirQuotas(),
    LimitedClientsGetTheirQuotas(),
)
