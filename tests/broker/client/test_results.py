"""The results of calls for many items."""

import pytest

from broker.client import ConfigResource, ConfigResourceType, TopicPartition
from broker.client.admin import AclBinding, AclFilter, AclOperation, PatternType, ResourceType
from broker.client.errors import KafkaError, TimedOut
from broker.client.results import Results, failure
from broker.wire.errors import ErrorCode

MISSING = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
RESULTS: Results[str, int] = Results({"a": 1, "b": MISSING, "c": 3, "d": TimedOut("too late")})


def test_results_map_items_to_values_and_errors_in_the_order_of_the_call() -> None:
    assert list(RESULTS) == ["a", "b", "c", "d"]
    assert RESULTS["a"] == 1
    assert RESULTS["b"] is MISSING
    assert len(RESULTS) == 4
    assert RESULTS.succeeded == {"a": 1, "c": 3}
    assert list(RESULTS.failed) == ["b", "d"]


def test_raise_first_raises_the_first_error_with_the_item_in_a_note() -> None:
    for _ in range(2):
        with pytest.raises(KafkaError, match="no such topic") as raised:
            RESULTS.raise_first()
        assert raised.value.__notes__ == ["of 'b'"]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (TopicPartition("orders", 3), "orders-3"),
        (ConfigResource(ConfigResourceType.BROKER, "1"), "broker 1"),
        (ConfigResource(ConfigResourceType.BROKER, ""), "default broker"),
        (AclBinding(ResourceType.TOPIC, "t", "User:a", AclOperation.READ), "allow User:a read on topic t"),
        (
            AclFilter(ResourceType.GROUP, "g", operation=AclOperation.READ, pattern_type=PatternType.MATCH),
            "any any read on group g (match) from any",
        ),
    ],
)
def test_items_are_named_in_words(item: object, words: str) -> None:
    error = KafkaError(ErrorCode.INVALID_REQUEST, "not so")
    with pytest.raises(KafkaError) as raised:
        Results({item: error}).raise_first()
    assert raised.value.__notes__ == [f"of {words}"]


def test_raise_first_returns_the_values_if_all_items_succeeded() -> None:
    assert Results({"a": 1}).raise_first() == {"a": 1}


def test_value_raises_the_error_of_its_item_only() -> None:
    assert RESULTS.value("c") == 3
    with pytest.raises(TimedOut):
        RESULTS.value("d")
    with pytest.raises(KeyError):
        RESULTS.value("e")


def test_chained_joins_lists_and_raises_errors() -> None:
    assert Results({1: ["a"], 2: ["b", "c"]}).chained() == ["a", "b", "c"]
    with pytest.raises(KafkaError):
        Results({1: ["a"], 2: MISSING}).chained()


def test_a_none_is_a_value() -> None:
    assert Results({"a": None}).raise_first() == {"a": None}


def test_an_error_without_a_message_of_the_broker_explains_itself() -> None:
    error = failure(ErrorCode.NON_EMPTY_GROUP)
    assert error is not None
    assert "remove its members" in error.message
    assert failure(ErrorCode.NONE) is None


def test_an_error_code_of_a_newer_broker_is_reported_with_its_number() -> None:
    error = failure(999, "new")
    assert error is not None
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "999" in error.message
