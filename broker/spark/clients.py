"""Clients of this process, kept open between tasks: Spark's Python workers run many tasks one after the other."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from broker.client import SyncAdmin, SyncConsumer, SyncProducer

# The idle time after which Spark's connector closes clients. An idle worker process ends long before.
_IDLE_S: Final = 300.0

_Settings = tuple[tuple[str, object], ...]
C = TypeVar("C", bound=SyncAdmin | SyncConsumer | SyncProducer)


class ClientPool(Generic[C]):
    """Lends each client to one task at a time. A task gets a client that was opened with the settings it needs.

    Clients of a parent process are of no use in a process that was forked from it: they are left to the parent.
    """

    def __init__(self, open_client: Callable[[str, Mapping[str, object]], C]) -> None:
        """`open_client` takes the bootstrap servers and Kafka's other keys."""
        self._open_client = open_client
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[_Settings, list[tuple[float, C]]] = {}
        self._timer: threading.Timer | None = None

    @contextmanager
    def lend(self, settings: Mapping[str, object]) -> Iterator[C]:
        """A client with these settings, in Kafka's keys. It is closed if the block raises or is left early."""
        key = tuple(sorted(settings.items()))
        client = self._take(key) or self._open(settings)
        try:
            yield client
        except BaseException:
            client.close()
            raise
        self._put_back(key, client)

    def _open(self, settings: Mapping[str, object]) -> C:
        keys = {key: value for key, value in settings.items() if key != "bootstrap.servers"}
        return self._open_client(str(settings["bootstrap.servers"]), keys)

    def _take(self, key: _Settings) -> C | None:
        with self._lock:
            idle = self._idle.get(key)
            return idle.pop()[1] if idle else None

    def _put_back(self, key: _Settings, client: C) -> None:
        with self._lock:
            self._idle.setdefault(key, []).append((time.monotonic(), client))
            if self._timer is None:
                self._start_timer()

    def close_idle(self, *, idle_s: float = _IDLE_S) -> None:
        """Closes the clients that no task has used for so long."""
        with self._lock:
            until = time.monotonic() - idle_s
            dropped = [each for idle in self._idle.values() for since, each in idle if since <= until]
            kept = {key: [pair for pair in idle if pair[0] > until] for key, idle in self._idle.items()}
            self._idle = {key: idle for key, idle in kept.items() if idle}
            self._timer = None
            if self._idle:
                self._start_timer()
        for client in dropped:
            client.close()

    def _start_timer(self) -> None:
        self._timer = threading.Timer(_IDLE_S, self.close_idle)
        self._timer.daemon = True
        self._timer.start()


# The pools of a process.
ADMINS: Final = ClientPool(lambda servers, keys: SyncAdmin(servers, config=keys))
CONSUMERS: Final = ClientPool(lambda servers, keys: SyncConsumer(servers, config=keys))
PRODUCERS: Final = ClientPool(lambda servers, keys: SyncProducer(servers, config=keys))
