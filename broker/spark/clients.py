"""Consumers of this process, kept open between tasks: Spark's Python workers run many tasks one after the other."""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from broker.client import SyncConsumer

# Spark's connector closes consumers after so long without a task. An idle worker process ends long before.
_IDLE_S: Final = 300.0

_Settings = tuple[tuple[str, object], ...]


class ConsumerPool:
    """Lends each consumer to one task at a time, by the settings that it was opened with.

    Consumers of a parent process are of no use in a process that was forked from it: they are left to the parent.
    """

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[_Settings, list[tuple[float, SyncConsumer]]] = {}
        self._timer: threading.Timer | None = None

    @contextmanager
    def lend(self, settings: Mapping[str, object]) -> Iterator[SyncConsumer]:
        """A consumer with these settings, in Kafka's keys. It is closed where the block fails or is left early."""
        key = tuple(sorted(settings.items()))
        consumer = self._take(key) or _open(settings)
        try:
            yield consumer
        except BaseException:
            consumer.close()
            raise
        self._put_back(key, consumer)

    def _take(self, key: _Settings) -> SyncConsumer | None:
        with self._lock:
            idle = self._idle.get(key)
            return idle.pop()[1] if idle else None

    def _put_back(self, key: _Settings, consumer: SyncConsumer) -> None:
        with self._lock:
            self._idle.setdefault(key, []).append((time.monotonic(), consumer))
            if self._timer is None:
                self._start_timer()

    def close_idle(self, *, idle_s: float = _IDLE_S) -> None:
        """Closes the consumers that no task has used for so long."""
        with self._lock:
            until = time.monotonic() - idle_s
            dropped = [each for idle in self._idle.values() for since, each in idle if since <= until]
            kept = {key: [pair for pair in idle if pair[0] > until] for key, idle in self._idle.items()}
            self._idle = {key: idle for key, idle in kept.items() if idle}
            self._timer = None
            if self._idle:
                self._start_timer()
        for consumer in dropped:
            consumer.close()

    def _start_timer(self) -> None:
        self._timer = threading.Timer(_IDLE_S, self.close_idle)
        self._timer.daemon = True
        self._timer.start()


def _open(settings: Mapping[str, object]) -> SyncConsumer:
    keys = {key: value for key, value in settings.items() if key != "bootstrap.servers"}
    return SyncConsumer(str(settings["bootstrap.servers"]), config=keys)


# The one pool of a process.
CONSUMERS: Final = ConsumerPool()
