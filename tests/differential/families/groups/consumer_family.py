"""The sequences of consumer groups (KIP-848)."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import attrs

from tests.differential.families.groups.administration_steps import DeleteGroups, DescribeGroups, ListGroups
from tests.differential.families.groups.choices import Choices
from tests.differential.families.groups.consumer_steps import ConsumerHeartbeat, DescribeConsumerGroups
from tests.differential.families.groups.group_family import GroupFamily
from tests.differential.families.groups.members import GROUP, Epoch
from tests.differential.families.groups.offset_steps import DeleteOffsets, FetchOffsets
from tests.differential.sequences import Step

_STEPS_MAX: Final = 20
_JOINS: Final = 0
_LEAVES: Final = -1
_LEAVES_FOR_A_WHILE: Final = -2


class ConsumerGroups(GroupFamily):
    name = "consumer-groups"

    def generate(self, random: Random) -> Sequence[Step]:
        return ConsumerGenerator(random).steps()


@attrs.define(eq=False)
class ConsumerGenerator(Choices):
    """Makes the steps of one sequence.

    Several members name their ids themselves, or have instance ids, and choose the assignor "range": what it assigns
    depends on the order of these alone.
    """

    _version: int = attrs.field(init=False)
    _is_alone: bool = attrs.field(init=False, default=False)
    _instances: Sequence[str | None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._version = self.random.choice([0, 1, 1])
        self._instances = self.random.choice(
            [(None, None, None), (None, None, None), ("i", "j", None), ("i", "i", "j")]
        )

    def steps(self) -> list[Step]:
        members = range(self.random.choice([1, 2, 2, 3]))
        self._is_alone = len(members) == 1
        if not self._is_alone and None in self._instances[: len(members)]:
            self._version = 1
        steps: list[Step] = [self._join(each) for each in members if self.random.random() < 0.8]
        for _ in range(self.random.randint(3, _STEPS_MAX)):
            steps += self._next(members)
        return [
            *steps,
            DescribeConsumerGroups(),
            DescribeGroups(version=6),
            FetchOffsets(member=0, version=9),
            ListGroups(version=5),
        ]

    def _next(self, members: Sequence[int]) -> list[Step]:
        member = self.random.choice(members)
        make: Callable[[int], list[Step]] = self.weighted(
            {
                self._reconciliation: 5,
                lambda number: [self._join(number)]: 2,
                lambda number: [self._heartbeat(number)]: 3,
                lambda number: [self._leave(number)]: 1,
                lambda number: [self.commit(number, self.random.randrange(2, 11), self._instances[number])]: 2,
                lambda number: [self.fetch_offsets(number)]: 1,
                lambda number: [self._of_anyone()]: 1.5,
            }
        )
        return make(member)

    def _reconciliation(self, member: int) -> list[Step]:
        """Heartbeats with which a member acknowledges its assignment."""
        return [self._acknowledge(member) for _ in range(self.random.choice([1, 2, 2, 3]))]

    # Steps

    def _join(self, member: int) -> Step:
        random = self.random
        # Kafka looks up the topics of a regular expression later, which changes the epochs that other members see.
        has_regex = self._is_alone and self._version and random.random() < 0.2
        regex = random.choice(["t", ".*", "(", ""]) if has_regex else None
        topics = random.choice([("t",), ("t",), ("t", "u"), ("u",), (), ("t", "absent")])
        return ConsumerHeartbeat(
            member=member,
            client=member + 1,
            version=self._version,
            who=self.who(),
            instance=self.instance(self._instances[member]),
            group=self.unless_wrong(GROUP, [""]),
            epoch=_JOINS,
            topics=topics if regex is None else None,
            regex=regex,
            owns=self.unless_wrong("nothing", ["all", None, "unknown"]),
            assignor=self.unless_wrong(
                random.choice([None, "uniform", "range"]) if self._is_alone else "range", ["odd", ""]
            ),
            rack=self.unless_wrong(None, ["r", ""]),
            rebalance_timeout_ms=self.unless_wrong(60_000, [-1, 0, 300_000]),
        )

    def _acknowledge(self, member: int) -> Step:
        return ConsumerHeartbeat(
            member=member, client=member + 1, version=self._version, owns="all", instance=self._instances[member]
        )

    def _heartbeat(self, member: int) -> Step:
        random = self.random
        changes_topics = random.random() < 0.4
        return ConsumerHeartbeat(
            member=member,
            client=member + 1,
            version=self._version,
            who=self.who(),
            instance=self.instance(self._instances[member]),
            group=self.group(),
            epoch=self.unless_wrong(Epoch.OWN, [Epoch.NEXT, Epoch.LAST, -3]),
            topics=random.choice([("t",), ("t", "u"), ("u",), ()]) if changes_topics else None,
            owns=random.choice([None, None, "all", self.unless_wrong("all", ["nothing", "unknown"])]),
            assignor=self.unless_wrong(None, ["range", "odd"]),
            rebalance_timeout_ms=self.unless_wrong(-1, [10_000]),
        )

    def _leave(self, member: int) -> Step:
        instance = self._instances[member]
        return ConsumerHeartbeat(
            member=member,
            client=member + 1,
            version=self._version,
            who=self.who(),
            instance=self.instance(instance),
            group=self.group(),
            epoch=self.unless_wrong(
                _LEAVES if instance is None or self.random.random() < 0.5 else _LEAVES_FOR_A_WHILE,
                [_LEAVES, _LEAVES_FOR_A_WHILE],
            ),
        )

    def _of_anyone(self) -> Step:
        random = self.random
        groups = random.choice([("g",), ("g",), ("g", "never"), ("",), ()])
        return random.choice(
            [
                DescribeConsumerGroups(version=random.choice([0, 1]), groups=groups),
                DescribeConsumerGroups(version=random.choice([0, 1]), groups=groups),
                DescribeGroups(version=random.choice([5, 6]), groups=groups),
                DeleteOffsets(partitions=self.partitions(), group=self.group()),
                DeleteGroups(version=2, groups=groups),
                ListGroups(
                    version=5,
                    states=random.choice([(), ("Stable",), ("Reconciling",), ("assigning", "Empty")]),
                    types=random.choice([(), ("classic",), ("consumer",)]),
                ),
            ]
        )
