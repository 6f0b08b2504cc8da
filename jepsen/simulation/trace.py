"""The events of a run in order. They are hashed and passed to listeners, and the last ones are kept for reports of
failures.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping

import attrs

from jepsen.history import Operation

# The number of events shown with a failure. Its cause is usually among the last ones.
TAIL_EVENTS = 60
# The number of texts that are collected before they are hashed together: one call for each would cost more time.
_TEXTS_AT_ONCE = 1000


@attrs.frozen
class Event:
    """An event that a node traced (see `kraft.env.Env`), or a fault that affected a node. `time` is in
    virtual seconds.
    """

    time: float
    host: str
    kind: str
    fields: Mapping[str, object]

    def __str__(self) -> str:
        fields = " ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"{self.time:10.6f} {self.host:9} {self.kind} {fields}"


class Trace:
    """The trace of a run. Two runs are the same if and only if their hashes are equal.

    `steps` (tasks that ran) and `notes` (for example, segments that arrived) are only hashed, because there are too
    many of them to report. `listeners` are called with every event, in the order in which they were added, and
    `message_listeners` with every line of a client's log.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._time = -1.0
        self._time_text = ""
        self._unhashed: list[str] = []
        self._hash = hashlib.blake2b(digest_size=8)
        self.listeners: list[Callable[[Event], None]] = []
        self.message_listeners: list[Callable[[str, str], None]] = []
        self.tail: deque[Event] = deque(maxlen=TAIL_EVENTS)
        self.steps = 0
        self.notes = 0
        self.events = 0
        self.kinds: dict[str, None] = {}  # of all events so far

    @property
    def digest(self) -> str:
        self._hash_texts()
        return self._hash.hexdigest()

    def run(self, task_names: str, steps: int) -> None:
        """Hash one step of each of these tasks, whose names are on lines of their own."""
        self.steps += steps
        self._unhashed.append(task_names)
        if len(self._unhashed) >= _TEXTS_AT_ONCE:
            self._hash_texts()

    def note(self, *what: object) -> None:
        self.notes += 1
        self._unhashed.append(f"{self._timestamp()}{what!r}")

    def message(self, host: str, text: str) -> None:
        """Record a line of a client's log, and call the `message_listeners`. It is shown with a failure."""
        self.note(host, text)
        self.tail.append(Event(self._time, host, "client_logged", {"text": text}))
        for listener in self.message_listeners:
            listener(host, text)

    def operation(self, operation: Operation) -> None:
        """Hash the invocation or the completion of a client's operation."""
        self.note(operation.client, operation.function, operation.outcome.value, operation.result)

    def event(self, host: str, kind: str, fields: Mapping[str, object]) -> None:
        """Record an event and call the listeners at once, while the caller is possibly in the middle of a change."""
        self.events += 1
        self.kinds[kind] = None
        text = self._timestamp()
        event = Event(self._time, host, kind, fields)
        self._unhashed.append(f"{text}{host}{kind}{list(fields.items())!r}")
        self.tail.append(event)
        for listener in self.listeners:
            listener(event)

    def _timestamp(self) -> str:
        """The text of the present time, which is formatted once for all that happens at that time."""
        now = self._now()
        if now != self._time:
            self._time, self._time_text = now, repr(now)
        return self._time_text

    def _hash_texts(self) -> None:
        self._hash.update("".join(self._unhashed).encode())
        self._unhashed.clear()
