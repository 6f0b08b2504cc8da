"""The sequences of offsets: records with odd times, deleted records, and the offsets that readers then find."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, TypeVar

import attrs

from broker.wire.records import Compression
from tests.differential.families.records.fetch_steps import Asked, Fetch
from tests.differential.families.records.offset_steps import Asked as Numbered
from tests.differential.families.records.offset_steps import DeleteRecords, EpochEnds, ListOffsets
from tests.differential.families.records.readers import ODD, RecordFamily, TopicId
from tests.differential.families.records.record_steps import TIMESTAMP_MS, Append, Flaw
from tests.differential.families.records.topic_steps import CreateTopic, DeleteTopic
from tests.differential.families.transactions.steps import End, Init, Produce
from tests.differential.sequences import Step

T = TypeVar("T")

_STEPS_MAX: Final = 20
_TOPIC: Final = "t"
_PARTITIONS: Final = 2
_ABSENT: Final = "absent"
# The producers with transactional ids of their own.
_PRODUCERS: Final = (0, 2)
# The configs of a topic that some sequences create for themselves.
_CONFIGS: Final = (
    {"message.timestamp.type": "LogAppendTime"},
    {"segment.ms": "1000"},
    {"segment.ms": "1000", "index.interval.bytes": "1"},
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "compact,delete"},
    {"max.message.bytes": "150"},
    {"compression.type": "gzip"},
    {"compression.type": "uncompressed"},
    {"message.timestamp.before.max.ms": "1000"},
)
# Times of records, in ms from the first one.
_TIMES: Final = (0, 0, 1, 2, 3, 500, 1_000, 2_500, 60_000, -1, -5_000)
# Kafka fails at the most negative times if it compresses records again.
_ODD_TIMES: Final = (-1, 0, -2, 1, 2**62)


class Offsets(RecordFamily):
    name = "offsets"
    topics: Mapping[str, int] = {_TOPIC: _PARTITIONS}

    def generate(self, random: Random) -> Sequence[Step]:
        return _Generator(random).steps()


@attrs.define(eq=False)
class _Generator:
    random: Random
    # How many of the requests are wrong in some way.
    _wrong: float = attrs.field(init=False)
    _topics: list[str] = attrs.field(init=False)
    _producers: Sequence[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._wrong = self.random.choice([0.0, 0.1, 0.1, 0.3])
        self._topics = [_TOPIC]
        self._producers = self.random.choice([(), (0,), _PRODUCERS])

    def steps(self) -> list[Step]:
        random = self.random
        steps: list[Step] = []
        if random.random() < 0.4:
            self._topics.append(ODD)
            configs = random.choice(_CONFIGS)
            steps.append(CreateTopic(topic=ODD, partitions=_PARTITIONS, configs=tuple(configs.items())))
        steps += [Init(producer=each, version=5) for each in self._producers]
        for _ in range(random.randint(4, _STEPS_MAX)):
            steps.append(self._step())
        steps += self._closing_steps()
        if ODD in self._topics:
            steps.append(DeleteTopic(topic=ODD))
        return steps

    def _closing_steps(self) -> list[Step]:
        """The steps at the end of each sequence, which compare the state that remains."""
        places = [(topic, index) for topic in self._topics for index in range(_PARTITIONS)]
        fetched = tuple(Asked(topic, index) for topic, index in places)
        return [
            *(
                ListOffsets(version=11, asked=tuple((*each, timestamp) for each in places), isolation_level=level)
                for timestamp in (-1, -2, -3)
                for level in (0, 1)
            ),
            *(Fetch(version=12, asked=fetched, isolation_level=level) for level in (0, 1)),
        ]

    def _step(self) -> Step:
        choices: dict[Callable[[], Step], float] = {
            self._append: 7,
            self._list_offsets: 7,
            self._delete_records: 3,
            self._epoch_ends: 1,
            self._fetch: 1,
        }
        if self._producers:
            choices |= {self._produce: 3, self._end: 2}
        return self._weighted(choices)()

    # Choices

    def _weighted(self, choices: Mapping[T, float]) -> T:
        return self.random.choices(list(choices), list(choices.values()))[0]

    def _unless_wrong(self, right: T, wrong: Sequence[T]) -> T:
        return self.random.choice(wrong) if self.random.random() < self._wrong else right

    def _topic(self) -> str:
        return self._unless_wrong(self.random.choice(self._topics), [_ABSENT, ""])

    def _partition(self) -> int:
        return self._unless_wrong(self.random.randrange(_PARTITIONS), [7, -1])

    def _asked(self, choose: Callable[[], int]) -> tuple[Numbered, ...]:
        """Distinct partitions, and sometimes the same one twice."""
        asked = [(self._topic(), self._partition(), choose()) for _ in range(self.random.choice([1, 1, 2, 3]))]
        distinct = {(topic, partition): (topic, partition, value) for topic, partition, value in asked}
        return tuple(self._unless_wrong(list(distinct.values()), [asked, []]))

    def _leader_epoch(self) -> int:
        return self._unless_wrong(self.random.choice([-1, 0]), [1, 5, -2])

    def _timestamp(self) -> int:
        return self._unless_wrong(TIMESTAMP_MS + self.random.choice(_TIMES), _ODD_TIMES)

    # Steps

    def _append(self) -> Step:
        random = self.random
        compression = self._weighted(
            {Compression.NONE: 8, Compression.GZIP: 1, Compression.ZSTD: 1, Compression.LZ4: 1}
        )
        flaws = [each for each in Flaw if not compression or each is not Flaw.WRONG_MAX_TIMESTAMP]
        return Append(
            version=random.randrange(3, 14),
            topic=self._topic(),
            topic_id=self._unless_wrong(TopicId.CURRENT, [TopicId.UNKNOWN]),
            partition=self._partition(),
            timestamps=tuple(self._timestamp() for _ in range(random.choice([1, 1, 2, 3]))),
            acks=self._unless_wrong(-1, [1, -1, 2, -2]),
            has_keys=random.random() < 0.5,
            size=random.choice([0, 0, 0, 10, 200]),
            compression=compression,
            flaw=self._unless_wrong(None, flaws),
        )

    def _produce(self) -> Step:
        return Produce(
            producer=self.random.choice(self._producers),
            version=12,
            is_transactional=True,
            topic=_TOPIC,
            partition=self.random.randrange(_PARTITIONS),
            count=self.random.choice([1, 1, 2]),
        )

    def _end(self) -> Step:
        return End(producer=self.random.choice(self._producers), version=5, is_commit=self.random.random() < 0.5)

    def _list_offsets(self) -> Step:
        special = (-1, -1, -2, -2, -3, -3, -4, -5, -6, -7)
        return ListOffsets(
            version=self.random.randrange(1, 12),
            asked=self._asked(lambda: self.random.choice(special) if self.random.random() < 0.6 else self._timestamp()),
            isolation_level=self._unless_wrong(self.random.choice([0, 1]), [0, 0, 0, 1, 2, -1]),
            leader_epoch=self._leader_epoch(),
            replica_id=self._unless_wrong(-1, [-2, -3]),
        )

    def _delete_records(self) -> Step:
        def offset() -> int:
            right = self.random.choice([-1, 0, 1, 2, 3, 4, 5, 8])
            return self._unless_wrong(right, [-2, 1_000, 2**63 - 1, -(2**63)])

        return DeleteRecords(version=self.random.randrange(3), asked=self._asked(offset))

    def _epoch_ends(self) -> Step:
        return EpochEnds(
            version=self.random.randrange(2, 5),
            asked=self._asked(lambda: self.random.choice([0, 0, 1, -1, -2, 2**31 - 1])),
            leader_epoch=self._leader_epoch(),
            replica_id=self._unless_wrong(-2, [-1]),
        )

    def _fetch(self) -> Step:
        offset = self.random.choice([0, 1, 2, 3, 5, 1_000, -1])
        return Fetch(
            version=self.random.randrange(4, 13),
            asked=tuple(Asked(topic, partition, offset) for topic, partition, _ in self._asked(lambda: 0)),
            isolation_level=self.random.choice([0, 1]),
        )
