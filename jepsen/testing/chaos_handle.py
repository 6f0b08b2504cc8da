"""Chaos in a test cluster, for code that blocks."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

# Each request of a longer wait: the client of the control port gives up later than that.
_WAIT_S: Final = 60.0


class ChaosHandle:
    """Runs from the beginning, until its time is over, `end`, or the end of a `with` block. All is healed then.

    `request` sends a request about the run; `described` is the answer to the one that began it. Methods raise
    ControlError.
    """

    def __init__(self, request: Callable[[str, object], Any], described: dict[str, Any]) -> None:
        self._request = request
        self._ended: dict[str, Any] | None = None
        self.id: str = described["id"]
        self.seed: int = described["seed"]
        self.replay: str = described["replay"]
        self.plan: list[dict[str, Any]] = described["plan"]

    @property
    def done(self) -> int:
        """The number of faults that have begun."""
        return int(self._describe()["done"])

    @property
    def refused(self) -> int:
        """The number of faults that could not begin, for example without another replica in sync."""
        return int(self._describe()["refused"])

    def wait(self, timeout: float = 3_600.0) -> None:
        """Wait until the time is over and all is healed."""
        deadline = time.monotonic() + timeout
        while self._ended is None:
            left_s = max(0.0, deadline - time.monotonic())
            try:
                self._ended = self._request("POST", {"wait": True, "timeout": min(left_s, _WAIT_S)})
            except Exception:
                if left_s <= _WAIT_S:
                    raise

    def end(self) -> None:
        """End the faults, and heal the cluster. Nodes serve on return."""
        if self._ended is None:
            self._ended = self._request("DELETE", None)

    def _describe(self) -> dict[str, Any]:
        described: dict[str, Any] = self._request("GET", None) if self._ended is None else self._ended
        return described

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()
