"""The sequences of classic groups: mostly what members do, with some of what they should not do."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import attrs

from tests.differential.families.groups.administration_steps import DeleteGroups, DescribeGroups, ListGroups
from tests.differential.families.groups.choices import Choices
from tests.differential.families.groups.classic_steps import Heartbeat, Join, Leave, Sync
from tests.differential.families.groups.group_family import GroupFamily
from tests.differential.families.groups.members import Who
from tests.differential.families.groups.offset_steps import DeleteOffsets, FetchOffsets
from tests.differential.sequences import Step

_STEPS_MAX: Final = 14
_WITHIN_S: Final = 60
_PAUSE_S: Final = 0.005
_GROUP_KEY: Final = 0


class ClassicGroups(GroupFamily):
    name = "classic-groups"

    def generate(self, random: Random) -> Sequence[Step]:
        return ClassicGenerator(random).steps()


@attrs.define(eq=False)
class ClassicGenerator(Choices):
    """Makes the steps of one sequence. Its members speak the versions of old clients, of new ones, or any."""

    _join_versions: Sequence[int] = attrs.field(init=False)
    _instances: Sequence[str | None] = attrs.field(init=False)
    _protocol_type: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        random = self.random
        self._join_versions = random.choice([(0, 1, 2, 3), (4, 5), (5, 6, 7, 8, 9), (9,), tuple(range(10))])
        self._instances = random.choice([(None, None, None), (None, None, None), ("i", "j", None), ("i", "i", "j")])
        self._protocol_type = random.choice(["consumer", "consumer", "consumer", "connect"])

    def steps(self) -> list[Step]:
        members = range(self.random.choice([1, 2, 2, 3]))
        steps: list[Step] = []
        for _ in range(self.random.randint(3, _STEPS_MAX)):
            steps += self._next(members)
        return [
            *steps,
            *(FetchOffsets(member=0, version=version) for version in (5, 9)),
            DescribeGroups(version=6),
            ListGroups(version=5),
        ]

    def _next(self, members: Sequence[int]) -> list[Step]:
        make: Callable[[Sequence[int]], list[Step]] = self.weighted(
            {self._generation: 2, self._of_member: 6, self._of_anyone: 2}
        )
        return make(members)

    def _generation(self, members: Sequence[int]) -> list[Step]:
        """All members join and sync, each in a random order; new ones join again with the id that they got."""
        random = self.random
        joins: list[Step] = [self._join(each) for each in members]
        random.shuffle(joins)
        again = [step for step in joins if random.random() < 0.8]
        syncs: list[Step] = [self._sync(each) for each in members]
        random.shuffle(syncs)
        return [*joins, *again, *syncs]

    def _of_member(self, members: Sequence[int]) -> list[Step]:
        make: Callable[[int], Step] = self.weighted(
            {self._join: 3, self._sync: 2, self._heartbeat: 3, self._leave: 1, self._commit: 3, self._fetch_offsets: 1}
        )
        return [make(self.random.choice(members))]

    def _of_anyone(self, members: Sequence[int]) -> list[Step]:
        random = self.random
        groups = random.choice([("g",), ("g",), ("g", "never"), ("",), ()])
        return [
            random.choice(
                [
                    DeleteOffsets(partitions=self.partitions(), group=self.group()),
                    DeleteGroups(version=random.choice([0, 1, 2]), groups=groups),
                    DescribeGroups(version=random.randrange(7), groups=groups),
                    ListGroups(
                        version=random.choice([0, 3, 4, 5]),
                        states=(),
                    ),
                    ListGroups(
                        version=5,
                        states=random.choice([("Stable",), ("empty", "Dead"), ("PreparingRebalance",), ("Odd",)]),
                        types=random.choice([(), ("classic",), ("Consumer",), ("odd",)]),
                    ),
                ]
            )
        ]

    # Steps

    def _join(self, member: int) -> Step:
        # All members prefer "range": between protocols with equal votes, Kafka chooses by hashes of their names.
        names = self.weighted({("range",): 4, ("range", "other"): 4, ("other",): 0.5})
        topics = self.random.choice([("t",), ("t",), ("t", "u"), ("u",), (), None])
        protocols = tuple((name, topics) for name in names)
        return Join(
            member=member,
            client=member + 1,
            version=self.random.choice(self._join_versions),
            who=self.unless_wrong(Who.OWN, [Who.NONE, Who.NONE, Who.UNKNOWN, Who.OTHER]),
            instance=self.unless_wrong(self._instances[member], ["i", "j", None, ""]),
            group=self.group(),
            protocol_type=self.unless_wrong(self._protocol_type, ["", "other", "consumer"]),
            protocols=self.unless_wrong(protocols, [(), (("", ("t",)),), (("odd", None),)]),
            session_timeout_ms=self.unless_wrong(45_000, [0, -1, 5_999, 6_000, 1_800_000, 1_800_001]),
            rebalance_timeout_ms=self.unless_wrong(60_000, [60_001, 300_000]),
        )

    def _sync(self, member: int) -> Step:
        return Sync(
            member=member,
            client=member + 1,
            version=self.random.randrange(6),
            who=self.who(),
            instance=self.instance(self._instances[member]),
            group=self.group(),
            epoch=self.epoch(),
            assigns_all=self.unless_wrong(True, [False]),
            protocol=self.unless_wrong(None, [(None, None), ("consumer", "odd"), ("odd", "range"), ("", "")]),
        )

    def _heartbeat(self, member: int) -> Step:
        return Heartbeat(
            member=member,
            client=member + 1,
            version=self.random.randrange(5),
            who=self.who(),
            instance=self.instance(self._instances[member]),
            group=self.group(),
            epoch=self.epoch(),
        )

    def _leave(self, member: int) -> Step:
        random = self.random
        others = [(Who.OTHER, None), (Who.NONE, "i"), (Who.NONE, "j"), (Who.UNKNOWN, None), (Who.NONE, None)]
        return Leave(
            member=member,
            client=member + 1,
            version=random.randrange(6),
            who=self.who(),
            instance=self.instance(self._instances[member]),
            group=self.group(),
            others=tuple(self.unless_wrong([], [random.sample(others, 1), random.sample(others, 2)])),
        )

    def _commit(self, member: int) -> Step:
        return self.commit(member, self.random.randrange(2, 11), self._instances[member])

    def _fetch_offsets(self, member: int) -> Step:
        return self.fetch_offsets(member)
