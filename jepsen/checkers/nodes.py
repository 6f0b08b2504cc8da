"""Promises about the processes of nodes."""

from collections.abc import Iterator

from jepsen.checkers.checker import Anomaly
from jepsen.history import History, Outcome


class NodesRunUntilStopped:
    """A node ends only when it is stopped or when its disk fails, and nothing in it fails before."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operation in history.of("run-node", outcome=Outcome.FAIL):
            yield Anomaly(type(self).__name__, str(operation.value), (operation,))
