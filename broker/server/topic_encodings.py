"""The topics of the whole cluster in Metadata responses, encoded once for all clients.

Every classic consumer with a regular expression requests all topics repeatedly. Encoding one partition takes some 6 us,
so one response for 50,000 partitions would cost 300 ms. An image shares unchanged buckets of some 32 topics with its
predecessor. Encodings are kept by bucket too, so only changed buckets are encoded again.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from broker.server.slices import Steps
from broker.wire.api.metadata import MetadataResponse, MetadataResponseTopic
from broker.wire.codec import element_encoder
from broker.wire.schema import EncodedArray
from metadata.image import ClusterImage, MetadataImage, TopicImage, TopicsImage

# The number of variants whose encodings are kept. Clients of one cluster seldom use more versions; with 50,000
# partitions, each variant takes 7 MB.
VARIANTS_MAX: Final = 6
# Buckets that are sent as one part, of some 100 KB in a large cluster.
_BLOCK_BUCKETS: Final = 16


class Variant(NamedTuple):
    """The properties of a request that the encoding depends on, besides the image."""

    listener: str
    version: int
    with_operations: bool


class _Bucket(NamedTuple):
    topics: Mapping[str, TopicImage]
    encoded: bytes


class _Block(NamedTuple):
    buckets: list[_Bucket]
    encoded: bytes


class TopicEncodings:
    """Encodes all topics of an image, and keeps what it has encoded.

    Requests that arrive while the first one encodes share its results so far.
    """

    def __init__(self) -> None:
        self._variants: dict[Variant, _VariantEncodings] = {}

    def encode(
        self, variant: Variant, image: MetadataImage, describe: Callable[[TopicImage], Steps[MetadataResponseTopic]]
    ) -> Steps[EncodedArray]:
        """All topics of the image, as `describe` returns them for this variant."""
        encodings = self._variants.pop(variant, None)
        if encodings is None or encodings.cluster is not image.cluster:
            encodings = _VariantEncodings(variant, image.cluster)
        self._variants[variant] = encodings  # the least recently used variant is dropped first
        while len(self._variants) > VARIANTS_MAX:
            del self._variants[next(iter(self._variants))]
        return encodings.encode(image.topics, describe)


class _VariantEncodings:
    """The encodings of one variant. They are valid until brokers change, since these determine offline replicas."""

    def __init__(self, variant: Variant, cluster: ClusterImage) -> None:
        self.cluster = cluster
        self._encode = element_encoder(MetadataResponseTopic, variant.version, MetadataResponse)
        self._buckets: dict[int, _Bucket] = {}
        self._blocks: dict[int, _Block] = {}
        self._last: tuple[TopicsImage, EncodedArray] | None = None

    def encode(
        self, topics: TopicsImage, describe: Callable[[TopicImage], Steps[MetadataResponseTopic]]
    ) -> Steps[EncodedArray]:
        if self._last is not None and self._last[0] is topics:
            return self._last[1]
        parts = []
        buckets = topics.by_name.buckets
        for first in range(0, len(buckets), _BLOCK_BUCKETS):
            block = []
            for index in range(first, min(first + _BLOCK_BUCKETS, len(buckets))):
                known = self._buckets.get(index)
                if known is None or known.topics is not buckets[index]:
                    known = self._buckets[index] = yield from self._bucket(buckets[index], describe)
                block.append(known)
            parts.append(self._joined(first, block))
            yield
        self._forget_beyond(len(buckets))
        array = EncodedArray(len(topics.by_name), parts)
        self._last = (topics, array)
        return array

    def _bucket(
        self, topics: Mapping[str, TopicImage], describe: Callable[[TopicImage], Steps[MetadataResponseTopic]]
    ) -> Steps[_Bucket]:
        parts: list[bytes] = []
        for topic in topics.values():
            described = yield from describe(topic)
            parts += yield from self._encode(described)
            yield
        return _Bucket(topics, b"".join(parts))

    def _joined(self, first: int, buckets: list[_Bucket]) -> bytes:
        known = self._blocks.get(first)
        if known is None or len(known.buckets) != len(buckets) or any(map(_differ, known.buckets, buckets)):
            known = self._blocks[first] = _Block(buckets, b"".join(bucket.encoded for bucket in buckets))
        return known.encoded

    def _forget_beyond(self, count: int) -> None:
        """Drop buckets from `count` on: an image from a snapshot may have fewer than its predecessor."""
        for kept in (self._buckets, self._blocks):
            for index in [index for index in kept if index >= count]:
                del kept[index]


def _differ(one: _Bucket, other: _Bucket) -> bool:
    return one is not other
