"""Each checker of topics detects its anomaly."""

from jepsen.checkers import TOPIC_CHECKERS
from jepsen.values import WantedTopic
from tests.support.stories import Story, broken


def test_a_story_without_anomalies() -> None:
    story = Story()
    story.lists("t", "f")
    assert broken(story, TOPIC_CHECKERS) == []


def test_an_acknowledged_topic_is_gone() -> None:
    story = Story()
    story.lists("t")
    assert broken(story, TOPIC_CHECKERS) == ["AcknowledgedTopicsStay"]


def test_a_topic_that_was_seen_is_gone() -> None:
    story = Story()
    story.invoke("client", "create-topic", WantedTopic("seen", 1, is_flushed=False))
    story.lists("t", "f", "seen")
    story.lists("t", "f")
    assert broken(story, TOPIC_CHECKERS) == ["SeenTopicsAreReal"]


def test_a_deleted_topic_is_back() -> None:
    story = Story()
    story.did("delete-topic", "t", None)
    story.lists("t", "f")
    assert broken(story, TOPIC_CHECKERS) == ["DeletedTopicsStayAway"]
