"""Keeps the leaders of assigned partitions as the metadata has them."""

from collections.abc import Callable
from math import inf
from typing import Final

import trio

from broker.client.cluster import Cluster
from broker.client.consumer.obstacles import ReadObstacles
from broker.client.consumer.subscription import SubscriptionState
from broker.client.errors import KafkaError
from broker.wire.errors import ErrorCode

# Errors that the user has to know of: the topic is not looked for again.
_FINAL_TOPIC_ERRORS: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})


class LeaderUpdates:
    """See the module's docstring. `rechecked` is called after the leaders were taken from the metadata."""

    def __init__(
        self,
        cluster: Cluster,
        subscription: SubscriptionState,
        obstacles: ReadObstacles,
        rechecked: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._obstacles = obstacles
        self._rechecked = rechecked

    def recheck(self) -> None:
        """Takes the leaders from the metadata, and checks every partition again."""
        metadata = self._cluster.metadata
        partitions = self._subscription.assignment()
        self._subscription.update_leaders({partition: metadata.leader(partition) for partition in partitions})
        for assigned in self._subscription.without_leader():
            topic = metadata.topic(assigned.partition.topic)
            if topic is not None and topic.error in _FINAL_TOPIC_ERRORS:
                assigned.error = KafkaError(topic.error, topic.name)
        self._obstacles.note_metadata()
        self._rechecked()

    async def run(self) -> None:
        """Applies changes of the metadata, and requests refreshes while a partition has no leader."""
        in_vain = 0
        while True:
            version = self._cluster.metadata.version
            self.recheck()
            in_vain = in_vain + 1 if self._subscription.without_leader() else 0
            with trio.move_on_after(self._cluster.backoff.pause_s(in_vain) if in_vain else inf):
                await self._cluster.wait_for_change(version)
                continue
            self._cluster.request_refresh()
            await self._cluster.wait_for_change(version)
