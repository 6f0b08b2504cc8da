"""Promises about nodes: they run until they are stopped, and the cluster recovers in time."""

from collections.abc import Iterator

from jepsen.checkers.checker import Anomaly
from jepsen.history import History, Outcome


class NodesRunUntilStopped:
    """A node ends only when it is stopped or when its disk fails, and nothing in it fails before."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operation in history.of("run-node", outcome=Outcome.FAIL):
            yield Anomaly(type(self).__name__, str(operation.value), (operation,))


class RecoveryIsBounded:
    """After the last fault has ended, everything recovers within the time limit."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operation in history.of("heal"):
            healing = operation.value
            if operation.outcome is not Outcome.OK or operation.completed_at is None:
                what = f"{healing.what}: never, {operation.result}"
            else:
                seconds = operation.completed_at - operation.invoked_at
                if seconds <= healing.within_seconds:
                    continue
                what = f"{healing.what}: after {seconds:.1f} s, more than {healing.within_seconds:g}"
            yield Anomaly(type(self).__name__, what, (operation,))
