"""Members of a share group without a node, and a share coordinator that keeps the states of its partitions."""

from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from broker.coordinator.group.config import GroupConfig, ShareGroupConfig
from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets, partition_sets
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.group.share.heartbeat import ShareHeartbeatClient, share_group_heartbeat, validate
from broker.coordinator.group.share.offsets import (
    end_deletion,
    end_initialization,
    still_deleting,
    still_initializing,
)
from broker.coordinator.group.share.partition_states import Initialization
from broker.coordinator.group.share.share_group import ShareGroup
from broker.coordinator.runtime.decision import Decision
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.consumer_clients import GROUP, ConsumerGroups

T = TypeVar("T")
INTERVAL_MS, SESSION_MS = 5_000, 45_000


@attrs.define
class KeptState:
    """A state in the share coordinator. `times` counts how often it was initialized since it was last deleted."""

    start_offset: int
    times: int = 1


class ShareGroupsShard(ConsumerGroups):
    """A shard, its topics, and the share coordinator. Initializations that heartbeats begin wait in `begun`."""

    def __init__(self, config: ShareGroupConfig | None = None) -> None:
        super().__init__(GroupConfig(share=config or ShareGroupConfig(assignment_interval_ms=0)))
        self.begun: list[Initialization] = []
        self.kept: dict[tuple[bytes, int], KeptState] = {}

    @property
    def share_group(self) -> ShareGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ShareGroup)
        return group

    def load(self) -> None:
        """Loads a new state. The initializations of the former coordinator are lost."""
        self.begun = []
        super().load()

    def initialize(self, initialization: Initialization, *, fails: Callable[[int], bool] = lambda index: False) -> None:
        """Executes a request, as `ShareStates` does; `fails` says of which partitions the share coordinator refuses."""
        succeeded: dict[bytes, frozenset[int]] = {}
        for topic_id, indexes in still_initializing(self.state, initialization).items():
            done = frozenset(index for index in indexes if not fails(index))
            for index in done:
                offset = initialization.start_offsets[topic_id][index]
                kept = self.kept.setdefault((topic_id, index), KeptState(offset, 0))
                kept.start_offset, kept.times = offset, kept.times + 1
            if done:
                succeeded[topic_id] = done
        self.write(lambda state, now_ms: end_initialization(state, initialization, succeeded, now_ms))

    def initialize_all(self) -> None:
        begun, self.begun = self.begun, []
        for initialization in begun:
            self.initialize(initialization)

    def delete(self, partitions: PartitionSets) -> None:
        """Executes a deletion, as `ShareStates` does."""
        left = still_deleting(self.state, GROUP, partitions)
        for topic_id, indexes in left.items():
            for index in indexes:
                self.kept.pop((topic_id, index), None)
        self.write(lambda state, now_ms: end_deletion(state, GROUP, left))

    def facts(self) -> object:
        """The contents of the group's records; None if there is no share group."""
        group = self.state.groups.get(GROUP)
        if not isinstance(group, ShareGroup):
            return None
        epochs = group.epoch, group.metadata_hash, group.assignment_epoch, group.assigned_at_ms
        return epochs, dict(group.members), dict(group.targets), group.states


class ShareClient:
    """`assigned` are the partitions of its last response that had some; `epoch` is its member epoch, 0 before it joins
    (again).
    """

    def __init__(self, shard: ShareGroupsShard, member_id: str, topics: list[str]) -> None:
        self.shard, self.member_id, self.topics = shard, member_id, topics
        self.epoch = 0
        self.assigned: PartitionSets = NO_PARTITIONS

    def heartbeat(self, **fields: Any) -> ShareGroupHeartbeatResponse:
        """Raises KafkaError."""
        request = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch)
        if not self.epoch:
            request.subscribed_topic_names = self.topics
        for name, value in fields.items():
            setattr(request, name, value)
        validate(request)
        client = ShareHeartbeatClient(client_id="client", client_host="/host", config=self.shard.config.share)

        def decide(state: GroupCoordinatorShard, now_ms: int) -> Decision[Any]:
            return share_group_heartbeat(state, request, client, now_ms)

        outcome = self.shard.write(decide)
        if outcome.initialization is not None:
            self.shard.begun.append(outcome.initialization)
        response: ShareGroupHeartbeatResponse = outcome.response
        self.epoch = max(response.member_epoch, 0)
        if response.assignment is not None:
            self.assigned = partition_sets(response.assignment.topic_partitions)
        return response

    def code(self, **fields: Any) -> ErrorCode:
        """The error code of a heartbeat; NONE if it has none."""
        try:
            self.heartbeat(**fields)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def names(self) -> dict[str, set[int]]:
        """The assigned partitions by topic names."""
        by_id = self.shard.image.topics.by_id
        return {by_id[topic_id].name: set(indexes) for topic_id, indexes in self.assigned.items()}


def settle(shard: ShareGroupsShard, *clients: ShareClient) -> None:
    """Has the members send heartbeats, and the share coordinator answer, until nothing changes."""
    for _ in range(20):
        before = shard.facts()
        for client in clients:
            client.heartbeat()
        shard.initialize_all()
        shard.pass_ms(INTERVAL_MS)
        if shard.facts() == before:
            return
    raise AssertionError("the group does not settle")
