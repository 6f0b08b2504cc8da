"""Members of a consumer group that follow the coordinator's responses and track the partitions that they own."""

from collections.abc import Callable

from broker.coordinator.group.config import GroupConfig
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.heartbeat import HeartbeatClient, validate
from broker.coordinator.group.mixed.upgrade import consumer_group_heartbeat
from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets, as_message, partition_sets
from broker.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import MetadataDelta, MetadataImage
from metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.support.groups_shard import GroupsShard

GROUP = "group"
REBALANCE_MS = 20_000
_RESTART = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)

REFUSED_FOR_GOOD = (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.FENCED_INSTANCE_ID)
NOT_LEFT = (None, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_INSTANCE_ID)


class ConsumerGroups(GroupsShard):
    """A shard, and the topics that its members read."""

    def __init__(self, config: GroupConfig | None = None) -> None:
        super().__init__(config)
        self._topic_count = 0

    @property
    def group(self) -> ConsumerGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def topic_id(self, name: str) -> bytes:
        return self.image.topics.by_name[name].topic_id

    def create_topic(self, name: str, partitions: int) -> None:
        self._topic_count += 1
        topic_id = self._topic_count.to_bytes(16)
        delta = MetadataDelta(self.image)
        delta.replay([TopicRecord(name=name, topic_id=topic_id)])
        self._add_partitions(delta, topic_id, range(partitions))

    def grow_topic(self, name: str) -> None:
        topic = self.image.topics.by_name[name]
        self._add_partitions(
            MetadataDelta(self.image), topic.topic_id, range(len(topic.partitions), len(topic.partitions) + 1)
        )

    def delete_topic(self, name: str) -> None:
        delta = MetadataDelta(self.image)
        delta.replay([RemoveTopicRecord(topic_id=self.topic_id(name))])
        self._publish(delta)

    def _add_partitions(self, delta: MetadataDelta, topic_id: bytes, partitions: range) -> None:
        delta.replay(
            [
                PartitionRecord(partition_id=index, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1)
                for index in partitions
            ]
        )
        self._publish(delta)

    def _publish(self, delta: MetadataDelta) -> None:
        self.image: MetadataImage = delta.apply(self.image.offset + 1)
        self.state.metadata_changed(delta, self.image)


class ConsumerClient:
    """`owned` are the partitions that the client owns according to its last response; `epoch` is the last member epoch,
    0 before it joins again.
    """

    def __init__(
        self,
        shard: ConsumerGroups,
        member_id: str,
        topics: list[str] | None = None,
        regex: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self.shard = shard
        self.member_id = member_id
        self.topics = topics if topics is not None or regex is not None else []
        self.regex = regex
        self.instance_id = instance_id
        self.assignor = assignor
        self.epoch = 0
        self.owned: PartitionSets = NO_PARTITIONS
        self.says_all = True

    def names(self) -> dict[str, set[int]]:
        """The partitions that it owns according to its last response, by topic names."""
        by_id = self.shard.image.topics.by_id
        return {by_id[topic_id].name: set(partitions) for topic_id, partitions in self.owned.items()}

    def heartbeat(self, *, is_lost: bool = False) -> ConsumerGroupHeartbeatResponse | None:
        """Send a heartbeat and apply the response; None if the member has to join again. With `is_lost`, the response
        is lost.

        Raises KafkaError for other errors.
        """
        request = self.request()
        try:
            response = self.send(request)
        except KafkaError as error:
            if error.code not in _RESTART:
                raise
            if not is_lost:
                self.restart()
            return None
        if is_lost:
            self.says_all = True
            return None
        self.epoch, self.says_all = response.member_epoch, False
        if response.assignment is not None:
            owned = partition_sets(response.assignment.topic_partitions)
            # Revoked and added partitions are reported with the next heartbeat.
            self.says_all = self.says_all or owned != self.owned
            self.owned = owned
        return response

    def request(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        if self.says_all or not self.epoch:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = self.topics
            request.subscribed_topic_regex = self.regex
            request.server_assignor = self.assignor
            request.topic_partitions = as_message(self.owned, TopicPartitions)
        return request

    def subscribe(self, topics: list[str], regex: str | None = None) -> None:
        self.topics, self.regex, self.says_all = topics, regex or "", True

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        """Raises KafkaError."""
        self.owned = NO_PARTITIONS
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        return self.send(request)

    def restart(self) -> None:
        self.epoch, self.owned, self.says_all = 0, NO_PARTITIONS, True

    def send(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        validate(request, 1, self.shard.config.consumer.assignors)
        caller = HeartbeatClient(client_id="client", client_host="/host", new_member_id="new")
        return self.shard.write(lambda state, now_ms: consumer_group_heartbeat(state, request, caller, now_ms))


def refused(call: Callable[[], object]) -> ErrorCode | None:
    """The error with which a request is refused; None if it succeeds."""
    try:
        call()
    except KafkaError as error:
        return error.code
    return None


def facts(group: ConsumerGroup) -> tuple[object, ...]:
    """The part of a group's state that follows from its log, for comparisons."""
    numbers = group.epoch, group.metadata_hash, group.assignment_epoch
    tables = group.members, group.static_members, group.targets, group.regexes
    owners = {
        (topic_id, index): group.owner_of(topic_id, index)
        for member in group.members.values()
        for sets in (member.assigned, member.pending_revocation)
        for topic_id, partitions in sets.items()
        for index in partitions
    }
    return *numbers, *(dict(table) for table in tables), owners


def settle(clients: list[ConsumerClient], rounds: int = 12) -> None:
    """Let all members send heartbeats until assignments stop changing."""
    for _ in range(rounds):
        before = [(client.epoch, client.owned) for client in clients]
        for client in clients:
            client.heartbeat()
        if before == [(client.epoch, client.owned) for client in clients] and not any(c.says_all for c in clients):
            return
    raise AssertionError(f"not settled after {rounds} rounds")
