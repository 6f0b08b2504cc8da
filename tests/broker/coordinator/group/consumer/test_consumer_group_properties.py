"""Random runs of consumer groups: members join, leave, fall silent and return, responses are lost, topics and
coordinators change.

The invariants:

- no two members that the coordinator has not removed own the same partition;
- the coordinator's owners agree with the records of the members, and each partition has at most one owner;
- a new coordinator replays the state of the former one from the log, also after the log was compacted;
- a decision by itself changes nothing;
- finally, all partitions of subscribed topics are assigned, evenly.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.coordinator.group.config import ConsumerGroupConfig, GroupConfig
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup, ConsumerGroupState
from broker.coordinator.group.partition_sets import count, intersection, union
from tests.support.consumer_clients import (
    GROUP,
    NOT_LEFT,
    REBALANCE_MS,
    REFUSED_FOR_GOOD,
    ConsumerClient,
    ConsumerGroups,
    facts,
    refused,
    settle,
)

SESSION_MS = 45_000
MEMBERS_MAX = 4
TOPICS = ["a", "b", "ab"]
SUBSCRIPTIONS = st.sampled_from(
    [(["a"], None), (["a", "b"], None), (["a", "ab", "gone"], None), ([], "a.*"), (["b"], "a|b")]
)
INDEX = st.integers(0, 7)


class CautiousGroups(ConsumerGroups):
    """Makes every decision twice; the first one must not change the state."""

    def write(self, decide: Any, producer_id: int = -1) -> Any:
        before, log, due = self._facts(), len(self.log), dict(self.timers.due)
        try:
            decide(self.state, self.now_ms)
        finally:
            assert (self._facts(), len(self.log), self.timers.due) == (before, log, due)
        return super().write(decide, producer_id)

    def _facts(self) -> object:
        group = self.state.groups.get(GROUP)
        return (facts(group), group.refresh_at_ms) if isinstance(group, ConsumerGroup) else None


class ConsumerGroupsHold(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        config = GroupConfig(consumer=ConsumerGroupConfig(members_max=MEMBERS_MAX))
        self.shard = CautiousGroups(config)
        self.shard.create_topic("a", 3)
        self.shard.create_topic("b", 2)
        self.clients: list[ConsumerClient] = []
        self.made = 0

    def client(self, index: int) -> ConsumerClient:
        return self.clients[index % len(self.clients)]

    def beat(self, client: ConsumerClient, *, is_lost: bool = False) -> None:
        refusal = refused(lambda: client.heartbeat(is_lost=is_lost))
        if refusal is not None:
            assert refusal in REFUSED_FOR_GOOD
            self.clients.remove(client)

    @rule(
        subscription=SUBSCRIPTIONS,
        instance=st.sampled_from([None, None, "i", "j"]),
        assignor=st.sampled_from([None, "range"]),
    )
    def join(self, subscription: tuple[list[str], str | None], instance: str | None, assignor: str | None) -> None:
        self.made += 1
        client = ConsumerClient(self.shard, f"m{self.made}", *subscription, instance, assignor)
        self.clients.append(client)
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(beats=st.lists(st.tuples(INDEX, st.booleans()), min_size=1, max_size=10))
    def heartbeats(self, beats: list[tuple[int, bool]]) -> None:
        for index, is_lost in beats:
            if self.clients:
                self.beat(self.client(index), is_lost=is_lost)
                self.assert_no_shared_partitions()

    @precondition(lambda self: self.clients)
    @rule(index=INDEX, subscription=SUBSCRIPTIONS)
    def subscribe(self, index: int, subscription: tuple[list[str], str | None]) -> None:
        self.client(index).subscribe(*subscription)

    @precondition(lambda self: self.clients)
    @rule(index=INDEX, for_a_while=st.booleans())
    def leave(self, index: int, for_a_while: bool) -> None:
        client = self.client(index)
        self.clients.remove(client)
        assert refused(lambda: client.leave(-2 if for_a_while and client.instance_id else -1)) in NOT_LEFT

    @rule(elapsed_ms=st.sampled_from([100, 11_000, REBALANCE_MS, SESSION_MS]))
    def pass_time(self, elapsed_ms: int) -> None:
        self.shard.pass_ms(elapsed_ms)

    @rule(topic=st.sampled_from(TOPICS), growth=st.sampled_from(["create", "grow", "delete"]))
    def change_topics(self, topic: str, growth: str) -> None:
        exists = topic in self.shard.image.topics.by_name
        if growth == "create" and not exists:
            self.shard.create_topic(topic, 2)
        elif growth == "grow" and exists:
            self.shard.grow_topic(topic)
        elif growth == "delete" and exists:
            self.shard.delete_topic(topic)

    @rule()
    def change_coordinator(self) -> None:
        group = self.shard.state.groups.get(GROUP)
        before = facts(group) if isinstance(group, ConsumerGroup) else None
        self.shard.load()
        group = self.shard.state.groups.get(GROUP)
        assert before == (facts(group) if isinstance(group, ConsumerGroup) else None)

    @rule(keeps_tombstones=st.booleans())
    def clean_the_log(self, keeps_tombstones: bool) -> None:
        self.shard.compact(keeps_tombstones=keeps_tombstones)

    @rule()
    def be_quiet(self) -> None:
        """Let members that are gone expire, while all others send heartbeats."""
        for _ in range(4):
            self.shard.pass_ms(15_000)
            for client in list(self.clients):
                self.beat(client)
        settle(self.clients)
        if self.clients:
            assert self.shard.group.state is ConsumerGroupState.STABLE
            assert self._is_complete()

    def _is_complete(self) -> bool:
        """True if a subscriber of the topic owns each partition of every subscribed topic."""
        image, group = self.shard.image, self.shard.group
        wanted = {name for name in image.topics.by_name if group.is_subscribed_to(name)}
        owned = [
            (image.topics.by_id[topic_id].name, index)
            for client in self.clients
            for topic_id, partitions in client.owned.items()
            for index in partitions
        ]
        return sorted(owned) == sorted(
            (name, index) for name in wanted for index in range(len(image.topics.by_name[name].partitions))
        )

    @invariant()
    def assert_no_shared_partitions(self) -> None:
        group = self.shard.state.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            known = [client for client in self.clients if client.member_id in group.members]
            for place, client in enumerate(known):
                for other in known[place + 1 :]:
                    assert not count(intersection(client.owned, other.owned)), (client.names(), other.names())

    @invariant()
    def owners_are_who_the_records_say(self) -> None:
        group = self.shard.state.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            for member in group.members.values():
                assert member.member_epoch <= group.epoch
                owned = union(member.assigned, member.pending_revocation)
                assert {topic_id: frozenset(epochs) for topic_id, epochs in member.assignment_epochs.items()} == owned
                for sets in (member.assigned, member.pending_revocation):
                    for topic_id, partitions in sets.items():
                        assert max(member.assignment_epochs[topic_id].values()) <= max(member.member_epoch, 0)
                        assert {group.owner_of(topic_id, index) for index in partitions} == {member.member_id}


ConsumerGroupsHold.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestConsumerGroupsHold = ConsumerGroupsHold.TestCase
