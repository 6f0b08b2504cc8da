"""From committed batches to images, deltas and publishers."""

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


def test_what_comes_together_is_published_once() -> None:
    loader = MetadataLoader()
    published = Published(loader)
    loader.handle_commit([batch(0, [FEATURE, topic(1)]), batch(2, [topic(2)], epoch=3)])
    ((delta, image),) = published.calls
    assert image is loader.image
    assert image.offset == 2
    assert [changed.name for changed in delta.topics.changed.values()] == ["topic-1", "topic-2"]
    assert delta.features == {"metadata.version": 25}


def test_what_did_not_change_is_shared_with_the_image_before() -> None:
    loader = MetadataLoader()
    published = Published(loader)
    loader.handle_commit([batch(0, [FEATURE])])
    loader.handle_commit([batch(1, [topic(1)])])
    (_, before), (delta, after) = published.calls
    assert delta.base is before
    assert after.features is before.features
    assert after.cluster is before.cluster
    assert "topic-1" not in before.topics.by_name


def test_the_leaders_own_work_is_published_as_it_is_even_when_merged_into_one_batch() -> None:
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


def test_a_lost_leader_forgets_what_it_foretold() -> None:
    loader = MetadataLoader()
    delta = MetadataDelta(loader.image)
    delta.replay([topic(1)])
    loader.add_appended(delta, delta.apply(0))
    loader.handle_leader_change(Leadership(2, 2))
    loader.handle_commit([batch(0, [topic(2)], epoch=2)])
    assert list(loader.image.topics.by_name) == ["topic-2"]


def test_a_publisher_that_comes_late_is_refused() -> None:
    loader = MetadataLoader()
    loader.handle_commit([batch(0, [FEATURE])])
    with pytest.raises(AssertionError, match="would miss"):
        loader.add_publisher(lambda delta, image: None)
