"""The clients of simulated nodes, and their rates."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

import attrs

from jepsen.values import WantedTopic


@attrs.frozen
class Load:
    """`topics` exist from the start, and `late` is created while faults occur. Producers send with acks=all to all
    topics except those in `acks_one_topics`, which get acks=1 and are checked separately.

    Ranges are numbers of clients; each seed draws from them, and from the rates, which are operations per second. Every
    producer sends to all partitions. `readers` is the probability of each partition to be read meanwhile. Contenders
    create, grow and delete the same few topics. Churning clients create topics of their own with at most
    `churned_partitions` partitions, and delete the share `deleted` of them.
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
    acks_one_topics: Sequence[str] = ()
    # Producers of the client library, besides the ones that speak the protocol themselves.
    library_producers: tuple[int, int] = (0, 1)
    # The topics that groups consume, and the range of the number of members.
    grouped: Sequence[str] = ()
    members: tuple[int, int] = (2, 3)

    def partitions(self, *, acks_one: bool = False) -> Iterator[tuple[str, int]]:
        """The partitions that every producer sends to with acks=all, or those with acks=1."""
        for topic in self.topics:
            for index in range(topic.partitions if acks_one is (topic.name in self.acks_one_topics) else 0):
                yield topic.name, index


# For a single node, whose storage is tested.
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
    """The load of a cluster, which tests metadata and replication.

    min.insync.replicas is two with three replicas, so that work continues after the loss of a leader, and one with two
    replicas. The invariants decide which records of these topics may be lost, flushed or not; for the checkers, a loss
    begins another incarnation.
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
        acks_one_topics=("hopeful",),
        grouped=("queue", "safe"),
    )


def default_load(nodes: int, brokers: int) -> Load:
    """The load of so many nodes, of which `brokers` are brokers."""
    return NODE_LOAD if nodes == 1 else cluster_load(brokers)


class SpecialLoad(Enum):
    """Clients of a kind of their own, besides those of `SPECIAL_LOAD`."""

    TRANSACTIONS = "transactions"
    QUOTAS = "quotas"
    SECURITY = "security"
    SHARES = "shares"


# For a cluster with clients of a `SpecialLoad`, whose rates are in their own modules.
SPECIAL_LOAD: Final = Load(
    topics=(WantedTopic("pair", 1, replication_factor=2),),
    late=WantedTopic("late", 1, configs=(("flush.messages", "1"),), replication_factor=2),
    late_per_second=1,
    producers=(1, 1),
    produced_per_second=(0.3, 1),
    readers=0.4,
    contenders=(0, 0),
    contended_per_second=(1,),
    churned_per_second=(0.2,),
    churned_partitions=2,
    deleted=0.8,
)
