"""The promises about dead letters of share groups, each kept and broken (KIP-1191)."""

from collections.abc import Callable
from typing import Final

import pytest

from jepsen.checkers import DEAD_LETTER_CHECKERS
from jepsen.history import Operation
from jepsen.share_values import Acknowledging, Acquired, Acquiring, DeadLetter, LostDeadLetters, ShareGroupSettings
from metadata.protocol import AcknowledgeType
from tests.support.sample_history import SampleHistory, broken

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


class SampleDeadLetters(SampleHistory):
    """The group "g" consumes "t" with a limit of two deliveries, and has a dead-letter topic."""

    def __init__(self) -> None:
        super().__init__()
        self.did("share-group", ShareGroupSettings("g", 2, 30_000, dead_letter_topic="dlq.t"), None)

    def tried(self, offset: int, kind: AcknowledgeType, count: int = 1, *, is_known: bool = True) -> None:
        """A delivery, and what its member said about it, with an unknown outcome if not `is_known`."""
        acquire = self.invoke("a", "acquire", Acquiring("g", "a", "a/1", "t", 0))
        self.ok(acquire, Acquired(((offset, f"s/t-0/{offset}", count),), 30_000, 1))
        self.time += 1
        value = Acknowledging("g", "a", "a/1", "t", 0, ((offset, offset, int(kind)),))
        acknowledge: Operation = self.invoke("a", "acknowledge", value)
        if is_known:
            self.ok(acknowledge, 1)
        self.time += 1

    def copied(self, *offsets: int, value: str | None = None) -> None:
        """The content of the dead-letter topic."""
        letters = tuple(DeadLetter("g", "t", 0, each, 1, value or f"s/t-0/{each}") for each in offsets)
        self.did("dead-letters", ("dlq.t", 0), letters)


def kept(history: SampleDeadLetters) -> None:
    """Record 0 is accepted, 1 is rejected, 2 reaches the limit and is copied twice."""
    history.tried(0, ACCEPT)
    history.tried(1, REJECT)
    history.tried(2, RELEASE)
    history.tried(2, RELEASE, 2)
    history.copied(1, 2, 2)


def kept_with_unknown_outcomes(history: SampleDeadLetters) -> None:
    """Records 0 and 1 may have been accepted or rejected, and a node has reported that it could not copy record 2."""
    history.tried(0, REJECT, is_known=False)
    history.tried(0, ACCEPT, 2, is_known=False)
    history.tried(1, REJECT, is_known=False)
    history.tried(1, ACCEPT, 2, is_known=False)
    history.tried(2, REJECT)
    history.did("dead-letters-lost", LostDeadLetters("g", "t", 0, 2, 2), None)
    history.copied(0)


@pytest.mark.parametrize("play", [kept, kept_with_unknown_outcomes])
def test_promises_are_kept(play: Callable[[SampleDeadLetters], None]) -> None:
    history = SampleDeadLetters()
    play(history)
    history.ends(0, 1, 2)
    assert broken(history, DEAD_LETTER_CHECKERS) == []


def copy_an_accepted_record(history: SampleDeadLetters) -> None:
    history.tried(0, ACCEPT)
    history.copied(0)


def copy_a_released_record(history: SampleDeadLetters) -> None:
    history.tried(0, RELEASE)
    history.copied(0)


def copy_another_value(history: SampleDeadLetters) -> None:
    history.tried(0, REJECT)
    history.copied(0, value="s/t-0/1")


def forget_a_rejected_record(history: SampleDeadLetters) -> None:
    history.tried(0, REJECT)
    history.copied()


def forget_a_record_at_the_limit(history: SampleDeadLetters) -> None:
    history.tried(0, RELEASE)
    history.tried(0, RELEASE, 2)
    history.copied()


BREAKS: Final = {
    copy_an_accepted_record: "DeadLettersAreOfFailedRecords",
    copy_a_released_record: "DeadLettersAreOfFailedRecords",
    copy_another_value: "DeadLettersAreOfFailedRecords",
    forget_a_rejected_record: "FailedRecordsAreDeadLetters",
    forget_a_record_at_the_limit: "FailedRecordsAreDeadLetters",
}


@pytest.mark.parametrize("play", BREAKS)
def test_broken_promise_is_found_alone(play: Callable[[SampleDeadLetters], None]) -> None:
    history = SampleDeadLetters()
    play(history)
    history.ends(0)
    assert broken(history, DEAD_LETTER_CHECKERS) == [BREAKS[play]]
