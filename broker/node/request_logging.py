"""Applies the configs `request.log.*` to the listeners of a node, whenever they change."""

from typing import Any

from broker.config import KafkaConfig
from broker.net.acceptor import Acceptor
from broker.net.turn_timer import RequestTime, TurnTimer
from broker.server import Dispatcher
from broker.server.request_log import RequestLog
from broker.server.slow_requests import SlowRequests
from kraft.env import Tracer


class RequestLogging:
    """`timer` measures requests for the metrics; None if the node has none.

    Without the configs, nothing is done for a request.
    """

    def __init__(self, trace: Tracer, acceptor: Acceptor, timer: TurnTimer | None, config: KafkaConfig) -> None:
        self._trace = trace
        self._acceptor = acceptor
        self._timer = timer
        self._dispatchers: list[Dispatcher[Any]] = []
        self._log: RequestLog | None = None
        self._slow_ms = -1
        self.configure(config)

    def add(self, dispatcher: Dispatcher[Any]) -> None:
        """Include the requests to a kind of listeners."""
        self._dispatchers.append(dispatcher)
        dispatcher.log_requests(self._log)

    def configure(self, config: KafkaConfig) -> None:
        """Follow a change of the configuration."""
        self._log = RequestLog.of(config.request_log_client_ids, config.request_log_topics)
        for dispatcher in self._dispatchers:
            dispatcher.log_requests(self._log)
        if self._slow_ms != config.request_log_slow_ms:
            self._slow_ms = config.request_log_slow_ms
            self._watch()

    def _watch(self) -> None:
        watch = SlowRequests(self._slow_ms, self._trace).record if self._slow_ms >= 0 else None
        timer = self._timer
        if timer is None:
            timer = None if watch is None else TurnTimer(_record_nothing)
            self._acceptor.measure(timer)
        if timer is not None:
            timer.watch(watch)


def _record_nothing(time: RequestTime) -> None:
    """There are no metrics."""
