"""What clients do to simulated nodes, and how often."""

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from jepsen.values import WantedTopic


@attrs.frozen
class Load:
    """`topics` are there from the start, and `late` is created in the middle of the troubles.

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

    def partitions(self) -> Iterator[tuple[str, int]]:
        """Those that everybody produces to."""
        for topic in self.topics:
            for index in range(topic.partitions):
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
# Several nodes: this is about what they agree on. Records tell that topics can be used, and cost more than all else.
CLUSTER_LOAD: Final = Load(
    topics=(WantedTopic("plain", 1, is_flushed=False), WantedTopic("flushed", 2, is_flushed=True)),
    late=WantedTopic("late", 1, is_flushed=True),
    late_per_second=1,
    producers=(1, 1),
    produced_per_second=(0.3, 1),
    readers=0.4,
    contenders=(0, 3),
    contended_per_second=(1, 3),
    churned_per_second=(0.3, 1, 3),
    churned_partitions=2,
    deleted=0.8,
)
