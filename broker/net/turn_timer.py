"""Measures the times of requests, as Kafka splits them, in a sample of the turns.

To measure a request costs some microseconds, nearly as much as to serve a small one. So only some hundred requests a
second are measured. Other turns pay for a counter, and a measured turn stands for those that were skipped before it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import trio

from broker.net.connection import Connection, Serve
from broker.net.reply import PendingReply, Reply
from kraft import lazy_attrs

# Requests that are measured in a second, on average, and those that may be measured at once after a pause.
_REQUESTS_PER_S: Final = 300.0
_BURST: Final = 300.0
_SKIPPED_MAX: Final = 4096
# How often long skipping is ended, so that the few requests after a load are measured.
_CHECK_INTERVAL_S: Final = 0.1


@lazy_attrs.define(eq=False)
class RequestTime:
    """The times of one request, in seconds of Trio's clock. `weight` is the number of requests that it stands for.

    The turn `began_s`, the request was `served_s` to `processed_s`; if its reply was pending, that was `completed_s`;
    `commit_s` is the time in which the turn committed what was appended. Its replies were sent from `send_began_s` to
    `sent_s`. `session` is the connection's.
    """

    api_key: int
    session: Any
    weight: int
    began_s: float
    served_s: float
    processed_s: float = 0.0
    completed_s: float | None = None
    commit_s: float = 0.0
    send_began_s: float = 0.0
    sent_s: float = 0.0

    @property
    def queue_s(self) -> float:
        """The wait for other requests of the turn."""
        return self.served_s - self.began_s

    @property
    def local_s(self) -> float:
        return self.processed_s - self.served_s + self.commit_s

    @property
    def remote_s(self) -> float:
        return 0.0 if self.completed_s is None else self.completed_s - self.processed_s

    @property
    def response_queue_s(self) -> float:
        done_s = self.processed_s + self.commit_s if self.completed_s is None else self.completed_s
        return max(0.0, self.send_began_s - done_s)

    @property
    def send_s(self) -> float:
        return self.sent_s - self.send_began_s

    @property
    def throttle_s(self) -> float:
        """How long the connection is muted after the request."""
        throttled_until: float = self.session.throttled_until
        return max(0.0, throttled_until - self.processed_s)

    @property
    def total_s(self) -> float:
        return self.sent_s - self.began_s


class TurnTimer:
    """Decides which turns are measured, and passes the times of their requests to `record`.

    `turns_to_skip` turns are not measured before the next one that is. `completed` are measured requests whose replies
    were pending, and are sent in the current or the next turn. `run` has to run.
    """

    def __init__(self, record: Callable[[RequestTime], None]) -> None:
        self._record = record
        self._watch: Callable[[RequestTime], None] | None = None
        self._skipped = 0
        self._weight = 1
        self._credit = _BURST
        self._last_s = self._elapsed_s = 0.0
        self._measured = 0  # requests of this turn
        self._served: list[RequestTime] = []  # of this turn, answered at once
        self._began_s = self._pumped_s = self._committed_s = 0.0
        self.turns_to_skip = 0
        self.completed: list[RequestTime] = []

    def watch(self, watch: Callable[[RequestTime], None] | None) -> None:
        """Measure all turns from now on, and pass the times of their requests to `watch` too; None ends that."""
        self._watch = watch
        self._skipped = self.turns_to_skip = 0
        self._credit = _BURST

    def begin(self) -> None:
        """A turn begins that is measured."""
        now_s = self._began_s = trio.current_time()
        self._weight, self._elapsed_s, self._last_s = self._skipped + 1, now_s - self._last_s, now_s
        self._measured = 0

    def _plan(self) -> None:
        """Decide how many turns are skipped after this one, by its number of requests and the rate of turns."""
        self._credit = min(self._credit + self._elapsed_s * _REQUESTS_PER_S, _BURST) - self._measured
        pause_s = -self._credit / _REQUESTS_PER_S
        turns = 0
        if pause_s > 0 and self._watch is None:
            turns = int(pause_s * self._weight / self._elapsed_s) if self._elapsed_s > 0 else _SKIPPED_MAX
        self.turns_to_skip = self._skipped = min(turns, _SKIPPED_MAX)

    async def run(self) -> None:
        """End skipping that takes longer than planned, until cancelled."""
        while True:
            await trio.sleep(_CHECK_INTERVAL_S)
            paused_s = trio.current_time() - self._last_s
            if self.turns_to_skip and self._credit + paused_s * _REQUESTS_PER_S > 0:
                self._skipped -= self.turns_to_skip
                self.turns_to_skip = 0

    def timed(self, serve: Serve) -> Serve:
        """The same function; it measures the requests that it serves."""

        def measure(connection: Connection, start: int, end: int) -> Reply:
            api_key = int.from_bytes(connection.buffer.data[start : start + 2], "big", signed=True)
            time = RequestTime(api_key, connection.session, self._weight, self._began_s, trio.current_time())
            reply = serve(connection, start, end)
            time.processed_s = trio.current_time()
            self._measured += 1
            if isinstance(reply, PendingReply) and not reply.done:
                reply.on_completed = partial(self._reply_completed, time)
            else:
                self._served.append(time)
            return reply

        return measure

    def _reply_completed(self, time: RequestTime) -> None:
        """A pending reply is complete, and is sent in the current or the next turn."""
        time.completed_s = trio.current_time()
        self.completed.append(time)

    def pumped(self) -> None:
        """The requests of a measured turn were served."""
        self._pumped_s = trio.current_time()

    def committed(self) -> None:
        """The records that a measured turn appended are committed."""
        self._committed_s = trio.current_time()

    def end(self) -> None:
        """The replies of a measured turn were sent."""
        sent_s = trio.current_time()
        commit_s = self._committed_s - self._pumped_s
        for time in self._served:
            time.commit_s, time.send_began_s, time.sent_s = commit_s, self._committed_s, sent_s
            self._report(time)
        self._served.clear()
        if self.completed:
            self.replies_sent()
        self._plan()

    def replies_sent(self) -> None:
        """The replies of `completed` were sent."""
        sent_s = trio.current_time()
        for time in self.completed:
            time.send_began_s = time.sent_s = sent_s
            self._report(time)
        self.completed.clear()

    def _report(self, time: RequestTime) -> None:
        self._record(time)
        if self._watch is not None:
            self._watch(time)
