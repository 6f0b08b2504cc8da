"""The position of a streaming query, as it stands in the checkpoint.

It is the JSON of Spark's Kafka connector, {"topic": {"0": 23}}, with keys of its own beside the topics. They begin
with "#", which no name of a topic can contain:

- "#topicIds" are the ids of the topics, by which a topic that was created again is recognised.
- "#groupId" is the group under which the query commits its offsets, the same after every restart.
- "#startedAt" is where the batch that ends here starts in partitions that the position before it does not have: all
  partitions in the first batch, new ones later. When Spark repeats the first batch after a crash, it asks for the
  initial position again, and "latest" or "earliest" would then be another one.
- "#startsAtLatest" stands in an initial position only, and is true if some offset was resolved from "latest".

A checkpoint of Spark's connector, which has none of these keys, is read too.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

import attrs

from broker.client import TopicPartition
from broker.spark.offsets import IllegalJson, Offsets, offsets_from_json

_TOPIC_IDS: Final = "#topicIds"
_GROUP_ID: Final = "#groupId"
_STARTED_AT: Final = "#startedAt"
_STARTS_AT_LATEST: Final = "#startsAtLatest"
_ID_BYTES: Final = 16


@attrs.frozen
class StreamOffsets:
    """The next offset of every partition, and what identifies the topics and the query.

    `started_at` has the starts of partitions that the position before did not have. `starts_at_latest` is None but for
    the position before the first batch.
    """

    offsets: Offsets = attrs.field(hash=False)
    topic_ids: dict[str, bytes] = attrs.field(factory=dict, hash=False)
    group_id: str | None = None
    started_at: Offsets = attrs.field(factory=dict, hash=False)
    starts_at_latest: bool | None = None

    @property
    def is_initial(self) -> bool:
        return self.starts_at_latest is not None

    def id_of(self, partition: TopicPartition) -> bytes | None:
        """The id of the partition's topic; None where the position does not say it."""
        return self.topic_ids.get(partition.topic)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON with topics and partitions sorted, since Spark compares positions by their text."""
        found: dict[str, Any] = topics_of(self.offsets)
        if self.topic_ids:
            found[_TOPIC_IDS] = {topic: _encode_id(self.topic_ids[topic]) for topic in sorted(self.topic_ids)}
        if self.group_id is not None:
            found[_GROUP_ID] = self.group_id
        if self.started_at:
            found[_STARTED_AT] = topics_of(self.started_at)
        if self.starts_at_latest is not None:
            found[_STARTS_AT_LATEST] = self.starts_at_latest
        return found

    @classmethod
    def of_json(cls, found: Any) -> "StreamOffsets":
        """Reads the JSON of a checkpoint. Raises IllegalJson."""
        if not isinstance(found, dict):
            raise IllegalJson(f"A position is an object of topics, not {found!r}")
        topics = {name: value for name, value in found.items() if not name.startswith("#")}
        ids = found.get(_TOPIC_IDS, {})
        group_id = found.get(_GROUP_ID)
        starts_at_latest = found.get(_STARTS_AT_LATEST)
        if (
            not isinstance(ids, dict)
            or not isinstance(group_id, str | None)
            or not isinstance(starts_at_latest, bool | None)
        ):
            raise IllegalJson(f"Not a position of a query: {json.dumps(found)}")
        return cls(
            offsets=_offsets(topics),
            topic_ids={topic: _decode_id(value) for topic, value in ids.items()},
            group_id=group_id,
            started_at=_offsets(found.get(_STARTED_AT, {})),
            starts_at_latest=starts_at_latest,
        )


def topics_of(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The offsets as nested objects, sorted by topic and partition."""
    topics: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return topics


def _offsets(topics: Any) -> Offsets:
    offsets = offsets_from_json(json.dumps(topics))
    if any(offset < 0 for offset in offsets.values()):
        raise IllegalJson(f"A position has offsets from 0 on, not {json.dumps(topics)}")
    return offsets


def _encode_id(topic_id: bytes) -> str:
    """The text that Kafka's tools show for an id."""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def _decode_id(text: Any) -> bytes:
    try:
        topic_id = urlsafe_b64decode(f"{text}==") if isinstance(text, str) else b""
    except ValueError:
        topic_id = b""
    if len(topic_id) != _ID_BYTES:
        raise IllegalJson(f"Not the id of a topic: {text!r}")
    return topic_id
