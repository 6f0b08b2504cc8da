"""Full Metadata is encoded once for each image, listener and version. A change encodes only the changed topics."""

from collections.abc import Generator
from time import thread_time
from typing import Any

import attrs
import pytest

from broker.handlers.availability import ClusterView
from broker.handlers.metadata import View, _topic
from broker.server.slices import Steps
from broker.server.topic_encodings import VARIANTS_MAX, TopicEncodings, Variant
from broker.wire.api.metadata import MetadataResponse, MetadataResponseTopic
from broker.wire.codec import decode, encode
from metadata.image import MetadataDelta, MetadataImage, TopicImage
from metadata.records import (
    BrokerEndpoint,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)

LISTENER = "PLAINTEXT"
PARTITIONS_PER_TOPIC = 10


class Describing:
    """Counts the topics that are described for an image."""

    def __init__(self, image: MetadataImage, version: int) -> None:
        self.view = View(image, ClusterView(image.cluster, LISTENER), version)
        self.topics: list[str] = []

    def __call__(self, topic: TopicImage) -> Steps[MetadataResponseTopic]:
        self.topics.append(topic.name)
        return _topic(self.view, topic)


def image_of(topics: int) -> MetadataImage:
    records: list[MetadataRecord] = [
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=b"\1" * 16,
            broker_epoch=1,
            end_points=(BrokerEndpoint(LISTENER, "host", 9092, 0),),
            features={},
            rack=None,
            fenced=False,
            in_controlled_shutdown=False,
            log_dirs=(),
        )
    ]
    for number in range(topics):
        topic_id = number.to_bytes(16, "big")
        records.append(TopicRecord(name=f"topic-{number:05}", topic_id=topic_id))
        records += [_partition(topic_id, index) for index in range(PARTITIONS_PER_TOPIC)]
    return changed(MetadataImage(), *records)


def changed(image: MetadataImage, *records: MetadataRecord) -> MetadataImage:
    delta = MetadataDelta(image)
    delta.replay(records)
    return delta.apply(image.offset + 1)


def _partition(topic_id: bytes, index: int) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id, partition_id=index, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0
    )


def finish(steps: Generator[None, None, Any]) -> tuple[Any, float]:
    """Run all steps. Returns the result, and the CPU time of the longest step."""
    longest = 0.0
    while True:
        began = thread_time()
        try:
            next(steps)
        except StopIteration as stopped:
            return stopped.value, max(longest, thread_time() - began)
        longest = max(longest, thread_time() - began)


def encoded(encodings: TopicEncodings, image: MetadataImage, version: int = 9) -> tuple[list[str], float]:
    """Encode all topics, and compare the bytes with the plain codec's. Returns the described topics and the longest
    step.
    """
    describing = Describing(image, version)
    array, longest = finish(encodings.encode(Variant(LISTENER, version, False), image, describing))
    data = b"".join(encode(MetadataResponse(topics=array), version))
    response, end = decode(MetadataResponse, version, data)
    assert end == len(data)
    plain = [finish(_topic(describing.view, topic))[0] for topic in image.topics.by_name.values()]
    assert b"".join(encode(MetadataResponse(topics=plain), version)) == data
    assert len(response.topics) == len(image.topics.by_name)
    return describing.topics, longest


@pytest.mark.parametrize("version", [0, 4, 8, 9, 12, 13])
def test_encoding_is_that_of_the_plain_codec_and_made_once(version: int) -> None:
    encodings, image = TopicEncodings(), image_of(100)
    assert len(encoded(encodings, image, version)[0]) == 100
    assert encoded(encodings, image, version)[0] == []


def test_changed_topic_costs_its_bucket() -> None:
    encodings, image = TopicEncodings(), image_of(400)
    encoded(encodings, image)
    change = PartitionChangeRecord(topic_id=(7).to_bytes(16, "big"), partition_id=3, isr=())
    described, _ = encoded(encodings, changed(image, change))
    assert "topic-00007" in described
    assert len(described) < 100


def test_topics_that_come_and_go_are_in_the_next_encoding() -> None:
    encodings, image = TopicEncodings(), image_of(10)
    encoded(encodings, image)
    fewer = changed(image, RemoveTopicRecord(topic_id=(3).to_bytes(16, "big")))
    encoded(encodings, fewer)
    new_id = (99).to_bytes(16, "big")
    encoded(encodings, changed(fewer, TopicRecord(name="new", topic_id=new_id), _partition(new_id, 0)))
    encoded(encodings, image_of(0))
    encoded(encodings, image_of(300))
    encoded(encodings, image_of(5))


def test_changed_broker_has_everything_encoded_again() -> None:
    encodings, image = TopicEncodings(), image_of(100)
    encoded(encodings, image)
    broker = attrs.evolve(image.cluster.brokers[1], fenced=True)
    cluster = attrs.evolve(image.cluster, brokers={1: broker})
    assert len(encoded(encodings, attrs.evolve(image, cluster=cluster))[0]) == 100


def test_concurrent_request_uses_the_finished_encodings() -> None:
    encodings, image = TopicEncodings(), image_of(200)
    variant = Variant(LISTENER, 9, False)
    first, second = Describing(image, 9), Describing(image, 9)
    under_way = encodings.encode(variant, image, first)
    while len(first.topics) < 150:
        next(under_way)
    finish(encodings.encode(variant, image, second))
    finish(under_way)
    assert len(second.topics) < 100
    assert len(first.topics) < 200


def test_encodings_that_are_kept_are_bounded() -> None:
    encodings, image = TopicEncodings(), image_of(20)
    versions = range(VARIANTS_MAX + 1)
    for version in versions:
        encoded(encodings, image, version)
    assert encoded(encodings, image, versions[-1])[0] == []
    assert len(encoded(encodings, image, 0)[0]) == 20


def test_no_step_takes_long_at_50000_partitions() -> None:
    encodings, image = TopicEncodings(), image_of(5_000)
    variant = Variant(LISTENER, 12, False)
    _, first = finish(encodings.encode(variant, image, Describing(image, 12)))
    change = PartitionChangeRecord(topic_id=(7).to_bytes(16, "big"), partition_id=3, isr=())
    _, after_change = finish(encodings.encode(variant, changed(image, change), Describing(image, 12)))
    assert max(first, after_change) < 0.02  # 1 ms or less, unless the garbage collector runs
