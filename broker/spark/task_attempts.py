"""Waiting in tasks that Spark repeats."""

from collections.abc import Mapping
from typing import Final

from pyspark import TaskContext

_MAX_BLOCK: Final = "max.block.ms"
_MAX_BLOCK_MS: Final = 60_000  # Kafka's default


def share_of_attempt() -> float:
    """The part of a timeout that this attempt of a task waits: all, a half, a quarter, and so on.

    Spark repeats a failed task three times. A query whose brokers are away would otherwise fail after four timeouts.
    """
    context = TaskContext.get()
    return 1.0 if context is None else 0.5 ** context.attemptNumber()


def settings_of_attempt(client_config: Mapping[str, object]) -> dict[str, object]:
    """The keys of a producer. A repeated attempt waits for brokers only for its share of Kafka's default time."""
    share = share_of_attempt()
    return dict(client_config) if share == 1.0 else {_MAX_BLOCK: _MAX_BLOCK_MS * share, **client_config}
