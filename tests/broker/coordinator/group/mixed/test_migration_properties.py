"""Random runs of groups with members of both protocols: members join, leave, fall silent and return with the other
protocol, responses are lost, and coordinators change. So groups change their type repeatedly.

The invariants:

- no two members that the coordinator has not removed own the same partition;
- a group with members never returns to an earlier epoch or generation;
- a new coordinator replays the state of the former one from the log, also after the log was compacted;
- a decision by itself changes nothing;
- finally, every partition has an owner, and the partitions are spread evenly if the coordinator assigns them.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from broker.coordinator.group.config import ConsumerGroupConfig, GroupConfig
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup, ConsumerGroupState
from tests.support import classic_clients, consumer_clients
from tests.support.classic_consumers import ClassicConsumer
from tests.support.consumer_clients import (
    GROUP,
    NOT_LEFT,
    REBALANCE_MS,
    REFUSED_FOR_GOOD,
    ConsumerClient,
    ConsumerGroups,
    refused,
)

MEMBERS_MAX = 4
SIZES = {"a": 3, "b": 2}
TOPICS = st.sampled_from([["a"], ["a", "b"], ["b"]])
INSTANCES = st.sampled_from([None, None, None, "i", "j"])
INDEX = st.integers(0, 7)
# A member of each protocol may have to expire, one after the other.
QUIET_S = 80
TIMES = st.sampled_from([100, 5_000, REBALANCE_MS, 45_000])

Anyone = ClassicConsumer | ConsumerClient


class CautiousGroups(ConsumerGroups):
    """Makes every decision twice; the first one must not change the state. Also checks that epochs do not decrease."""

    reached = 0

    def write(self, decide: Any, producer_id: int = -1) -> Any:
        before, log, due = self.facts(), len(self.log), dict(self.timers.due)
        try:
            decide(self.state, self.now_ms)
        finally:
            assert (self.facts(), len(self.log), self.timers.due) == (before, log, due)
        return super().write(decide, producer_id)

    def facts(self) -> object:
        group = self.state.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            return (consumer_clients.facts(group), group.refresh_at_ms)
        return classic_clients.facts(group) if isinstance(group, ClassicGroup) else None

    def _carry_out(self, decision: Any, producer_id: int = -1) -> Any:
        response = super()._carry_out(decision, producer_id)
        reached = self.number()
        assert reached is None or reached >= self.reached, "it goes back"
        self.reached = reached or 0
        return response

    def number(self) -> int | None:
        """The epoch or generation; None without a group that has members."""
        group = self.state.groups.get(GROUP)
        if group is None or group.is_empty:
            return None
        return group.epoch if isinstance(group, ConsumerGroup) else group.generation  # type: ignore[attr-defined,no-any-return]


class MigrationHolds(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.members: list[Anyone] = []
        self.made = 0
        self.wishes: dict[str, list[str]] = {}

    @initialize(
        is_cooperative=st.booleans(),
        can_upgrade=st.sampled_from([True, True, True, False]),
        can_downgrade=st.sampled_from([True, True, True, False]),
    )
    def begin(self, is_cooperative: bool, can_upgrade: bool, can_downgrade: bool) -> None:
        consumer = ConsumerGroupConfig(members_max=MEMBERS_MAX, can_upgrade=can_upgrade, can_downgrade=can_downgrade)
        config = GroupConfig(consumer=consumer, group_max_size=MEMBERS_MAX, initial_rebalance_delay_ms=100)
        self.shard = CautiousGroups(config)
        self.is_cooperative = is_cooperative
        for topic, partitions in SIZES.items():
            self.shard.create_topic(topic, partitions)

    def member(self, index: int) -> Anyone:
        return self.members[index % len(self.members)]

    def act(self, member: Anyone, *, is_lost: bool = False) -> None:
        if isinstance(member, ClassicConsumer):
            if is_lost and (member.joining is not None or member.syncing is not None):
                member.join()  # the response that it waits for never arrives
            else:
                member.act()
            if member.is_dead:
                self.members.remove(member)
            return
        refusal = refused(lambda: member.heartbeat(is_lost=is_lost))
        if refusal is not None:
            assert refusal in REFUSED_FOR_GOOD
            self.members.remove(member)

    @rule(topics=TOPICS, instance=INSTANCES, is_classic=st.booleans(), acts=st.integers(1, 4))
    def join(self, topics: list[str], instance: str | None, is_classic: bool, acts: int) -> None:
        self.made += 1
        if instance is not None:
            # In a classic group, it gets its former assignment without a rebalance, even if its subscription differs.
            topics = self.wishes.setdefault(instance, topics)
        member: Anyone = (
            ClassicConsumer(
                self.shard,
                topics,
                instance_id=instance,
                is_cooperative=self.is_cooperative,
                version=3 if self.is_cooperative else self.made % 4,
                name=f"c{self.made}",
            )
            if is_classic
            else ConsumerClient(self.shard, f"m{self.made}", topics, None, instance)
        )
        self.members.append(member)
        for _ in range(acts):
            if member in self.members:
                self.act(member)

    @precondition(lambda self: self.members)
    @rule(beats=st.lists(st.tuples(INDEX, st.booleans()), min_size=1, max_size=12))
    def schedule_next(self, beats: list[tuple[int, bool]]) -> None:
        for index, is_lost in beats:
            if self.members:
                self.act(self.member(index), is_lost=is_lost)
                self.assert_no_shared_partitions()

    @precondition(lambda self: self.members)
    @rule(index=INDEX, topics=TOPICS)
    def subscribe(self, index: int, topics: list[str]) -> None:
        member = self.member(index)
        if member.instance_id is not None and member not in self._known():
            return
        member.subscribe(topics)
        if member.instance_id is not None:
            # The subscription is sent at once, because a member that takes its place would not send it.
            self.wishes[member.instance_id] = topics
            for _ in range(4):
                if member in self.members:
                    self.act(member)

    @precondition(lambda self: self.members)
    @rule(index=INDEX)
    def die(self, index: int) -> None:
        self.members.remove(self.member(index))

    @precondition(lambda self: self.members)
    @rule(index=INDEX, for_a_while=st.booleans(), coordinator_dies=st.booleans())
    def leave(self, index: int, for_a_while: bool, coordinator_dies: bool) -> None:
        member = self.member(index)
        self.members.remove(member)
        if isinstance(member, ClassicConsumer):
            member.leave()
        else:
            assert refused(lambda: member.leave(-2 if for_a_while and member.instance_id else -1)) in NOT_LEFT
        if coordinator_dies:
            self.change_coordinator()

    @rule(elapsed_ms=TIMES)
    def pass_time(self, elapsed_ms: int) -> None:
        self.shard.pass_ms(elapsed_ms)

    @rule()
    def change_coordinator(self) -> None:
        before = self.shard.facts() if isinstance(self.shard.state.groups.get(GROUP), ConsumerGroup) else None
        for member in self.members:
            if isinstance(member, ClassicConsumer):
                member.lose_coordinator()
        self.shard.load()
        self.shard.reached = self.shard.number() or 0
        if before is not None:
            group = self.shard.state.groups[GROUP]
            assert isinstance(group, ConsumerGroup)
            assert consumer_clients.facts(group) == before[0]  # type: ignore[index]

    @rule(keeps_tombstones=st.booleans())
    def clean_the_log(self, keeps_tombstones: bool) -> None:
        self.shard.compact(keeps_tombstones=keeps_tombstones)

    @rule()
    def be_quiet(self) -> None:
        """Let members that are gone expire, while all others send heartbeats and get partitions."""
        quiet = 0
        for _ in range(4 * QUIET_S):
            before = [member.names() for member in self.members]
            for member in list(self.members):
                self.act(member)
                self.assert_no_shared_partitions()
            self.shard.pass_ms(1_000)
            is_settled = all(not isinstance(member, ClassicConsumer) or member.is_settled for member in self.members)
            quiet = quiet + 1 if is_settled and before == [member.names() for member in self.members] else 0
            if quiet > QUIET_S:
                break
        assert quiet > QUIET_S, "it does not come to rest"
        self._is_whole()

    def _is_whole(self) -> None:
        group = self.shard.state.groups.get(GROUP)
        members = [member for member in self.members if member in self._known()]
        wanted = sorted((name, index) for name in SIZES for index in range(SIZES[name]) if self._is_wanted(name))
        owned = [(name, index) for member in members for name, indexes in member.names().items() for index in indexes]
        assert sorted(owned) == wanted, [member.names() for member in self.members]
        if isinstance(group, ClassicGroup):
            assert group.state is (GroupState.STABLE if members else GroupState.EMPTY)
        elif isinstance(group, ConsumerGroup) and members:
            assert group.state is ConsumerGroupState.STABLE
            if len({tuple(member.topics) for member in members}) == 1:
                counts = [sum(map(len, member.names().values())) for member in members]
                assert max(counts) - min(counts) <= 1

    def _is_wanted(self, topic: str) -> bool:
        return any(topic in member.topics for member in self._known())

    def _known(self) -> list[Anyone]:
        """The members according to the coordinator.

        A static member of a classic group may be in a generation that it learns of only with its next heartbeat.
        """
        group = self.shard.state.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup | ClassicGroup):
            return []
        known = [member for member in self.members if member.member_id in group.members]
        return [member for member in known if not self._is_behind(group, member)]

    def _is_behind(self, group: ConsumerGroup | ClassicGroup, member: Anyone) -> bool:
        if not isinstance(member, ClassicConsumer) or member.instance_id is None:
            return False
        reached = group.generation if isinstance(group, ClassicGroup) else group.members[member.member_id].member_epoch
        return member.generation < reached

    @invariant()
    def assert_no_shared_partitions(self) -> None:
        if not hasattr(self, "shard"):
            return
        owned = [
            (name, index)
            for member in self._known()
            for name, indexes in member.names().items()
            for index in sorted(indexes)
        ]
        assert len(owned) == len(set(owned)), [(member.member_id, member.names()) for member in self._known()]

    @invariant()
    def owners_are_who_the_records_say(self) -> None:
        group = self.shard.state.groups.get(GROUP) if hasattr(self, "shard") else None
        if isinstance(group, ConsumerGroup):
            for member in group.members.values():
                assert member.member_epoch <= group.epoch
                for sets in (member.assigned, member.pending_revocation):
                    for topic_id, partitions in sets.items():
                        assert {group.owner_of(topic_id, index) for index in partitions} == {member.member_id}


MigrationHolds.TestCase.settings = settings(max_examples=300, stateful_step_count=30)
TestMigrationHolds = MigrationHolds.TestCase
