"""The events of a run in order. They are hashed, passed to observers, and the last ones are kept for reports of
failures.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import attrs

from jepsen.history import Operation

# Events shown with a failure: what led to it is close to the end.
TAIL_EVENTS = 60


@attrs.frozen
class Event:
    """Something that a node traced (see `kraft.env.Env`), or that befell one. `time` is in virtual seconds."""

    time: float
    host: str
    kind: str
    fields: Mapping[str, object]

    def __str__(self) -> str:
        fields = " ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"{self.time:10.6f} {self.host:9} {self.kind} {fields}"


class Trace:
    """Two runs are the same run if and only if their hashes are equal.

    `steps` (tasks that ran) and `notes` (segments that arrived, and the like) are hashed only: there are too many of
    them to be told about. `listeners` hear of every event, in the order in which they were added.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._hash = hashlib.blake2b(digest_size=8)
        self.listeners: list[Callable[[Event], None]] = []
        self.tail: deque[Event] = deque(maxlen=TAIL_EVENTS)
        self.steps = 0
        self.notes = 0
        self.events = 0
        self.kinds: dict[str, None] = {}  # of all events so far

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def run(self, task_names: Sequence[str]) -> None:
        """These tasks run a step each."""
        self.steps += len(task_names)
        self._hash.update("\n".join(task_names).encode())

    def note(self, *what: object) -> None:
        self.notes += 1
        self._hash.update(f"{self._now()!r}{what!r}".encode())

    def operation(self, operation: Operation) -> None:
        """A client begins something, or hears how it went."""
        self.note(operation.client, operation.function, operation.outcome.value, operation.result)

    def event(self, host: str, kind: str, fields: Mapping[str, object]) -> None:
        """Record an event and tell the listeners, within the call: who traces is still in the middle of it."""
        self.events += 1
        self.kinds[kind] = None
        event = Event(self._now(), host, kind, fields)
        self._hash.update(f"{event.time!r}{host}{kind}{list(fields.items())!r}".encode())
        self.tail.append(event)
        for listener in self.listeners:
            listener(event)
