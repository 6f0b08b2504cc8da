"""Offsets as the JSON of Spark's Kafka connector."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client import TopicPartition
from broker.spark.offsets import (
    EARLIEST,
    LATEST,
    IllegalJson,
    offsets_from_json,
    offsets_to_json,
    partitions_from_json,
    timestamps_from_json,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

partitions = st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 2**31 - 1))


def test_offsets_are_sorted_by_topic_and_number_so_that_equal_offsets_have_equal_texts() -> None:
    partition_10 = TopicPartition("a", 10)
    expected = '{"a":{"0":23,"1":-1,"10":4},"b":{"0":-2}}'
    assert offsets_to_json({B0: EARLIEST, partition_10: 4, A1: LATEST, A0: 23}) == expected
    assert offsets_from_json(expected) == {A0: 23, A1: LATEST, partition_10: 4, B0: EARLIEST}


@given(st.dictionaries(partitions, st.integers(-2, 2**63 - 1), max_size=8))
def test_offsets_survive_json(offsets: dict[TopicPartition, int]) -> None:
    assert offsets_from_json(offsets_to_json(offsets)) == offsets


@pytest.mark.parametrize(
    "text",
    ["", "latest", "[]", "3", '{"a": 1}', '{"a": {"x": 1}}', '{"a": {"0": "1"}}', '{"a": {"0": 1.5}}',
     '{"a": {"0": -3}}', '{"a": {"-1": 3}}', '{"a": {"0": true}}', '{"a": {"0": 9223372036854775808}}',
     '{"a": {"2147483648": 0}}', '{"a": {"0_0": 1}}', '{"a": {" 0": 1}}', '{"a": {"+0": 1}}', '{"a": {"\u0663": 1}}',
     '{"a": {"%s": 1}}' % ("1" * 5_000), "[" * 100_000],
)  # fmt: skip
def test_offsets_of_another_form_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(IllegalJson) as refusal:
        offsets_from_json(text)
    assert str(refusal.value).startswith('Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got ')


def test_partitions_are_lists_of_numbers() -> None:
    assert partitions_from_json('{"a": [0, 1], "b": [0]}') == [A0, A1, B0]


@pytest.mark.parametrize("text", ["{", '{"a": 0}', '{"a": ["0"]}', '{"a": [-1]}', '{"a": {"0": 1}}'])
def test_partitions_of_another_form_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(IllegalJson) as refusal:
        partitions_from_json(text)
    assert str(refusal.value) == f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}'


def test_timestamps_have_the_form_of_offsets_and_are_not_negative() -> None:
    assert timestamps_from_json('{"a": {"0": 1000}}') == {A0: 1000}
    with pytest.raises(IllegalJson, match=r"Expected e\.g"):
        timestamps_from_json('{"a": {"0": -1}}')
