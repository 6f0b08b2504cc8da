"""Writes numbered records at a constant rate during a test."""

import threading
from types import TracebackType
from typing import Self

from broker.client import SyncProducer

_KEYS = 100
_TICK_S = 0.1


class SteadyLoad:
    """A thread that writes within the `with` block. `written` is the number of records passed to the producer."""

    def __init__(self, servers: str, topic: str, rate: int) -> None:
        self._servers = servers
        self._topic = topic
        self._rate = rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None
        self.written = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait until all records are acknowledged. Raises the producer's exception, if any."""
        self._stop.set()
        self._thread.join(150)
        assert not self._thread.is_alive(), "the producer ends within its delivery timeout"
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with SyncProducer(self._servers) as producer:
                while not self._stop.wait(_TICK_S):
                    for _ in range(int(self._rate * _TICK_S)):
                        key = b"%d" % (self.written % _KEYS)
                        producer.send_soon(self._topic, b"record %d" % self.written, key=key)
                        self.written += 1
                producer.flush()
        except BaseException as error:  # noqa: BLE001 - raised by the thread of the test
            self._error = error
