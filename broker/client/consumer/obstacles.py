"""Why a consumer gets no records, other than that there are none: brokers that cannot be reached, topics that do not
exist, and groups without a coordinator.
"""

import logging
from typing import Final, Protocol

import trio

from broker.client.cluster import Cluster
from broker.client.consumer.group.coordinator_trouble import CoordinatorTrouble
from broker.client.consumer.subscription import SubscriptionKind, SubscriptionState
from broker.client.errors import ClientError, ConnectionLost, KafkaError
from broker.client.every_broker import look_for_topic
from broker.client.types import TopicPartition
from broker.wire.api.metadata import MetadataResponseTopic
from broker.wire.errors import ErrorCode

_log: Final = logging.getLogger(__name__)

# A topic that was just created, or that the brokers create because it was asked for, is not known to all of them yet.
_MISSING_TOLERATED_S: Final = 0.5
# No topic has a name that the brokers refuse.
_NOT_THERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


class SubscribedGroup(Protocol):
    """A membership in a group, as far as it keeps a read from its records."""

    @property
    def coordinator_trouble(self) -> CoordinatorTrouble: ...

    @property
    def subscribed_names(self) -> frozenset[str]:
        """The names of the topics of a subscription by name."""


class ReadObstacles:
    """See the module's docstring.

    A topic that is missing is logged once, and again if it was there meanwhile.
    """

    def __init__(
        self,
        cluster: Cluster,
        subscription: SubscriptionState,
        group: SubscribedGroup | None,
        tolerated_ms: float,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._group = group
        self._tolerated_ms = tolerated_ms
        self._unreachable_since: float | None = None
        self._missing_since: dict[str, float] = {}
        self._told: set[str] = set()

    async def check(self) -> None:
        """Raises what keeps a read that is over from its records, if anything does.

        ConnectionLost where no broker can be reached: at once if the consumer has never reached one, otherwise after
        `default.api.timeout.ms`. KafkaError where an assigned partition, or every subscribed topic, does not exist, and
        where the group has no coordinator: after 3 s if it never had one, otherwise after `default.api.timeout.ms`.
        """
        if (trouble := self.unreachable()) is not None:
            raise trouble
        if self._unknown() is None:
            if (coordinator := self._wanted_coordinator()) is not None:
                error = coordinator.error_at_end(self._tolerated_ms, trio.current_time())
                if error is not None:
                    raise error
            return
        try:
            for topic in self._topics():  # what the last response said may be over, and its broker may lag behind
                await look_for_topic(self._cluster, topic, self._is_there)
        except (ClientError, KafkaError):
            return
        if (unknown := self._unknown()) is not None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown)

    def _wanted_coordinator(self) -> CoordinatorTrouble | None:
        """The trouble with the coordinator, if that has to assign partitions."""
        if self._group is None or self._subscription.kind is not SubscriptionKind.SUBSCRIBED:
            return None
        return self._group.coordinator_trouble

    def lasting(self) -> ConnectionLost | KafkaError | None:
        """The error of a read that has no limit of its own: after `default.api.timeout.ms`, or at once if that does not
        help.
        """
        trouble = self.unreachable()
        since = self._unreachable_since
        if trouble is None:
            self._unreachable_since = None
            coordinator = self._wanted_coordinator()
            return None if coordinator is None else coordinator.error(self._tolerated_ms, trio.current_time())
        if not trouble.retriable:
            return trouble
        if since is None:
            self._unreachable_since = trio.current_time()
        elif trio.current_time() - since >= self._tolerated_ms / 1000:
            return trouble
        return None

    def unreachable(self) -> ConnectionLost | None:
        """The error to raise if the brokers that have the partitions cannot be reached."""
        if not self._cluster.reachability.has_troubles:
            return None
        trouble = self._cluster.trouble(tolerated_ms=self._tolerated_ms)
        if trouble is not None:
            return trouble
        leaders = {assigned.leader.node_id for assigned in self._subscription.partitions if assigned.leader is not None}
        troubles = (self._cluster.trouble_of(leader, tolerated_ms=self._tolerated_ms) for leader in sorted(leaders))
        return next(filter(None, troubles), None)

    def note_metadata(self) -> None:
        """Takes what the metadata says of the topics; logs those that do not exist."""
        now = trio.current_time()
        missing = self._missing()
        self._missing_since = {name: self._missing_since.get(name, now) for name in missing}
        self._told &= set(missing)
        for name, since in self._missing_since.items():
            if name not in self._told and now - since >= _MISSING_TOLERATED_S:
                self._told.add(name)
                _log.warning("%s; the consumer goes on when it exists", _explained(name))

    def _is_there(self, found: MetadataResponseTopic) -> bool:
        wanted = [each.partition for each in self._subscription.assignment() if each.topic == found.name]
        return found.error_code == ErrorCode.NONE and len(found.partitions) > max(wanted, default=0)

    def _topics(self) -> list[str]:
        if self._group is not None and self._subscription.kind is SubscriptionKind.SUBSCRIBED:
            return sorted(self._group.subscribed_names)
        return sorted({each.partition.topic for each in self._subscription.partitions})

    def _missing(self) -> list[str]:
        known = self._cluster.metadata.topics
        return [name for name in self._topics() if (topic := known.get(name)) is not None and topic.error in _NOT_THERE]

    def _unknown(self) -> str | None:
        """Says what does not exist, if that keeps the consumer from reading."""
        self.note_metadata()
        before = trio.current_time() - _MISSING_TOLERATED_S
        missing = [name for name, since in self._missing_since.items() if since <= before]
        is_assigned = self._subscription.kind is SubscriptionKind.ASSIGNED
        if missing and (is_assigned or len(missing) == len(self._topics())):
            return _explained(missing[0])
        if not is_assigned:
            return None
        return next(filter(None, map(self._absent, self._subscription.assignment())), None)

    def _absent(self, partition: TopicPartition) -> str | None:
        topic = self._cluster.metadata.topic(partition.topic)
        if topic is None or not topic.partitions or partition.partition < len(topic.partitions):
            return None
        return f"topic {topic.name} has {_partitions(len(topic.partitions))}, and no partition {partition.partition}"


def _explained(topic: str) -> str:
    return f"topic {topic} does not exist: create it, or check its name"


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
