"""The sequences of fetches: sessions, with topics that are deleted and created again meanwhile."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, TypeVar

import attrs

from tests.differential.families.records.fetch_steps import Asked, Fetch
from tests.differential.families.records.offset_steps import DeleteRecords
from tests.differential.families.records.readers import (
    TOPICS,
    RecordFamily,
    Session,
    TopicId,
)
from tests.differential.families.records.record_steps import TIMESTAMP_MS, Append
from tests.differential.families.records.topic_steps import CreateTopic, DeleteTopic
from tests.differential.families.transactions.steps import End, Init, Produce
from tests.differential.sequences import Step

T = TypeVar("T")

_STEPS_MAX: Final = 20
_PARTITIONS: Final = 2
_ABSENT: Final = "absent"
# The versions of one sequence. Kafka cannot respond to old versions if a session has had a last fetched epoch.
_VERSIONS: Final = ((4, 5, 6), (7, 8, 9, 10, 11), (12,), (13, 14, 15, 16, 17, 18), (18,), (12, 17, 18))
_LIMITS: Final = (0, 1, 60, 100, 150, 250, 1 << 20, 2**31 - 1)
_PRODUCER: Final = 0


class FetchSessions(RecordFamily):
    name = "fetch-sessions"
    topics: Mapping[str, int] = dict.fromkeys(TOPICS, _PARTITIONS)

    def generate(self, random: Random) -> Sequence[Step]:
        return _Generator(random).steps()


@attrs.define(eq=False)
class _Generator:
    random: Random
    # How many of the requests are wrong in some way.
    _wrong: float = attrs.field(init=False)
    _versions: Sequence[int] = attrs.field(init=False)
    _has_transactions: bool = attrs.field(init=False)
    _recreates: bool = attrs.field(init=False)
    _sessions: Sequence[int] = attrs.field(init=False)
    _limits: Sequence[int] = attrs.field(init=False)
    # The topics that exist at this point.
    _existing: dict[str, bool] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        random = self.random
        self._wrong = random.choice([0.0, 0.05, 0.1, 0.3])
        self._versions = random.choice(_VERSIONS)
        self._has_transactions = random.random() < 0.3
        self._recreates = random.random() < 0.4
        self._sessions = random.choice([(0,), (0,), (0, 1)])
        self._limits = random.choice([(1 << 20,), (1 << 20,), _LIMITS])
        self._existing = dict.fromkeys(TOPICS, True)

    def steps(self) -> list[Step]:
        steps: list[Step] = [Init(producer=_PRODUCER, version=5)] if self._has_transactions else []
        steps += [self._append() for _ in range(self.random.randint(0, 4))]
        steps += [self._new_session(each) for each in self._sessions]
        for _ in range(self.random.randint(4, _STEPS_MAX)):
            steps.append(self._step())
        return steps

    def _step(self) -> Step:
        choices: dict[Callable[[], Step], float] = {
            self._append: 4,
            self._next_fetch: 12,
            self._single_fetch: 2,
            self._delete_records: 0.7,
            lambda: self._new_session(self.random.choice(self._sessions)): 1,
        }
        if self._has_transactions:
            choices |= {self._produce: 2, self._end: 2}
        if self._recreates:
            choices |= {self._delete_or_create: 2.5}
        return self._weighted(choices)()

    # Choices

    def _weighted(self, choices: Mapping[T, float]) -> T:
        return self.random.choices(list(choices), list(choices.values()))[0]

    def _unless_wrong(self, right: T, wrong: Sequence[T]) -> T:
        return self.random.choice(wrong) if self.random.random() < self._wrong else right

    def _limit(self) -> int:
        return self.random.choice(self._limits)

    def _asked(self, counts: Sequence[int]) -> tuple[Asked, ...]:
        random = self.random
        places = [(topic, index) for topic in TOPICS for index in range(_PARTITIONS)]
        chosen = random.sample(places, random.choice(counts))
        chosen += self._unless_wrong([], [[(_ABSENT, 0)], [("t", 7)], [("t", -1)], [("t", 0)]])
        return tuple(
            Asked(
                topic,
                index,
                offset=self._unless_wrong(random.choice([0, 0, 1, 2, 3, 4]), [-1, 1_000, 2**63 - 1, -2]),
                max_bytes=self._limit(),
                leader_epoch=self._unless_wrong(random.choice([-1, 0]), [1, -2, 5]),
                fetched_epoch=self._unless_wrong(random.choice([-1, -1, 0]), [1, -2]),
                topic_id=self._topic_id(),
            )
            for topic, index in chosen
        )

    def _topic_id(self) -> TopicId:
        return self._unless_wrong(TopicId.CURRENT, [TopicId.FORMER, TopicId.FORMER, TopicId.UNKNOWN])

    # Steps

    def _fetch(self, session: Session, number: int, asked: tuple[Asked, ...], *, forgets: bool = False) -> Step:
        random = self.random
        places = [(topic, index) for topic in TOPICS for index in range(_PARTITIONS)]
        forgotten = random.sample(places, random.choice([1, 1, 2])) if forgets else []
        return Fetch(
            version=random.choice(self._versions),
            asked=asked,
            forgotten=tuple((*each, self._topic_id()) for each in forgotten),
            session=session,
            number=number,
            isolation_level=self._unless_wrong(random.choice([0, 1]), [0, 0, 0, 1, 2, -1]),
            max_wait_ms=random.choice([0, 0, 0, 10, -1]),
            min_bytes=random.choice([0, 1, 1, 1, 100, 1 << 20, -1]),
            max_bytes=self._limit(),
        )

    def _new_session(self, number: int) -> Step:
        use = self._weighted({Session.NEW: 5, Session.REPLACE: 2})
        return self._fetch(use, number, self._asked([1, 2, 3, 4, 4]), forgets=self.random.random() < self._wrong)

    def _next_fetch(self) -> Step:
        use = self._unless_wrong(Session.NEXT, [each for each in Session if each is not Session.NEXT])
        asked = self._asked([0, 0, 0, 1, 1, 2])
        return self._fetch(use, self.random.choice(self._sessions), asked, forgets=self.random.random() < 0.2)

    def _single_fetch(self) -> Step:
        return self._fetch(Session.NONE, 0, self._asked([0, 1, 2, 4]))

    def _append(self) -> Step:
        random = self.random
        count = random.choice([1, 1, 2, 3])
        return Append(
            version=12,
            topic=random.choice(TOPICS),
            partition=random.randrange(_PARTITIONS),
            timestamps=tuple(TIMESTAMP_MS + at for at in range(count)),
            size=random.choice([0, 0, 10, 100]),
        )

    def _produce(self) -> Step:
        partition = self.random.randrange(_PARTITIONS)
        return Produce(producer=_PRODUCER, version=12, is_transactional=True, topic="t", partition=partition)

    def _end(self) -> Step:
        return End(producer=_PRODUCER, version=5, is_commit=self.random.random() < 0.5)

    def _delete_records(self) -> Step:
        offset = self.random.choice([-1, 1, 2])
        return DeleteRecords(version=2, asked=((self.random.choice(TOPICS), self.random.randrange(2), offset),))

    def _delete_or_create(self) -> Step:
        topic = self.random.choice(TOPICS)
        exists = self._existing[topic]
        self._existing[topic] = not exists
        return DeleteTopic(topic=topic) if exists else CreateTopic(topic=topic, partitions=_PARTITIONS)
