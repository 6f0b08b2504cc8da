"""The position of a streaming query in its checkpoint."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client import TopicPartition
from broker.spark.offsets import IllegalJson
from broker.spark.streaming.stream_offsets import StreamOffsets

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 10)


def test_json_is_the_connectors_with_keys_of_its_own() -> None:
    position = StreamOffsets(
        {SECOND: 5, FIRST: 23}, {"orders": bytes(range(16))}, "group-1", {FIRST: 20}, starts_at_latest=False
    )
    assert json.dumps(position.to_json()) == (
        '{"orders": {"0": 23, "10": 5}, "#topicIds": {"orders": "AAECAwQFBgcICQoLDA0ODw"}, "#groupId": "group-1",'
        ' "#startedAt": {"orders": {"0": 20}}, "#startsAtLatest": false}'
    )


def test_a_checkpoint_of_sparks_connector_is_read() -> None:
    position = StreamOffsets.of_json({"orders": {"0": 23, "10": 5}})
    assert position == StreamOffsets({FIRST: 23, SECOND: 5})
    assert not position.is_initial


names = st.text("abcXYZ019._-", min_size=1, max_size=12)
offset_maps = st.dictionaries(
    st.builds(TopicPartition, names, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), max_size=6
)


@given(
    st.builds(
        StreamOffsets,
        offset_maps,
        st.dictionaries(names, st.binary(min_size=16, max_size=16), max_size=3),
        st.none() | st.text(max_size=9),
        offset_maps,
        st.none() | st.booleans(),
    )
)
def test_a_position_is_read_as_it_was_written(position: StreamOffsets) -> None:
    assert StreamOffsets.of_json(json.loads(json.dumps(position.to_json()))) == position


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        {"orders": 3},
        {"orders": {"x": 3}},
        {"orders": {"0": -1}},
        {"orders": {"0": 2**63}},
        {"#topicIds": []},
        {"#topicIds": {"orders": "AAAA"}},
        {"#topicIds": {"orders": 5}},
        {"#topicIds": {"orders": "é"}},
        {"#groupId": 5},
        {"#startedAt": {"orders": {"0": -2}}},
        {"#startedAt": 5},
        {"#startsAtLatest": 1},
    ],
)
def test_a_damaged_position_is_refused(found: Any) -> None:
    with pytest.raises(IllegalJson):
        StreamOffsets.of_json(found)
