"""Rebalance listeners that record, and call the application's."""

import inspect
from functools import cache
from typing import Any

from jepsen.testing.histories.recording.reads import ReadLog


@cache
def listener_class(base: type[Any]) -> type[Any]:
    """The listener for aiokafka and kafka-python, which take only objects of their own base class."""

    class RecordingListener(base):  # type: ignore[misc]
        def __init__(self, reads: ReadLog, listener: Any) -> None:
            self._reads, self._listener = reads, listener

        def on_partitions_assigned(self, assigned: Any) -> Any:
            self._reads.assigned(_places(assigned))
            return self._call("on_partitions_assigned", assigned)

        def on_partitions_revoked(self, revoked: Any) -> Any:
            called = self._call("on_partitions_revoked", revoked)
            if inspect.isawaitable(called):
                return self._revoke_after(called, revoked)
            self._reads.given_up(_places(revoked))
            return called

        def on_partitions_lost(self, lost: Any) -> Any:
            self._reads.given_up(_places(lost), is_lost=True)
            is_known = hasattr(self._listener, "on_partitions_lost")
            return self._call("on_partitions_lost" if is_known else "on_partitions_revoked", lost)

        async def _revoke_after(self, called: Any, revoked: Any) -> None:
            await called
            self._reads.given_up(_places(revoked))

        def _call(self, method: str, partitions: Any) -> Any:
            return None if self._listener is None else getattr(self._listener, method)(partitions)

    return RecordingListener


def _places(partitions: Any) -> list[tuple[str, int]]:
    return sorted((each.topic, each.partition) for each in partitions)
