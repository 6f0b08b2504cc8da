"""Random runs of a share group: members come, go and fall silent, topics and coordinators change, requests to the share
coordinator fail, are late, or are lost with their coordinator.

The invariants:

- a decision by itself changes nothing;
- a new coordinator replays the state of the former one from the log, also after the log was compacted;
- only partitions with a state are assigned, and only to members that are subscribed to them;
- a state that the group has recorded as initialized is never initialized again;
- finally, all partitions of the subscribed topics are assigned, and every member has work.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.coordinator.group.partition_sets import PartitionSets, is_within
from broker.coordinator.group.share.offsets import delete_states
from broker.coordinator.group.share.partition_states import Initialization
from broker.coordinator.group.share.share_group import ShareGroup
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.consumer_clients import GROUP
from tests.support.share_clients import SESSION_MS, ShareClient, ShareGroupsShard, settle

TOPICS = ["a", "b"]
SUBSCRIPTIONS = st.sampled_from([["a"], ["a", "b"], ["b", "gone"]])
INDEX = st.integers(0, 7)
_RESTART = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


class CautiousShard(ShareGroupsShard):
    """Makes every decision twice; the first one must not change the state."""

    def write(self, decide: Any, producer_id: int = -1) -> Any:
        before, log, due = self._all_facts(), len(self.log), dict(self.timers.due)
        try:
            decide(self.state, self.now_ms)
        finally:
            assert (self._all_facts(), len(self.log), self.timers.due) == (before, log, due)
        return super().write(decide, producer_id)

    def _all_facts(self) -> object:
        group = self.state.groups.get(GROUP)
        own = (group.has_stale_topics, repr(group.under_way)) if isinstance(group, ShareGroup) else None
        return self.facts(), own

    def initialize(self, initialization: Initialization, **kwargs: Any) -> None:
        group = self.state.groups.get(GROUP)
        recorded = group.states.initialized if isinstance(group, ShareGroup) else {}
        times = {place: kept.times for place, kept in self.kept.items()}
        super().initialize(initialization, **kwargs)
        for (topic_id, index), kept in self.kept.items():
            if index in recorded.get(topic_id, ()):
                assert kept.times == times[topic_id, index], "the group consumes it already"


class ShareGroupHolds(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shard = CautiousShard()
        self.clients: list[ShareClient] = []
        self.deletions: list[PartitionSets] = []
        self.number = 0
        self.shard.create_topic("a", 2)

    def client(self, index: int) -> ShareClient:
        return self.clients[index % len(self.clients)]

    # Members

    @precondition(lambda self: len(self.clients) < 4)
    @rule(topics=SUBSCRIPTIONS)
    def join(self, topics: list[str]) -> None:
        self.number += 1
        self.clients.append(ShareClient(self.shard, f"m{self.number}", topics))
        self.clients[-1].heartbeat()

    @precondition(lambda self: self.clients)
    @rule(index=INDEX)
    def heartbeat(self, index: int) -> None:
        client = self.client(index)
        code = client.code()
        assert code in (ErrorCode.NONE, *_RESTART)
        if code is not ErrorCode.NONE:
            client.epoch = 0

    @precondition(lambda self: self.clients)
    @rule(index=INDEX, topics=SUBSCRIPTIONS)
    def subscribe(self, index: int, topics: list[str]) -> None:
        client = self.client(index)
        client.topics = topics
        if client.epoch and client.code(subscribed_topic_names=topics) is not ErrorCode.NONE:
            client.epoch = 0

    @precondition(lambda self: self.clients)
    @rule(index=INDEX)
    def leave(self, index: int) -> None:
        client = self.client(index)
        client.code(member_epoch=-1, subscribed_topic_names=None)
        self.clients.remove(client)

    @rule(ms=st.sampled_from([1_000, 31_000, SESSION_MS + 1]))
    def wait(self, ms: int) -> None:
        self.shard.pass_ms(ms)

    # The share coordinator

    @precondition(lambda self: self.shard.begun)
    @rule(index=INDEX, failing=st.sets(st.integers(0, 3)), stays=st.booleans())
    def initialize(self, index: int, failing: set[int], stays: bool) -> None:
        begun = self.shard.begun
        initialization = begun[index % len(begun)]
        if not stays:
            begun.remove(initialization)
        self.shard.initialize(initialization, fails=failing.__contains__)

    @rule()
    def delete_states(self) -> None:
        outcome = self.shard.write(lambda state, now_ms: delete_states(state, [GROUP])).get(GROUP)
        if outcome is not None and not isinstance(outcome, KafkaError):
            self.deletions.append(outcome)

    @precondition(lambda self: self.deletions)
    @rule(index=INDEX)
    def execute_deletion(self, index: int) -> None:
        self.shard.delete(self.deletions.pop(index % len(self.deletions)))

    # Topics and coordinators

    @precondition(lambda self: any(name not in self.shard.image.topics.by_name for name in TOPICS))
    @rule(partitions=st.integers(1, 3))
    def create_topic(self, partitions: int) -> None:
        name = next(name for name in TOPICS if name not in self.shard.image.topics.by_name)
        self.shard.create_topic(name, partitions)

    @precondition(lambda self: self.shard.image.topics.by_name)
    @rule(index=INDEX, grows=st.booleans())
    def change_topic(self, index: int, grows: bool) -> None:
        names = sorted(self.shard.image.topics.by_name)
        (self.shard.grow_topic if grows else self.shard.delete_topic)(names[index % len(names)])
        self.shard.pass_ms(0)

    @rule(compacts=st.booleans(), keeps_tombstones=st.booleans())
    def move_coordinator(self, compacts: bool, keeps_tombstones: bool) -> None:
        before = self.shard.facts()
        if compacts:
            self.shard.compact(keeps_tombstones=keeps_tombstones)
        self.shard.load()
        assert self.shard.facts() == before
        self.shard.pass_ms(0)

    # Invariants

    @invariant()
    def only_subscribed_partitions_with_a_state_are_assigned(self) -> None:
        group = self.shard.state.groups.get(GROUP)
        if not isinstance(group, ShareGroup) or not group.members:
            return
        topics = self.shard.image.topics.by_id
        existing = {topic_id: each for topic_id, each in group.states.initialized.items() if topic_id in topics}
        for member in group.members.values():
            assigned = {topic_id: each for topic_id, each in member.assigned.items() if topic_id in topics}
            assert is_within(assigned, existing)
            if member.member_epoch == group.epoch:
                assert {topics[topic_id].name for topic_id in assigned} <= set(member.topic_names)

    @invariant()
    def every_initialized_partition_has_a_state(self) -> None:
        group = self.shard.state.groups.get(GROUP)
        if isinstance(group, ShareGroup):
            for topic_id, indexes in group.states.initialized.items():
                assert all((topic_id, index) in self.shard.kept for index in indexes)

    def teardown(self) -> None:
        shard = self.shard
        shard.pass_ms(SESSION_MS + 1)
        for name in TOPICS:
            if name not in shard.image.topics.by_name:
                shard.create_topic(name, 2)
        clients = [ShareClient(shard, f"last{place}", ["a", "b"]) for place in range(3)]
        settle(shard, *clients)
        partitions = {name: set(topic.partitions) for name, topic in shard.image.topics.by_name.items()}
        for name, indexes in partitions.items():
            assert indexes == {index for client in clients for index in client.names().get(name, ())}
        assert all(client.names() for client in clients)


ShareGroupHolds.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestShareGroup = ShareGroupHolds.TestCase
