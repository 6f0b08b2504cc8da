"""The sequences of client quotas. They share the defaults of the server, so one runs at a time."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

import attrs

from broker.wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from broker.wire.api.describe_client_quotas import DescribeClientQuotasRequest
from broker.wire.errors import ErrorCode
from tests.differential.families.metadata_barrier import Changes, until_applied
from tests.differential.families.quotas.steps import (
    ANY,
    CLIENT_ID,
    DEFAULT,
    EXACT,
    IP,
    USER,
    AlterQuotas,
    DescribeCredentials,
    DescribeQuotas,
    Entity,
    changes_of,
)
from tests.differential.sequences import Call, Place, Step

_STEPS_MAX: Final = 10
_CLIENT_KEYS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
_IP_KEYS: Final = ("connection_creation_rate",)
_ODD_KEYS: Final = (*_CLIENT_KEYS, *_IP_KEYS, "", "odd", "SCRAM-SHA-256", "Producer_Byte_Rate")
# High enough that no default among them throttles the client of the sequences.
_VALUES: Final = (1e6, 2e6, 1e9, 2_000_000.0000005)
_SMALL_VALUES: Final = (1.0, 0.5, 1e-9, 1024.0)
_ODD_VALUES: Final = (
    0.0, -0.0, -1.0, 0.1, 1000.5, 1e6 + 2e-6, 2.0**31 - 1, 2.0**31, 2.0**53 + 2, 2.0**63 - 1024, 2.0**63, 2.0**64,
    1e300, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
_NAMES: Final = ("a", "b", "c")
_ADDRESSES: Final = ("10.1.2.3", "10.1.2.4", "::1", "0:0:0:0:0:0:0:1", "2001:DB8::7")
_ODD_ADDRESSES: Final = ("", "1.2.3", "256.0.0.1", "odd host", "10.0.0.0/8", "fe80::1%lo", "[::1]", "01.2.3.4", "127")


@attrs.define(eq=False)
class _State(Changes):
    is_clean: bool = False


class Quotas:
    name = "quotas"
    topics: Mapping[str, int] = {}
    passing: frozenset[ErrorCode] = frozenset()

    def generate(self, random: Random) -> Sequence[Step]:
        return _Generator(random).steps()

    def new_state(self) -> Any:
        return _State()

    async def prepare(self, call: Call) -> None:
        """Both servers can serve quotas once they serve anything."""

    async def settle(self, place: Place, call: Call) -> None:
        """Removes what earlier sequences have left, before the first step."""
        changes = changes_of(place)
        assert isinstance(changes, _State)
        if not changes.is_clean:
            changes.is_clean = True
            await _remove_all(place, call)
        if changes.is_pending:
            await until_applied(place, call, changes)


async def _remove_all(place: Place, call: Call) -> None:
    described = await call(DescribeClientQuotasRequest(), 1)
    entries = [
        EntryData(
            entity=[EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity],
            ops=[OpData(key=value.key, remove=True) for value in entry.values],
        )
        for entry in described.entries
    ]
    if entries:
        response = await call(AlterClientQuotasRequest(entries=entries), 1)
        assert not any(each.error_code for each in response.entries), response
        await until_applied(place, call, changes_of(place))


@attrs.define(eq=False)
class _Generator:
    """Makes the steps of one sequence. `_wrong` is how many of the choices are wrong in some way."""

    random: Random
    _wrong: float = attrs.field(init=False)
    # Sequences name few entities, to meet them again.
    _entities: Sequence[Entity] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._wrong = self.random.choice([0.0, 0.05, 0.05, 0.2])
        entities = [self._new_entity() for _ in range(self.random.randint(1, 4))]
        self._entities = list({tuple(sorted(dict(each).items(), key=repr)): each for each in entities}.values())

    def steps(self) -> list[Step]:
        steps: list[Step] = [self._alter()]
        for _ in range(self.random.randint(2, _STEPS_MAX)):
            steps.append(self.random.choice([self._alter, self._alter, self._describe, self._describe_any])())
        return [*steps, DescribeQuotas()]

    def _describe_any(self) -> Step:
        if self.random.random() < 0.15:
            users = self.random.choice([None, (), ("a",), ("a", "b"), ("a", "a"), ("",)])
            return DescribeCredentials(users=users)
        return self._describe()

    def _is_wrong(self) -> bool:
        return self.random.random() < self._wrong

    # Entities

    def _new_entity(self) -> Entity:
        random = self.random
        kinds = random.choice([(USER,), (USER,), (CLIENT_ID,), (USER, CLIENT_ID), (CLIENT_ID, USER), (IP,)])
        return tuple((kind, self._entity_name(kind)) for kind in kinds)

    def _entity_name(self, kind: str) -> str | None:
        if self.random.random() < 0.3:
            return None
        return self.random.choice(_ADDRESSES if kind == IP else _NAMES)

    def _entity(self, right: Entity) -> Entity:
        if not self._is_wrong():
            return right
        return self.random.choice(
            [
                (),
                ((USER, ""),),
                ((CLIENT_ID, ""),),
                ((IP, self.random.choice(_ODD_ADDRESSES)),),
                ((IP, "10.1.2.3"), (USER, "a")),
                ((USER, "a"), (USER, "b")),
                ((USER, "a"), (USER, "a")),
                (("odd", "a"),),
                (("", "a"),),
                (("User", "a"),),
                ((USER, "a"), ("odd", "a")),
                ((USER, "x" * 300),),
                ((USER, "a/b:c=ü"),),
            ]
        )

    # Steps

    def _alter(self) -> Step:
        random = self.random
        count = 0 if self._is_wrong() else min(random.choice([1, 1, 1, 2, 3]), len(self._entities))
        entries = [self._entry(each) for each in random.sample(self._entities, count)]
        if self._is_wrong() and entries:
            entries.append(random.choice([*entries, self._entry(entries[0][0])]))
        return AlterQuotas(version=random.choice([0, 1]), entries=tuple(entries), is_validation=random.random() < 0.15)

    def _entry(self, right: Entity) -> tuple[Entity, tuple[tuple[str, float | None], ...]]:
        random = self.random
        entity = self._entity(right)
        is_of_address = any(kind == IP for kind, _ in entity)
        keys = list(_IP_KEYS if is_of_address else random.sample(_CLIENT_KEYS, random.choice([1, 1, 2, 4])))
        if self._is_wrong():
            keys = random.choice([[], [random.choice(_ODD_KEYS)], [*keys, random.choice(_ODD_KEYS)], [*keys, keys[0]]])
        return entity, tuple((key, self._value(entity)) for key in keys)

    def _value(self, entity: Entity) -> float | None:
        if self.random.random() < 0.2:
            return None
        has_default = any(name is None for _, name in entity)
        if not self._is_wrong():
            return self.random.choice(_VALUES if has_default else (*_VALUES, *_SMALL_VALUES))
        return self.random.choice([each for each in _ODD_VALUES if not has_default or not 0 < each < 1e6])

    def _describe(self) -> Step:
        random = self.random
        kinds = random.choice([(), (USER,), (CLIENT_ID,), (USER, CLIENT_ID), (CLIENT_ID, USER), (IP,)])
        components = [self._component(kind) for kind in kinds]
        if self._is_wrong():
            odd = [("odd", ANY, None), ("", ANY, None), (USER, ANY, None), (IP, DEFAULT, None), ("User", EXACT, "a")]
            components.append(random.choice(odd))
        return DescribeQuotas(
            version=random.choice([0, 1]), components=tuple(components), is_strict=random.random() < 0.4
        )

    def _component(self, kind: str) -> tuple[str, int, str | None]:
        random = self.random
        if self._is_wrong():
            odd = [(EXACT, None), (EXACT, ""), (DEFAULT, "a"), (ANY, "a"), (3, None), (-1, "a"), (DEFAULT, "")]
            return kind, *random.choice(odd)
        match_type = random.choice([EXACT, EXACT, DEFAULT, ANY])
        if match_type != EXACT:
            return kind, match_type, None
        return kind, match_type, random.choice(_ADDRESSES if kind == IP else _NAMES)
