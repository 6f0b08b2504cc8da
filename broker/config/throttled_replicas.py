"""Which of a topic's replicas are throttled, by its `leader.` or `follower.replication.throttled.replicas` (KIP-73)."""

from collections.abc import Iterable
from typing import Final

import attrs

_ALL: Final = "*"


@attrs.frozen
class ThrottledReplicas:
    """Which of a topic's partitions are throttled at this broker: all of them, or those of these indexes."""

    are_all: bool = False
    indexes: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, entries: Iterable[str], broker_id: int) -> "ThrottledReplicas":
        """From a topic's list, which is `*`, or of `partition:broker` pairs."""
        texts = [entry.strip() for entry in entries]
        if "".join(texts) == _ALL:
            return cls(are_all=True)
        pairs = [text.split(":") for text in texts if text]
        return cls(indexes=frozenset(int(index) for index, broker in pairs if int(broker) == broker_id))

    def __contains__(self, index: int) -> bool:
        return self.are_all or index in self.indexes


NO_REPLICAS = ThrottledReplicas()
