"""Each checker of topics detects its anomaly."""

from jepsen.checkers import TOPIC_CHECKERS
from jepsen.values import WantedTopic
from tests.support.sample_history import SampleHistory, broken


def test_a_story_without_anomalies() -> None:
    history = SampleHistory()
    history.lists("t", "f")
    assert broken(history, TOPIC_CHECKERS) == []


def test_an_acknowledged_topic_is_gone() -> None:
    history = SampleHistory()
    history.lists("t")
    assert broken(history, TOPIC_CHECKERS) == ["AcknowledgedTopicsStay"]


def test_a_topic_that_was_seen_is_gone() -> None:
    history = SampleHistory()
    history.invoke("client", "create-topic", WantedTopic("seen", 1, is_flushed=False))
    history.lists("t", "f", "seen")
    history.lists("t", "f")
    assert broken(history, TOPIC_CHECKERS) == ["SeenTopicsAreReal"]


def test_a_deleted_topic_is_back() -> None:
    history = SampleHistory()
    history.did("delete-topic", "t", None)
    history.lists("t", "f")
    assert broken(history, TOPIC_CHECKERS) == ["DeletedTopicsStayAway"]
