"""A promise about the duration of recovery."""

from collections.abc import Iterator

from jepsen.checkers.checker import Anomaly
from jepsen.history import History, Outcome


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
