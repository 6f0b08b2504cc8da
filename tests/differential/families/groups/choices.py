"""Random choices that both families of groups make."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

import attrs

from tests.differential.families.groups.members import ABSENT, GROUP, Epoch, Who
from tests.differential.families.groups.offset_steps import ALL, Commit, FetchOffsets, Partitions
from tests.differential.sequences import Step

T = TypeVar("T")


@attrs.define(eq=False)
class Choices:
    """`wrong` is how many of the requests are wrong in some way."""

    random: Random
    wrong: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.wrong = self.random.choice([0.0, 0.05, 0.05, 0.2])

    def weighted(self, choices: Mapping[T, float]) -> T:
        return self.random.choices(list(choices), list(choices.values()))[0]

    def unless_wrong(self, right: T, wrong: Sequence[T]) -> T:
        return self.random.choice(wrong) if self.random.random() < self.wrong else right

    def who(self) -> Who:
        return self.unless_wrong(Who.OWN, [Who.NONE, Who.UNKNOWN, Who.OTHER])

    def epoch(self) -> Epoch:
        return self.unless_wrong(Epoch.OWN, [Epoch.NEXT, Epoch.LAST, Epoch.ZERO, Epoch.NONE])

    def instance(self, own: str | None) -> str | None:
        return self.unless_wrong(own, ["i", "j", None])

    def group(self) -> str:
        return self.unless_wrong(GROUP, ["", "never"])

    def partitions(self) -> Partitions:
        chosen = self.random.sample(ALL, self.random.choice([1, 1, 2, 3]))
        return tuple(self.unless_wrong(chosen, [[*chosen, (ABSENT, 0)], [*chosen, ("t", 7)], [("t", -1)], []]))

    def commit(self, member: int, version: int, instance: str | None) -> Step:
        is_of_anyone = self.random.random() < 0.2
        return Commit(
            member=member,
            client=member + 1,
            version=version,
            who=Who.NONE if is_of_anyone else self.who(),
            epoch=Epoch.NONE if is_of_anyone else self.epoch(),
            instance=None if is_of_anyone else self.instance(instance),
            # The empty group id would belong to several sequences.
            group=self.unless_wrong(GROUP, ["never"]),
            offset=self.unless_wrong(self.random.randrange(50), [-1, -2, 2**63 - 1]),
            partitions=self.partitions(),
            metadata=self.unless_wrong("m", [None, "", "x" * 5_000]),
        )

    def fetch_offsets(self, member: int) -> Step:
        is_member = self.random.random() < 0.3
        return FetchOffsets(
            member=member,
            client=member + 1,
            version=self.random.randrange(1, 11),
            who=self.who() if is_member else Who.NONE,
            epoch=self.epoch() if is_member else Epoch.NONE,
            group=self.group(),
            partitions=self.random.choice([None, self.partitions()]),
            require_stable=self.random.random() < 0.3,
        )
