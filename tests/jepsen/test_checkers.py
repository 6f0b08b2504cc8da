"""Each checker sees the anomaly it is for, in a history of a few operations."""

from collections.abc import Iterable, Sequence

from jepsen.checkers import QUEUE_CHECKERS, TOPIC_CHECKERS
from jepsen.history import History
from jepsen.values import Polling, SeenTopic, Sending, WantedTopic

ID = "AAECAwQFBgcICQoLDA0ODw"


class Story(History):
    """A history in few words. The topic "t" is not flushed, "f" is; both have one partition."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        for name in ("t", "f"):
            self.did("create-topic", WantedTopic(name, 1, is_flushed=name == "f"), ID)

    def did(self, function: str, value: object, result: object, life: int = 0) -> None:
        self.ok(self.invoke("client", function, value), result, life=life)

    def sent(self, *sequences: int, at: int | None, topic: str = "t", life: int = 0) -> None:
        """A batch was acknowledged at an offset, or (None) nobody knows."""
        values = tuple(f"s/{topic}-0/{sequence}" for sequence in sequences)
        operation = self.invoke("client", "send", Sending(topic, 0, "s", sequences[0], values))
        if at is not None:
            self.ok(operation, at, life=life)

    def read(self, *sequences: int, offset: int = 0, topic: str = "t", life: int = 0) -> None:
        self.did("poll", Polling(topic, 0, offset), records(sequences, offset, topic), life)

    def ends(self, *sequences: int, topic: str = "t", life: int = 0) -> None:
        self.did("final-read", (topic, 0), records(sequences, 0, topic), life)

    def lists(self, *names: str) -> None:
        self.did("list-topics", None, {name: SeenTopic(ID, 1) for name in names})


def records(sequences: Iterable[int], offset: int, topic: str) -> list[tuple[int, str]]:
    return [(offset + at, f"s/{topic}-0/{sequence}") for at, sequence in enumerate(sequences)]


def broken(story: Story) -> Sequence[str]:
    """The promises about records that a story breaks."""
    return [anomaly.promise for checker in QUEUE_CHECKERS for anomaly in checker.check(story)]


def broken_topics(story: Story) -> Sequence[str]:
    return [anomaly.promise for checker in TOPIC_CHECKERS for anomaly in checker.check(story)]


def test_a_story_without_anomalies() -> None:
    story = Story()
    story.sent(0, 1, at=0)
    story.sent(2, at=None)
    story.read(0, 1)
    story.ends(0, 1, 2)
    story.lists("t", "f")
    assert broken(story) == []
    assert broken_topics(story) == []


def test_an_acknowledged_record_is_gone() -> None:
    story = Story()
    story.sent(0, at=0)
    story.sent(1, at=1)
    story.ends(0)
    assert "AcknowledgedRecordsStay" in broken(story)


def test_a_power_cut_may_take_what_was_not_flushed() -> None:
    story = Story()
    story.sent(0, at=0, life=0)
    story.sent(1, at=1, life=0)
    story.ends(0, life=1)
    assert broken(story) == []


def test_a_power_cut_may_not_take_what_was_flushed() -> None:
    story = Story()
    story.sent(0, at=0, topic="f", life=0)
    story.ends(topic="f", life=1)
    assert broken(story) == ["AcknowledgedRecordsStay"]


def test_a_power_cut_may_not_take_something_out_of_the_middle() -> None:
    story = Story()
    for sequence in range(3):
        story.sent(sequence, at=sequence, life=0)
    story.sent(3, at=None)
    story.did("final-read", ("t", 0), [(0, "s/t-0/0"), (1, "s/t-0/3"), (2, "s/t-0/2")], 1)
    assert "LossesAreOfTheEnd" in broken(story)


def test_an_offset_changes() -> None:
    story = Story()
    story.sent(0, at=None)
    story.sent(1, at=None)
    story.read(1)
    story.ends(0, 1)
    assert "OffsetsNeverChange" in broken(story)


def test_a_record_is_there_twice() -> None:
    story = Story()
    story.sent(0, at=0)
    story.ends(0, 0)
    assert "NothingTwice" in broken(story)


def test_a_record_comes_from_nowhere() -> None:
    story = Story()
    story.ends(0)
    assert broken(story) == ["NothingFromNowhere"]


def test_a_session_has_a_gap() -> None:
    story = Story()
    for sequence in range(3):
        story.sent(sequence, at=None)
    story.ends(0, 2)
    assert broken(story) == ["SessionsAreInOrder"]


def test_a_poll_skips() -> None:
    story = Story()
    story.sent(0, at=0)
    story.sent(1, at=1)
    story.did("poll", Polling("t", 0, 0), [(1, "s/t-0/1")])
    story.ends(0, 1)
    assert broken(story) == ["PollsSkipNothing"]


def test_a_batch_is_damaged() -> None:
    story = Story()
    story.fail(story.invoke("client", "poll", Polling("t", 0, 0)), "Invalid magic")
    assert broken(story) == ["NothingIsCorrupt"]


def test_an_acknowledged_topic_is_gone() -> None:
    story = Story()
    story.lists("t")
    assert broken_topics(story) == ["AcknowledgedTopicsStay"]


def test_a_topic_that_was_seen_is_gone() -> None:
    story = Story()
    story.invoke("client", "create-topic", WantedTopic("seen", 1, is_flushed=False))
    story.lists("t", "f", "seen")
    story.lists("t", "f")
    assert broken_topics(story) == ["SeenTopicsAreReal"]


def test_a_deleted_topic_is_back() -> None:
    story = Story()
    story.did("delete-topic", "t", None)
    story.lists("t", "f")
    assert broken_topics(story) == ["DeletedTopicsStayAway"]
