"""Short notation for histories that checkers judge."""

from collections.abc import Iterable, Sequence

from jepsen.checkers import Checker
from jepsen.history import History, Operation
from jepsen.values import Polling, SeenTopic, Sending, WantedTopic

ID = "AAECAwQFBgcICQoLDA0ODw"


class SampleHistory(History):
    """A history with the topic "t", which is not flushed, and "f", which is; both have one partition. Time advances
    only on request.
    """

    def __init__(self) -> None:
        self.time = 0.0
        super().__init__(lambda: self.time)
        for name in ("t", "f"):
            self.did("create-topic", WantedTopic(name, 1, is_flushed=name == "f"), ID)

    def did(self, function: str, value: object, result: object, incarnation: int = 0) -> Operation:
        operation = self.invoke("client", function, value)
        self.ok(operation, result, incarnation=incarnation)
        return operation

    def sends(self, *sequences: int, topic: str = "t", session: str = "s") -> Operation:
        """A batch with an unknown outcome."""
        values = tuple(f"{session}/{topic}-0/{sequence}" for sequence in sequences)
        return self.invoke("client", "send", Sending(topic, 0, session, sequences[0], values))

    def sent(
        self, *sequences: int, at: int | None, topic: str = "t", incarnation: int = 0, session: str = "s"
    ) -> Operation:
        """An acknowledged batch at an offset; None for an unknown offset."""
        operation = self.sends(*sequences, topic=topic, session=session)
        self.ok(operation, at, incarnation=incarnation)
        return operation

    def read(self, *sequences: int, offset: int = 0, topic: str = "t", incarnation: int = 0) -> None:
        self.did("poll", Polling(topic, 0, offset), records(sequences, offset, topic), incarnation)

    def polled(self, position: int, *offsets: int) -> None:
        """Record a poll from `position` that returned these offsets, with the records that belong there."""
        self.did("poll", Polling("t", 0, position), tuple((offset, f"s/t-0/{offset}") for offset in offsets))

    def ends(self, *sequences: int, topic: str = "t", incarnation: int = 0, offset: int = 0) -> None:
        self.did("final-read", (topic, 0), records(sequences, offset, topic), incarnation)

    def lists(self, *names: str) -> None:
        self.did("list-topics", None, {name: SeenTopic(ID, 1) for name in names})


def records(sequences: Iterable[int], offset: int, topic: str) -> tuple[tuple[int, str], ...]:
    return tuple((offset + at, f"s/{topic}-0/{sequence}") for at, sequence in enumerate(sequences))


def broken(history: History, checkers: Sequence[Checker]) -> list[str]:
    """The promises that a history breaks, repeated for each anomaly."""
    return [anomaly.promise for checker in checkers for anomaly in checker.check(history)]
