"""A fault of a test cluster, for code that blocks."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

_WAIT_S: Final = 30.0


class FaultHandle:
    """In force from the beginning, until `end` or the end of a `with` block.

    `request` sends a request about the fault; `described` is the answer to the one that began it. `holds` is true if
    the action holds requests. Methods raise ControlError.
    """

    def __init__(self, request: Callable[[str, object], Any], described: dict[str, Any], *, holds: bool) -> None:
        self._request = request
        self._holds = holds
        self._ended: dict[str, Any] | None = None
        self.id: str = described["id"]

    @property
    def fired(self) -> int:
        """The number of requests, or of connections, operations or nodes, that it has affected, on all nodes."""
        return int(self._describe()["fired"])

    @property
    def held(self) -> int:
        """The number of requests, or of connections, that it holds now."""
        return int(self._describe()["held"])

    @property
    def firings(self) -> list[dict[str, Any]]:
        """The requests, connections, operations or nodes that it has affected: the time `at`, the `node`, and more.

        Requests have `api`, `client_id`, `address` and their `subjects`. Connections have the `peer` if that is a node,
        `client_id`, `address` and the `effect`. Operations of a disk have the `operation` and the `path`.
        """
        return list(self._describe()["firings"])

    def wait(self, count: int = 1, timeout: float = _WAIT_S) -> None:
        """Wait until it holds so many requests, or, for an action that holds none, has fired so often."""
        self._request("POST", {"wait": "held" if self._holds else "fired", "count": count, "timeout": timeout})

    def release(self) -> None:
        """Release the requests that it holds now; later ones are held again."""
        self._request("POST", {"release": True})

    def end(self) -> None:
        """End it, and release the requests that it holds. `fired` and `firings` stay as they are then."""
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
