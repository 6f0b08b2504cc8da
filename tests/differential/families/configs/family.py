"""The sequences of topics and configs. Those of brokers' configs run one at a time."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar

import attrs

from broker.wire.api.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from broker.wire.errors import ErrorCode
from tests.differential.families.configs.config_steps import (
    APPEND,
    BROKER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    LOGGER,
    SET,
    SUBTRACT,
    TOPIC,
    AlterAll,
    AlterIncrementally,
    DescribeConfigs,
    ListResources,
    Resource,
)
from tests.differential.families.configs.topic_steps import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribeTopicPartitions,
    Metadata,
    State,
    Topic,
    state_of,
)
from tests.differential.families.configs.values import LISTS, ODD_KEYS, VALUES, Values
from tests.differential.families.metadata_barrier import until_applied
from tests.differential.sequences import Call, Place, Step

T = TypeVar("T")

_STEPS_MAX: Final = 12
# The topic that each sequence begins with, and those that it creates. The last two collide.
_THERE: Final = "t"
_TOPICS: Final = (_THERE, "a", "b", "c.d", "c_d")
_WRONG_TOPICS: Final = ("", "=.", "=..", "has space", "ü", "x" * 250, "=__cluster_metadata", "a/b")
_UNKNOWN_TYPES: Final = (0, 1, 3, 64, 127, -1)
_BROKER_NAMES: Final = ("", "1", "1")
_WRONG_BROKERS: Final = ("2", "-1", "odd", "01", " 1", "2147483648", "+1")
_NODE: Final = 1
_PARTITIONS_MAX: Final = 10_000
_WRONG_COUNTS: Final = (0, -2, 10_001, 2**31 - 1, -(2**31))
_WRONG_FACTORS: Final = (0, -2, 2, 32_767)


class Configs:
    name = "configs"
    topics: Mapping[str, int] = {_THERE: 2}
    passing: frozenset[ErrorCode] = frozenset()
    _has_brokers = False

    def generate(self, random: Random) -> Sequence[Step]:
        return _Generator(random, self._has_brokers).steps()

    def new_state(self) -> Any:
        return State()

    async def prepare(self, call: Call) -> None:
        """Both servers can change metadata once they serve anything."""

    async def settle(self, place: Place, call: Call) -> None:
        state = state_of(place)
        if self._has_brokers and not state.is_clean:
            await _reset_brokers(call)
            state.is_clean = state.is_pending = True
        if state.is_pending:
            await until_applied(place, call, state)


class BrokerConfigs(Configs):
    name = "broker-configs"
    topics: Mapping[str, int] = {_THERE: 1}
    _has_brokers = True


async def _reset_brokers(call: Call) -> None:
    """Removes what earlier sequences have left. One config of all brokers is always set (KIP-966)."""
    kept = [AlterableConfig(name="min.insync.replicas", value="1")]
    resources = [
        AlterConfigsResource(resource_type=BROKER, resource_name="", configs=kept),
        AlterConfigsResource(resource_type=BROKER, resource_name="1"),
    ]
    response = await call(AlterConfigsRequest(resources=resources), 2)
    assert not any(each.error_code for each in response.responses), response


@attrs.define(eq=False)
class _Generator:
    """Makes the steps of one sequence. `_wrong` is how many of the choices are wrong in some way."""

    random: Random
    _has_brokers: bool
    _wrong: float = attrs.field(init=False)
    _types: Sequence[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        random = self.random
        self._wrong = random.choice([0.0, 0.05, 0.05, 0.2])
        others = [TOPIC, TOPIC, TOPIC, GROUP, CLIENT_METRICS]
        self._types = [BROKER, BROKER, BROKER, TOPIC, GROUP] if self._has_brokers else others

    def steps(self) -> list[Step]:
        steps = [self._step() for _ in range(self.random.randint(3, _STEPS_MAX))]
        return [*steps, *self._closing_steps()]

    def _closing_steps(self) -> list[Step]:
        described: list[tuple[int, str, None]] = [(TOPIC, name, None) for name in _TOPICS[:3]]
        described += [(GROUP, "g", None), (CLIENT_METRICS, "m", None)]
        if self._has_brokers:
            described = [(TOPIC, _THERE, None), (GROUP, "g", None), (BROKER, "", None), (BROKER, "1", None)]
        return [
            DescribeConfigs(resources=tuple(described)),
            Metadata(),
            ListResources(),
            DeleteTopics(topics=tuple((name, None) for name in _TOPICS)),
        ]

    def _step(self) -> Step:
        of_configs = {self._alter: 5, self._alter_all: 2, self._describe_configs: 3, self._list: 0.5}
        of_topics = {
            self._create_topics: 4,
            self._delete_topics: 2,
            self._create_partitions: 2,
            self._metadata: 2,
            self._describe_partitions: 1,
        }
        return self._weighted(of_configs if self._has_brokers else {**of_configs, **of_topics})()

    # Choices

    def _weighted(self, choices: Mapping[T, float]) -> T:
        return self.random.choices(list(choices), list(choices.values()))[0]

    def _is_wrong(self) -> bool:
        return self.random.random() < self._wrong

    def _unless_wrong(self, right: T, wrong: Sequence[T]) -> T:
        return self.random.choice(wrong) if self._is_wrong() else right

    def _topic(self) -> str:
        return self._unless_wrong(self.random.choice(_TOPICS), _WRONG_TOPICS)

    def _repeated(self, items: Sequence[T]) -> tuple[T, ...]:
        """The items, rarely with one of them twice."""
        return (*items, items[0]) if items and self._is_wrong() else tuple(items)

    # Topics

    def _create_topics(self) -> Step:
        random = self.random
        names = random.sample(_TOPICS, random.choice([1, 1, 2, 3]))
        is_validation = random.random() < 0.2
        topics = [self._new_topic(name) for name in names]
        return CreateTopics(
            version=random.choice([2, 4, 5, 6, 7, 7]), topics=self._repeated(topics), is_validation=is_validation
        )

    def _new_topic(self, name: str) -> Topic:
        random = self.random
        partitions = self._unless_wrong(random.choice([-1, 1, 2, 3]), _WRONG_COUNTS)
        replicas = self._unless_wrong(random.choice([-1, 1]), _WRONG_FACTORS)
        assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
        if random.random() < 0.2:
            right = tuple((at, (_NODE,)) for at in range(random.choice([1, 2])))
            wrong = [((1, (_NODE,)),), ((0, ()),), ((0, (2,)),), ((0, (1, 1)),), ((0, (1,)), (0, (1,))), ((0, (1, 2)),)]
            assignments = self._unless_wrong(right, wrong)
            partitions = self._unless_wrong(-1, [1, partitions])
            replicas = self._unless_wrong(-1, [1, replicas])
        return Topic(
            name=self._unless_wrong(name, _WRONG_TOPICS),
            partitions=partitions,
            replicas=replicas,
            assignments=assignments,
            configs=self._configs(TOPIC) if random.random() < 0.6 else (),
        )

    def _delete_topics(self) -> Step:
        random = self.random
        names = random.sample(_TOPICS, random.choice([1, 1, 2]))
        version = random.choice([1, 3, 4, 5, 6, 6, 6])
        topics = [self._named(name) if version >= 6 else (name, None) for name in names]
        if self._is_wrong():
            topics.append((self._topic(), None))
        return DeleteTopics(version=version, topics=self._repeated(topics))

    def _named(self, name: str) -> tuple[str | None, str | None]:
        right = self.random.choice([(name, None), (None, name)])
        return self._unless_wrong(right, [(name, name), (None, None), (None, "never"), ("never", None)])

    def _create_partitions(self) -> Step:
        random = self.random
        topics = []
        for name in random.sample(_TOPICS, random.choice([1, 1, 2])):
            count = self._unless_wrong(random.choice([2, 3, 4]), [0, -1, 1, 12_003, 2**31 - 1])
            right = tuple((_NODE,) for _ in range(random.choice([1, 1, 2])))
            wrong: list[tuple[tuple[int, ...], ...]] = [(), ((),), ((2,),), ((1, 1),), ((1, 2),), ((1,), ())]
            assignments = self._unless_wrong(right, wrong) if random.random() < 0.3 else None
            topics.append((self._unless_wrong(name, [*_WRONG_TOPICS, "never"]), count, assignments))
        # Kafka fails at more than 10,000 new partitions, but creates 10,000 of them.
        is_too_large = any(count > _PARTITIONS_MAX for _, count, _ in topics)
        return CreatePartitions(
            version=random.choice([0, 1, 2, 3]),
            topics=self._repeated(topics),
            is_validation=random.random() < 0.2 or is_too_large,
        )

    def _metadata(self) -> Step:
        random = self.random
        version = random.randrange(14)
        names = random.sample(_TOPICS, random.choice([0, 1, 2]))
        by_name = [(self._unless_wrong(name, _WRONG_TOPICS), None) for name in names]
        topics = self._repeated([self._named(name) for name in names] if version >= 12 else by_name)
        return Metadata(
            version=version,
            topics=None if random.random() < 0.3 else topics,
            with_operations=version >= 8 and random.random() < 0.3,
        )

    def _describe_partitions(self) -> Step:
        random = self.random
        names = [self._unless_wrong(name, _WRONG_TOPICS) for name in random.sample(_TOPICS, random.choice([0, 1, 3]))]
        if not names:
            return DescribeTopicPartitions()
        cursor = (
            self._unless_wrong(random.choice(names), ["never"]),
            self._unless_wrong(random.choice([0, 1]), [-1, 9]),
        )
        return DescribeTopicPartitions(
            topics=self._repeated(names),
            limit=self._unless_wrong(random.choice([1, 2, 3, 2_000]), [0, -1]),
            cursor=cursor if random.random() < 0.4 else None,
        )

    # Configs

    def _resource(self) -> Resource:
        random = self.random
        if self._is_wrong():
            loggers = [(LOGGER, ""), (LOGGER, "2"), (LOGGER, "odd")]
            empty = [(TOPIC, ""), (GROUP, ""), (CLIENT_METRICS, "")]
            return random.choice([*((kind, "a") for kind in _UNKNOWN_TYPES), *loggers, *empty])
        kind = random.choice(self._types)
        if kind == TOPIC:
            return kind, _THERE if self._has_brokers or random.random() < 0.5 else self._topic()
        if kind == BROKER:
            return kind, self._unless_wrong(random.choice(_BROKER_NAMES), _WRONG_BROKERS)
        return kind, self._unless_wrong("g" if kind == GROUP else "m", ["", "other"])

    def _values(self, kind: int) -> Mapping[str, Values]:
        return VALUES.get(kind, VALUES[TOPIC])

    def _configs(self, kind: int) -> tuple[tuple[str, str | None], ...]:
        keys = self.random.sample(list(self._values(kind)), self.random.choice([0, 1, 1, 2, 3]))
        if self._is_wrong():
            keys.append(self.random.choice([*ODD_KEYS, *keys]))
        return tuple((key, self._value(kind, key)) for key in keys)

    def _value(self, kind: int, key: str) -> str | None:
        values = self._values(kind).get(key, Values(("1",)))
        return self._unless_wrong(self.random.choice(values.right), [*values.wrong, None])

    def _alter(self) -> Step:
        random = self.random
        resources = []
        for _ in range(random.choice([1, 1, 1, 2])):
            kind, name = self._resource()
            changes = tuple(self._change(kind, key, value) for key, value in self._configs(kind))
            resources.append((kind, name, changes))
        return AlterIncrementally(
            version=random.choice([0, 1]), resources=self._repeated(resources), is_validation=random.random() < 0.15
        )

    def _change(self, kind: int, key: str, value: str | None) -> tuple[str, int, str | None]:
        random = self.random
        if random.random() < 0.25 and LISTS.get(kind):
            key = random.choice(LISTS[kind])
            return key, random.choice([APPEND, SUBTRACT]), self._value(kind, key)
        if random.random() < 0.25:
            return key, DELETE, self._unless_wrong(None, ["", value])
        return key, self._unless_wrong(SET, [APPEND, SUBTRACT, 4, -1]), value

    def _alter_all(self) -> Step:
        """Kafka never responds if a resource is named twice, so none is."""
        random = self.random
        resources = []
        for _ in range(random.choice([1, 1, 1, 2])):
            kind, name = self._resource()
            resources.append((kind, name, self._configs(kind)))
        distinct = {(kind, name): (kind, name, configs) for kind, name, configs in resources}
        return AlterAll(
            version=random.choice([0, 1, 2]),
            resources=tuple(distinct.values()),
            is_validation=random.random() < 0.15,
        )

    def _describe_configs(self) -> Step:
        random = self.random
        resources = []
        for _ in range(random.choice([1, 1, 2])):
            kind, name = self._resource()
            keys = tuple(random.sample(list(self._values(kind)), random.choice([1, 3])))
            wrong: list[tuple[str, ...]] = [(), ("odd",), ("",), (*keys, *keys)]
            resources.append((kind, name, self._unless_wrong(random.choice([keys, None]), wrong)))
        version = random.choice([1, 2, 3, 4])
        return DescribeConfigs(
            version=version,
            resources=self._repeated(resources),
            with_synonyms=random.random() < 0.7,
            with_documentation=version >= 3 and random.random() < 0.3,
        )

    def _list(self) -> Step:
        version = self.random.choice([0, 1, 1])
        types = self.random.choice(
            [(), (TOPIC,), (GROUP, CLIENT_METRICS), (BROKER,), (LOGGER,), (0,), (3,), (TOPIC, TOPIC)]
        )
        return ListResources(version=version, types=types if version else ())
