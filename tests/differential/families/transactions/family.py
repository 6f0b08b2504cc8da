"""The sequences of the family: mostly what producers do, with some of what they should not do."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar

import attrs
import trio

from broker.wire.api.describe_transactions import DescribeTransactionsRequest
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.init_producer_id import InitProducerIdRequest
from broker.wire.errors import ErrorCode
from tests.differential.families.transactions.producers import Place as SequencePlace
from tests.differential.families.transactions.producers import Producers, Who
from tests.differential.families.transactions.steps import (
    ABSENT,
    IDS,
    PARTITIONS,
    TOPIC,
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    DescribeProducers,
    DescribeTransactions,
    End,
    Fetch,
    FetchOffsets,
    Init,
    ListOffsets,
    ListTransactions,
    Produce,
)
from tests.differential.sequences import Call, Place, Step

T = TypeVar("T")

_STEPS_MAX: Final = 16
# How many ends of transactions are followed by the producer's next request at once.
_HURRIES: Final = 0.4
_GROUP, _TRANSACTION = 0, 1
_PREPARED: Final = ("PrepareCommit", "PrepareAbort")
_WITHIN_S: Final = 60
_PAUSE_S: Final = 0.005

# The last versions of clients before KIP-890's second part, and those from it on.
_OLD: Final = {Produce: (3, 8, 11), End: (1, 3, 4), CommitOffsets: (0, 3, 4), AddPartitions: (1, 3)}
_NEW: Final = {Produce: (12, 13), End: (5,), CommitOffsets: (5,), AddPartitions: (4, 5)}


class Transactions:
    name = "transactions"
    topics: Mapping[str, int] = {TOPIC: PARTITIONS}
    passing = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})

    def generate(self, random: Random) -> Sequence[Step]:
        return _Generator(random).steps()

    def new_state(self) -> Producers:
        return Producers()

    async def prepare(self, call: Call) -> None:
        """Waits for both coordinators, and for the first producer id."""
        with trio.fail_after(_WITHIN_S):
            for key_type in (_GROUP, _TRANSACTION):
                find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["prepare"])
                while any(each.error_code for each in (await call(find, 6)).coordinators):
                    await trio.sleep(_PAUSE_S)
            init = InitProducerIdRequest(transactional_id="prepare", transaction_timeout_ms=60_000)
            init.producer_id = init.producer_epoch = -1
            while (await call(init, 5)).error_code:
                await trio.sleep(_PAUSE_S)

    async def settle(self, place: Place, call: Call) -> None:
        """Waits until all transactions have their markers."""
        state: Producers = place.state
        if not state.is_ending:
            return
        names = [place.named(each) for each in dict.fromkeys(IDS) if each]
        request = DescribeTransactionsRequest(transactional_ids=names)
        with trio.fail_after(_WITHIN_S):
            while any(each.transaction_state in _PREPARED for each in (await call(request, 0)).transaction_states):
                await trio.sleep(_PAUSE_S)
        state.is_ending = False


@attrs.define(eq=False)
class _Generator:
    """Makes the steps of one sequence.

    A sequence speaks the versions of old clients, of new ones, or both. It pauses before each step, or only where the
    outcome would otherwise depend on when the markers of a transaction are written.
    """

    random: Random
    _versions: Sequence[Mapping[Any, Sequence[int]]] = attrs.field(init=False)
    _is_paused: bool = attrs.field(init=False)
    # How many of the requests are wrong in some way.
    _wrong: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._versions = self.random.choice([(_NEW,), (_OLD,), (_NEW, _OLD)])
        self._is_paused = self.random.random() < 0.5
        self._wrong = self.random.choice([0.0, 0.1, 0.1, 0.3])

    def steps(self) -> list[Step]:
        producers = self.random.choice([(0,), (0, 1), (0, 1), (0, 2), (2, 3), (0, 1, 2, 3)])
        steps = [self._init(each) for each in producers if self.random.random() < 0.95]
        for _ in range(self.random.randint(3, _STEPS_MAX)):
            steps.append(self._step(self.random.choice(producers)))
            if isinstance(steps[-1], End) and self.random.random() < _HURRIES:
                steps.append(self._next_at_once(steps[-1].producer))
        return [*steps, *self._closing_steps()]

    def _closing_steps(self) -> list[Step]:
        """The steps at the end of each sequence, which compare the state that remains."""
        both = (True, False)
        return [
            DescribeTransactions(),
            DescribeProducers(),
            *(ListOffsets(timestamp=-1, is_committed=each) for each in both),
            *(Fetch(is_committed=each) for each in both),
            *(FetchOffsets(require_stable=each) for each in both),
        ]

    def _step(self, producer: int) -> Step:
        make = self._weighted(
            {
                self._init: 2,
                self._add_partitions: 3,
                self._add_offsets: 1,
                self._commit_offsets: 2,
                self._end: 5,
                self._produce: 7,
                self._read: 2,
            }
        )
        return make(producer)

    def _next_at_once(self, producer: int) -> Step:
        """The next request of a producer to its coordinator, while the markers of its last transaction are written."""
        make = self.random.choice([self._end, self._end, self._add_partitions, self._init])
        step = make(producer)
        return step if isinstance(step, AddPartitions) and not step.partitions else attrs.evolve(step, is_paused=False)

    # Choices

    def _weighted(self, choices: Mapping[T, float]) -> T:
        return self.random.choices(list(choices), list(choices.values()))[0]

    def _is_wrong(self) -> bool:
        return self.random.random() < self._wrong

    def _unless_wrong(self, right: T, wrong: Sequence[T]) -> T:
        return self.random.choice(wrong) if self._is_wrong() else right

    def _who(self) -> Who:
        return self._unless_wrong(Who.OWN, [each for each in Who if each is not Who.OWN])

    def _name(self) -> str | None:
        return self._unless_wrong("own", ["own", "own", "b", "", "never"])

    def _verified_name(self) -> str | None:
        """For requests whose partitions are verified: Kafka verifies one request per transactional id at a time, and
        the empty one belongs to several sequences.
        """
        return self._name() or "own"

    def _version(self, kind: type[Step]) -> int:
        return self.random.choice(self.random.choice(self._versions)[kind])

    def _pauses(self) -> bool:
        return self._is_paused or self.random.random() < 0.3

    def _partitions(self) -> tuple[tuple[str, int], ...]:
        count = self._weighted({1: 6, 2: 3, 0: 0.3})
        places = [(TOPIC, self.random.randrange(PARTITIONS)) for _ in range(count)]
        if self._is_wrong():
            places.append(self.random.choice([(ABSENT, 0), (TOPIC, 7), (TOPIC, -1)]))
        return tuple(dict.fromkeys(places))

    # Steps

    def _init(self, producer: int) -> Step:
        return Init(
            producer=producer,
            is_paused=self._pauses(),
            version=self._weighted({0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 5}),
            who=self._weighted({Who.NONE: 6, Who.OWN: 3}) if not self._is_wrong() else self._who(),
            name=self._name(),
            timeout_ms=self._unless_wrong(60_000, [0, -1, 900_000, 900_001, 2**31 - 1, 30_000]),
        )

    def _add_partitions(self, producer: int) -> Step:
        version, partitions = self._version(AddPartitions), self._partitions()
        # Without partitions, the response has no error code that could ask for a retry.
        is_paused = self._pauses() or not partitions
        return AddPartitions(
            producer=producer,
            is_paused=is_paused,
            version=version,
            who=self._who(),
            name=self._name(),
            partitions=partitions,
            is_verification=version > 3 and self.random.random() < 0.3,
        )

    def _add_offsets(self, producer: int) -> Step:
        return AddOffsets(
            producer=producer,
            is_paused=self._pauses(),
            version=self.random.choice([0, 1, 2, 3, 4]),
            who=self._who(),
            name=self._name(),
            group=self._unless_wrong("g", ["", "h"]),
        )

    def _commit_offsets(self, producer: int) -> Step:
        return CommitOffsets(
            producer=producer,
            version=self._version(CommitOffsets),
            who=self._who(),
            name=self._verified_name(),
            offset=self._unless_wrong(self.random.randrange(50), [-1, -2, 2**63 - 1]),
            partitions=self._partitions() or ((TOPIC, 0),),
            generation=self._unless_wrong(-1, [-1, 0, 3]),
            member=self._unless_wrong("", ["", "m"]),
            group=self._unless_wrong("g", ["", "h"]),
            metadata=self._unless_wrong("m", [None, "", "x" * 5_000]),
        )

    def _end(self, producer: int) -> Step:
        return End(
            producer=producer,
            is_paused=self._pauses(),
            version=self._version(End),
            who=self._who(),
            name=self._name(),
            is_commit=self.random.random() < 0.6,
        )

    def _produce(self, producer: int) -> Step:
        is_transactional = IDS[producer] is not None
        return Produce(
            producer=producer,
            version=self._version(Produce),
            who=self._who(),
            name=self._unless_wrong("own", ["own", None, "b"]),
            is_transactional=self._unless_wrong(is_transactional, [is_transactional, not is_transactional]),
            topic=self._unless_wrong(TOPIC, [TOPIC, TOPIC, ABSENT]),
            partition=self._unless_wrong(self.random.randrange(PARTITIONS), [0, 7, -1]),
            sequence=self._unless_wrong(
                self._weighted({SequencePlace.NEXT: 9, SequencePlace.DUPLICATE: 2}), list(SequencePlace)
            ),
            count=self.random.choice([1, 1, 2, 3]),
            acks=self._unless_wrong(-1, [-1, 1]),
        )

    def _read(self, producer: int) -> Step:
        random = self.random
        return random.choice(
            [
                DescribeTransactions(names=random.choice([("a", "b"), ("a",), ("b", "never"), ("", "a"), ("a", "a")])),
                ListTransactions(
                    states=random.choice([(), ("Ongoing",), ("CompleteCommit", "Empty"), ("Odd",), ("Ongoing", "Odd")]),
                    producer=random.choice([None, None, producer]),
                    min_open_ms=random.choice([-1, -1, 3_600_000]),
                ),
                DescribeProducers(
                    topic=random.choice([TOPIC, TOPIC, ABSENT]), partitions=random.choice([(0, 1), (0, 7), (-1,)])
                ),
                ListOffsets(timestamp=random.choice([-1, -2, -3, 1]), is_committed=random.random() < 0.7),
                Fetch(is_committed=random.random() < 0.7, offset=random.choice([0, 1, 2, 1_000, -1])),
                FetchOffsets(require_stable=random.random() < 0.5, group=random.choice(["g", "h"])),
            ]
        )
