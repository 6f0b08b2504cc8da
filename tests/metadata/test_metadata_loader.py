"""MetadataLoader: images, deltas and publishers."""

from collections.abc import Sequence

import pytest

from kraft.replicated_log import Batch, Leadership
from metadata.image import MetadataDelta, MetadataImage, MetadataLoader
from metadata.records import FeatureLevelRecord, MetadataRecord, TopicRecord, encode_record

FEATURE = FeatureLevelRecord(name="metadata.version", feature_level=25)


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"topic-{number}", topic_id=bytes([number]) * 16)


def batch(base_offset: int, records: Sequence[MetadataRecord], epoch: int = 1) -> Batch:
    return Batch(base_offset, epoch, 0, tuple(map(encode_record, records)))


class Published:
    def __init__(self, loader: MetadataLoader) -> None:
        self.calls: list[tuple[MetadataDelta, MetadataImage]] = []
        loader.add_publisher(lambda delta, image: self.calls.append((delta, image)))


def test_batches_of_one_commit_are_published_once() -> None:
    loader = MetadataLoader()
    published = Published(loader)
    loader.handle_commit([batch(0, [FEATURE, topic(1)]), batch(2, [topic(2)], epoch=3)])
    ((delta, image),) = published.calls
    assert image is loader.image
    assert image.offset == 2
    assert [changed.name for changed in delta.topics.changed.values()] == ["topic-1", "topic-2"]
    assert delta.features == {"metadata.version": 25}


def test_unchanged_parts_are_shared_with_the_previous_image() -> None:
    loader = MetadataLoader()
    published = Published(loader)
    loader.handle_commit([batch(0, [FEATURE])])
    loader.handle_commit([batch(1, [topic(1)])])
    (_, before), (delta, after) = published.calls
    assert delta.base is before
    assert after.features is before.features
    assert after.cluster is before.cluster
    assert "topic-1" not in before.topics.by_name


def test_appended_changes_are_published_unchanged_even_from_a_merged_batch() -> None:
    loader = MetadataLoader()
    published = Published(loader)
    image, appended = loader.image, []
    for offset, record in enumerate([FEATURE, topic(1), topic(2)]):
        delta = MetadataDelta(image)
        delta.replay([record])
        image = delta.apply(offset)
        appended.append((delta, image))
        loader.add_appended(delta, image)
    loader.handle_commit([batch(0, [FEATURE, topic(1)])])
    assert published.calls == appended[:2]
    loader.handle_commit([batch(2, [topic(2)])])
    assert loader.image is image


def test_loader_drops_appended_changes_when_leadership_is_lost() -> None:
    loader = MetadataLoader()
    delta = MetadataDelta(loader.image)
    delta.replay([topic(1)])
    loader.add_appended(delta, delta.apply(0))
    loader.handle_leader_change(Leadership(2, 2))
    loader.handle_commit([batch(0, [topic(2)], epoch=2)])
    assert list(loader.image.topics.by_name) == ["topic-2"]


def test_publisher_added_after_the_first_record_is_refused() -> None:
    loader = MetadataLoader()
    loader.handle_commit([batch(0, [FEATURE])])
    with pytest.raises(AssertionError, match="would miss"):
        loader.add_publisher(lambda delta, image: None)
