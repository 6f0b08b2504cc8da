"""The sequences of groups with classic members and members of the consumer protocol (KIP-848).

`group.consumer.migration.policy` is `bidirectional`: a classic group becomes a consumer group when a member of that
protocol joins it, and a consumer group becomes a classic one when the last of them leaves.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import attrs

from tests.differential.families.groups.administration_steps import DeleteGroups, ListGroups
from tests.differential.families.groups.choices import Choices
from tests.differential.families.groups.classic_steps import Heartbeat, Leave
from tests.differential.families.groups.consumer_steps import DescribeConsumerGroups
from tests.differential.families.groups.group_family import GroupFamily
from tests.differential.families.groups.members import Epoch, Who
from tests.differential.families.groups.mixed_steps import DescribeMixedGroups, MixedHeartbeat, MixedJoin, MixedSync
from tests.differential.families.groups.offset_steps import DeleteOffsets, FetchOffsets
from tests.differential.sequences import Step

_STEPS_MAX: Final = 12
# The numbers of members, by the protocol that they speak.
_CLASSIC: Final = (0, 1)
_CONSUMERS: Final = (2, 3)
_JOINS: Final = 0
_LEAVES: Final = -1
_LEAVES_FOR_A_WHILE: Final = -2


class MixedGroups(GroupFamily):
    name = "mixed-groups"

    def generate(self, random: Random) -> Sequence[Step]:
        return _Generator(random).steps()


@attrs.define(eq=False)
class _Generator(Choices):
    """Makes the steps of one sequence: an upgrade, a downgrade, or any mixture.

    Consumers choose the assignor "range": what it assigns depends on the order of member ids or instance ids alone.
    There is one classic member without an instance id at most, because the ids of two would have no fixed order.
    """

    _classic: Sequence[int] = attrs.field(init=False)
    _consumers: Sequence[int] = attrs.field(init=False)
    _instances: Sequence[str | None] = attrs.field(init=False)
    _versions: Sequence[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        random = self.random
        self._consumers = _CONSUMERS[: random.choice([1, 1, 2])]
        # The last ones are of static members that change their protocol, with the same instance ids.
        self._instances = random.choice([(None,) * 4, (None,) * 4, (None,) * 4, ("i", "j", "k", "l"), ("i", "j") * 2])
        self._classic = _CLASSIC[: 1 if None in self._instances else random.choice([1, 2])]
        self._versions = random.choice([(9,), (5, 6, 7, 8, 9), tuple(range(1, 10))])

    def steps(self) -> list[Step]:
        make: Callable[[], list[Step]] = self.random.choice([self._upgrade, self._upgrade, self._downgrade, list])
        steps = make()
        for _ in range(self.random.randint(2, _STEPS_MAX)):
            steps += self._next()
        return [
            *steps,
            DescribeConsumerGroups(),
            DescribeMixedGroups(version=6),
            FetchOffsets(member=0, version=9),
            ListGroups(version=5),
        ]

    # Parts of a migration

    def _upgrade(self) -> list[Step]:
        """A classic generation, after which consumers join."""
        return [*self._generation(), *(self._consumer_joins(each) for each in self._consumers)]

    def _downgrade(self) -> list[Step]:
        """Consumers, to which classic members come, and then the consumers leave."""
        steps: list[Step] = []
        for each in self._consumers:
            steps += [self._consumer_joins(each), self._acknowledge(each)]
        for each in self._classic:
            steps += self._cycle(each)
        steps += [self._acknowledge(each) for each in self._consumers if self.random.random() < 0.5]
        steps += [self._consumer_leaves(each) for each in self._consumers]
        return [*steps, *self._generation()]

    def _generation(self) -> list[Step]:
        """All classic members join, again with the ids that they got, and sync."""
        joins: list[Step] = [self._join(each) for each in self._classic]
        again: list[Step] = [self._join(each) for each in self._classic]
        return [*joins, *again, *(self._sync(each) for each in self._classic)]

    def _cycle(self, member: int) -> list[Step]:
        """The requests with which a classic member follows a rebalance of a consumer group."""
        again = [self._join(member)] if self.random.random() < 0.5 else []
        return [self._heartbeat(member), self._join(member), *again, self._sync(member)]

    def _next(self) -> list[Step]:
        classic, consumer = self.random.choice(self._classic), self.random.choice(self._consumers)
        make: Callable[[], list[Step]] = self.weighted(
            {
                lambda: self._cycle(classic): 4,
                self._generation: 0.7,
                lambda: [self._heartbeat(classic)]: 2,
                lambda: [self._join(classic)]: 1,
                lambda: [self._sync(classic)]: 0.5,
                lambda: [self._leave(classic)]: 1,
                lambda: [self._acknowledge(consumer) for _ in range(self.random.choice([1, 2]))]: 4,
                lambda: [self._consumer_joins(consumer)]: 2,
                lambda: [self._consumer_heartbeat(consumer)]: 1,
                lambda: [self._consumer_leaves(consumer)]: 1.5,
                lambda: [self.commit(classic, self.random.randrange(2, 11), self._instances[classic])]: 1,
                lambda: [self.commit(consumer, self.random.randrange(9, 11), self._instances[consumer])]: 1,
                lambda: [self.fetch_offsets(self.random.choice([classic, consumer]))]: 0.5,
                lambda: [self._of_anyone()]: 1,
            }
        )
        return make()

    # Classic members

    def _join(self, member: int) -> Step:
        topics = self.random.choice([("t",), ("t", "u"), ("t", "u"), ("u",)])
        protocols = tuple((name, topics) for name in self.weighted({("range",): 4, ("range", "other"): 1}))
        return MixedJoin(
            member=member,
            client=member + 1,
            version=self.random.choice(self._versions),
            who=self.unless_wrong(Who.OWN, [Who.NONE, Who.UNKNOWN, Who.OTHER]),
            instance=self.unless_wrong(self._instances[member], ["i", "k", None]),
            protocol_type=self.unless_wrong("consumer", ["connect", ""]),
            protocols=self.unless_wrong(protocols, [(), (("range", None),), (("other", ("t",)),)]),
            subscription_version=self.random.choice([0, 1, 1, 2, 3]),
            owns=self.unless_wrong(self.random.choice(["all", "all", "nothing"]), ["other"]),
            session_timeout_ms=self.unless_wrong(45_000, [5_999, 6_000]),
        )

    def _sync(self, member: int) -> Step:
        return MixedSync(
            member=member,
            client=member + 1,
            version=self.random.randrange(6),
            who=self.who(),
            instance=self.instance(self._instances[member]),
            epoch=self.epoch(),
            protocol=self.unless_wrong(None, [(None, None), ("consumer", "odd"), ("odd", "range")]),
        )

    def _heartbeat(self, member: int) -> Step:
        return Heartbeat(
            member=member,
            client=member + 1,
            version=self.random.randrange(5),
            who=self.who(),
            instance=self.instance(self._instances[member]),
            epoch=self.epoch(),
        )

    def _leave(self, member: int) -> Step:
        others = [(Who.OTHER, None), (Who.NONE, "i"), (Who.NONE, "k"), (Who.UNKNOWN, None), (Who.NONE, None)]
        return Leave(
            member=member,
            client=member + 1,
            version=self.random.randrange(6),
            who=self.who(),
            instance=self.instance(self._instances[member]),
            others=tuple(self.unless_wrong([], [self.random.sample(others, 1), self.random.sample(others, 2)])),
        )

    # Members of the consumer protocol

    def _consumer_joins(self, member: int) -> Step:
        return MixedHeartbeat(
            member=member,
            client=member + 1,
            who=self.unless_wrong(Who.OWN, [Who.OTHER]),
            instance=self.instance(self._instances[member]),
            epoch=_JOINS,
            topics=self.random.choice([("t",), ("t", "u"), ("t", "u"), ("u",)]),
            owns=self.unless_wrong("nothing", ["all", None]),
            assignor="range",
            rebalance_timeout_ms=60_000,
        )

    def _acknowledge(self, member: int) -> Step:
        return MixedHeartbeat(member=member, client=member + 1, owns="all", instance=self._instances[member])

    def _consumer_heartbeat(self, member: int) -> Step:
        changes_topics = self.random.random() < 0.5
        return MixedHeartbeat(
            member=member,
            client=member + 1,
            who=self.who(),
            instance=self.instance(self._instances[member]),
            epoch=self.unless_wrong(Epoch.OWN, [Epoch.NEXT, Epoch.LAST]),
            topics=self.random.choice([("t",), ("t", "u"), ("u",)]) if changes_topics else None,
            owns=self.random.choice([None, "all"]),
        )

    def _consumer_leaves(self, member: int) -> Step:
        is_static = self._instances[member] is not None
        epoch = _LEAVES_FOR_A_WHILE if is_static and self.random.random() < 0.5 else _LEAVES
        return MixedHeartbeat(
            member=member, client=member + 1, who=self.who(), instance=self._instances[member], epoch=epoch
        )

    def _of_anyone(self) -> Step:
        groups = self.random.choice([("g",), ("g", "never")])
        return self.random.choice(
            [
                DescribeConsumerGroups(version=self.random.choice([0, 1]), groups=groups),
                DescribeConsumerGroups(version=1, groups=groups),
                DescribeMixedGroups(version=self.random.choice([5, 6]), groups=groups),
                DeleteOffsets(partitions=self.partitions()),
                DeleteGroups(version=2, groups=groups),
                ListGroups(version=5, types=self.random.choice([(), ("classic",), ("consumer",)])),
            ]
        )
