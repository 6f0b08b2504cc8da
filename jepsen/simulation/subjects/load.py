"""What clients do to simulated nodes, and how often."""

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from jepsen.values import WantedTopic


@attrs.frozen
class Load:
    """`topics` are there from the start, and `late` is created in the middle of the troubles. To all of them producers
    send with acks=all, but to those named in `hopeful`, which are read and judged apart.

    Ranges are of how many clients there are at least and at most; each seed draws from them, and from the rates, which
    are of operations per second. Everybody who produces does so to every partition, and `readers` is the chance of each
    partition to be read meanwhile. Contenders create, grow and delete the same few topics; whoever churns has topics
    of its own, of so many partitions at most, of which `deleted` is the share that goes again.
    """

    topics: Sequence[WantedTopic]
    late: WantedTopic
    late_per_second: float
    producers: tuple[int, int]
    produced_per_second: Sequence[float]
    readers: float
    contenders: tuple[int, int]
    contended_per_second: Sequence[float]
    churned_per_second: Sequence[float]
    churned_partitions: int
    deleted: float
    hopeful: Sequence[str] = ()
    # Producers of the client library, besides the ones that speak the protocol themselves.
    library_producers: tuple[int, int] = (0, 1)
    # What groups consume, and how many members they have.
    grouped: Sequence[str] = ()
    members: tuple[int, int] = (2, 3)

    def partitions(self, *, hopeful: bool = False) -> Iterator[tuple[str, int]]:
        """Those that everybody produces to, with acks=all or with acks=1."""
        for topic in self.topics:
            for index in range(topic.partitions if hopeful is (topic.name in self.hopeful) else 0):
                yield topic.name, index


# One node alone: this is about its storage.
NODE_LOAD: Final = Load(
    topics=(
        WantedTopic("plain", 2, is_flushed=False),
        WantedTopic("flushed", 2, is_flushed=True),
        WantedTopic("rolled", 2, is_flushed=False, configs=(("segment.ms", "700"), ("flush.ms", "3000"))),
    ),
    late=WantedTopic("late", 1, is_flushed=True),
    late_per_second=8,
    producers=(1, 3),
    produced_per_second=(0.5, 2, 8),
    readers=0.7,
    contenders=(0, 3),
    contended_per_second=(1, 3),
    churned_per_second=(0.3, 1, 5),
    churned_partitions=4,
    deleted=0.4,
)


def cluster_load(brokers: int) -> Load:
    """Several nodes: this is about what they agree on, and about what so many brokers replicate.

    Two of three replicas in sync are enough, so that a leader can be lost and work goes on; of two, one is. What may be
    lost of these topics, flushed or not, is for the invariants to say; checkers hear of it as another life.
    """
    most = min(3, brokers)
    needed, flushed = ("min.insync.replicas", str(most - 1)), ("flush.messages", "1")
    return Load(
        topics=(
            WantedTopic("plain", 1),
            WantedTopic("flushed", 1, configs=(flushed,)),
            WantedTopic("pair", 1, replication_factor=2),
            WantedTopic("queue", 2, configs=(needed, ("segment.ms", "10000")), replication_factor=most),
            WantedTopic("safe", 1, configs=(needed, flushed), replication_factor=most),
            WantedTopic("hopeful", 1, replication_factor=most),
        ),
        late=WantedTopic("late", 1, configs=(flushed,), replication_factor=2),
        late_per_second=1,
        producers=(1, 2),
        produced_per_second=(0.3, 1, 2),
        readers=0.4,
        contenders=(0, 3),
        contended_per_second=(0.5, 2),
        churned_per_second=(0.2, 0.5, 1.5),
        churned_partitions=2,
        deleted=0.8,
        hopeful=("hopeful",),
        grouped=("queue", "safe"),
    )
