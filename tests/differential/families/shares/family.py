"""The sequences of share groups (KIP-932)."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, TypeVar

import attrs

from tests.differential.families.groups.administration_steps import DeleteGroups, DescribeGroups, ListGroups
from tests.differential.families.groups.members import ABSENT, GROUP, Epoch, Who
from tests.differential.families.records.offset_steps import DeleteRecords
from tests.differential.families.records.readers import TopicId
from tests.differential.families.records.record_steps import TIMESTAMP_MS, Append
from tests.differential.families.records.topic_steps import CreateTopic, DeleteTopic
from tests.differential.families.shares.administration_steps import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DescribeShareOffsets,
    LetLocksExpire,
    SetGroupConfigs,
)
from tests.differential.families.shares.delivery_steps import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledged,
    Part,
    ShareAcknowledge,
    ShareFetch,
)
from tests.differential.families.shares.membership_steps import JOINS, LEAVES, DescribeShareGroups, ShareHeartbeat
from tests.differential.families.shares.share_members import (
    PARTITIONS,
    SHORT_LOCK_MS,
    TOPICS,
    ShareEpoch,
    ShareFamily,
)
from tests.differential.families.transactions.steps import End, Init, Produce
from tests.differential.sequences import Step

T = TypeVar("T")

_STEPS_MAX: Final = 20
_PRODUCER: Final = 0
# A session's first fetch waits for more bytes than there are, so that all share-partitions are loaded by its end.
_LOADED_MS: Final = 500
_MORE_BYTES: Final = 1 << 19
_KINDS: Final = (ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT)


class ShareGroups(ShareFamily):
    name = "shares"
    topics: Mapping[str, int] = TOPICS

    def generate(self, random: Random) -> Sequence[Step]:
        return _Generator(random).steps()


@attrs.define(eq=False)
class _Generator:
    """Makes the steps of one sequence. `_wrong` is how many of the choices are wrong in some way."""

    random: Random
    _wrong: float = attrs.field(init=False)
    _members: Sequence[int] = attrs.field(init=False)
    _has_transactions: bool = attrs.field(init=False)
    _recreates: bool = attrs.field(init=False)
    _has_short_locks: bool = attrs.field(init=False)
    _has_renewals: bool = attrs.field(init=False)
    # False if the limits of fetches are chosen, for which sessions have one partition: the next one after those that a
    # fetch has filled differs.
    _has_all_partitions: bool = attrs.field(init=False)
    # The topics that exist at this point.
    _existing: dict[str, bool] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        random = self.random
        self._wrong = random.choice([0.0, 0.03, 0.05, 0.2])
        self._members = random.choice([(0,), (0,), (0, 1)])
        self._has_transactions = random.random() < 0.15
        self._recreates = random.random() < 0.2
        self._has_short_locks = random.random() < 0.08
        self._has_renewals = random.random() < 0.2
        self._has_all_partitions = random.random() < 0.5
        self._existing = dict.fromkeys(TOPICS, True)

    def steps(self) -> list[Step]:
        random = self.random
        steps: list[Step] = [Init(producer=_PRODUCER, version=5)] if self._has_transactions else []
        steps += self._configs()
        steps += [self._append() for _ in range(random.randint(0, 4))]
        for member in self._members:
            joined = ShareHeartbeat(member=member, client=member + 1, epoch=JOINS, topics=tuple(TOPICS))
            steps += [joined, self._heartbeat(member), self._open(member)]
        for _ in range(random.randint(4, _STEPS_MAX)):
            steps.append(self._step())
        return [*steps, DescribeShareGroups(), DescribeShareOffsets()]

    def _configs(self) -> list[Step]:
        random = self.random
        configs = {"share.auto.offset.reset": random.choice(["earliest"] * 5 + ["latest"])}
        if self._has_short_locks:
            configs["share.record.lock.duration.ms"] = str(SHORT_LOCK_MS)
        if random.random() < 0.3:
            configs["share.delivery.count.limit"] = random.choice(["2", "3", "10"])
        if self._has_transactions:
            configs["share.isolation.level"] = random.choice(["read_committed", "read_committed", "read_uncommitted"])
        return [SetGroupConfigs(configs=tuple(configs.items()))]

    def _step(self) -> Step:
        choices: dict[Callable[[], Step], float] = {
            self._append: 3,
            self._fetch: 8,
            self._acknowledge: 6,
            lambda: self._heartbeat(self.random.choice(self._members)): 2,
            lambda: self._join(self.random.choice(self._members)): 0.7,
            lambda: self._leave(self.random.choice(self._members)): 0.7,
            lambda: self._open(self.random.choice(self._members)): 0.7,
            self._administration: 3,
            self._delete_records: 0.5,
        }
        if self._has_transactions:
            choices |= {self._produce: 3, self._end: 3}
        if self._recreates:
            choices |= {self._delete_or_create: 2}
        if self._has_short_locks:
            choices |= {LetLocksExpire: 1.5}
        return self._weighted(choices)()

    # Choices

    def _weighted(self, choices: Mapping[T, float]) -> T:
        return self.random.choices(list(choices), list(choices.values()))[0]

    def _unless_wrong(self, right: T, wrong: Sequence[T]) -> T:
        return self.random.choice(wrong) if self.random.random() < self._wrong else right

    def _group(self) -> str:
        return self._unless_wrong(GROUP, ["", "never"])

    def _who(self) -> Who:
        return self._unless_wrong(Who.OWN, [Who.OTHER, Who.UNKNOWN, Who.NONE])

    def _partitions(self) -> tuple[tuple[str, int], ...]:
        chosen = self.random.sample(PARTITIONS, self.random.choice([1, 1, 2, 3]))
        return tuple(self._unless_wrong(chosen, [[*chosen, (ABSENT, 0)], [*chosen, ("t", 7)], [("t", -1)], []]))

    def _existing_partitions(self) -> tuple[tuple[str, int], ...]:
        """Kafka does not respond to requests for the offsets of partitions that do not exist."""
        return tuple(self.random.sample(PARTITIONS, self.random.choice([1, 2, 3])))

    def _topic_id(self) -> TopicId:
        return self._unless_wrong(TopicId.CURRENT, [TopicId.FORMER, TopicId.UNKNOWN])

    # Members

    def _join(self, member: int) -> Step:
        topics = self._weighted({("t", "u"): 8, ("t",): 1, ("u",): 1, ("t", ABSENT): 1})
        return ShareHeartbeat(
            member=member,
            client=member + 1,
            epoch=JOINS,
            topics=self._unless_wrong(topics, [None, (), ("t", "t")]),
            rack=self._unless_wrong(None, ["r", ""]),
            who=self._unless_wrong(Who.OWN, [Who.UNKNOWN, Who.NONE]),
            group=self._group(),
        )

    def _heartbeat(self, member: int) -> Step:
        changes = self.random.random() < 0.2
        return ShareHeartbeat(
            member=member,
            client=member + 1,
            epoch=self._unless_wrong(Epoch.OWN, [Epoch.NEXT, Epoch.LAST, -2]),
            topics=self.random.choice([("t",), ("t", "u"), ("u",), ()]) if changes else None,
            who=self._who(),
            group=self._group(),
        )

    def _leave(self, member: int) -> Step:
        return ShareHeartbeat(member=member, client=member + 1, epoch=LEAVES, who=self._who(), group=self._group())

    # Deliveries

    def _open(self, member: int) -> Step:
        """Opens a session, and loads its share-partitions."""
        partitions = PARTITIONS if self._has_all_partitions else PARTITIONS[:1]
        return ShareFetch(
            member=member,
            client=member + 1,
            version=self.random.choice([1, 2, 2]),
            epoch=ShareEpoch.OPEN,
            asked=self._unless_wrong(partitions, [(*partitions, (ABSENT, 0))]),
            topic_id=self._topic_id(),
            group=self._unless_wrong(GROUP, ["never"]),
            acknowledged=self._unless_wrong((), [self._acknowledgements(member)]),
            max_wait_ms=_LOADED_MS,
            min_bytes=_MORE_BYTES,
            max_records=max(self._records(), 1),
        )

    def _records(self) -> int:
        return 500 if self._has_all_partitions else self._unless_wrong(self.random.choice([1, 2, 3, 500]), [0, -1])

    def _fetch(self) -> Step:
        random = self.random
        member = random.choice(self._members)
        version = random.choice([1, 2, 2])
        return ShareFetch(
            member=member,
            client=member + 1,
            version=version,
            epoch=self._session_epoch(),
            asked=self._partitions() if self._has_all_partitions and random.random() < 0.2 else (),
            forgotten=self._partitions() if random.random() < 0.1 else (),
            topic_id=self._topic_id(),
            who=self._who(),
            group=self._unless_wrong(GROUP, ["never"]),
            acknowledged=self._acknowledgements(member) if random.random() < 0.4 else (),
            is_renewal=self._unless_wrong(False, [True]),
            max_wait_ms=random.choice([0, 0, 0, 0, 300]),
            min_bytes=self._unless_wrong(random.choice([0, 1, 1]), [-1, 1 << 19]),
            max_bytes=self._unless_wrong(1 << 20, [0, -1]),
            max_records=self._records(),
            batch_size=random.choice([1, 2, 500]),
            mode=self._unless_wrong(random.choice([0, 0, 1]), [2, -1]),
        )

    def _session_epoch(self) -> ShareEpoch:
        right = ShareEpoch.CLOSE if self.random.random() < 0.05 else ShareEpoch.NEXT
        return self._unless_wrong(right, [ShareEpoch.SAME, ShareEpoch.LATER, ShareEpoch.NEGATIVE, ShareEpoch.CLOSE])

    def _acknowledge(self) -> Step:
        member = self.random.choice(self._members)
        is_renewal = self._has_renewals and self.random.random() < 0.5
        return ShareAcknowledge(
            member=member,
            client=member + 1,
            version=self.random.choice([1, 2, 2]),
            epoch=self._session_epoch(),
            who=self._who(),
            group=self._unless_wrong(GROUP, ["never"]),
            acknowledged=self._acknowledgements(member, is_renewal=is_renewal),
            is_renewal=self._unless_wrong(is_renewal, [not is_renewal]),
        )

    def _acknowledgements(self, member: int, *, is_renewal: bool = False) -> tuple[Acknowledged, ...]:
        random = self.random
        return tuple(
            self._acknowledged(at, member, is_renewal=is_renewal) for at in range(random.choice([1, 1, 1, 2, 3]))
        )

    def _acknowledged(self, back: int, member: int, *, is_renewal: bool) -> Acknowledged:
        random = self.random
        is_each = random.random() < 0.4
        kinds: tuple[int, ...] = (random.choice([*_KINDS, GAP]),)
        if is_renewal:
            kinds = (RENEW,)
        if is_each:
            kinds = tuple(random.choice(_KINDS) for _ in range(random.choice([1, 2, 3]))) if not is_renewal else kinds
        return Acknowledged(
            kinds=self._unless_wrong(kinds, [(5,), (-1,), (), (ACCEPT, ACCEPT), (RENEW,), (GAP,)]),
            back=random.choice([back, back, back, back + 1]),
            part=self._unless_wrong(
                random.choice([Part.ALL, Part.ALL, Part.FIRST, Part.LAST]),
                [Part.LATER, Part.PAST_THE_END, Part.FAR, Part.BACKWARDS],
            ),
            is_each=is_each,
            member=self._unless_wrong(member, [1 - member]),
            topic_id=self._topic_id(),
            partition=self._unless_wrong(None, [0, 1, 7]),
        )

    # Records and topics

    def _append(self) -> Step:
        random = self.random
        topic, partition = random.choice(PARTITIONS)
        return Append(
            version=12,
            topic=topic,
            partition=partition,
            timestamps=tuple(TIMESTAMP_MS + at for at in range(random.choice([1, 1, 2, 3, 5]))),
        )

    def _produce(self) -> Step:
        partition = self.random.randrange(TOPICS["t"])
        return Produce(producer=_PRODUCER, version=12, is_transactional=True, topic="t", partition=partition)

    def _end(self) -> Step:
        return End(producer=_PRODUCER, version=5, is_commit=self.random.random() < 0.5)

    def _delete_records(self) -> Step:
        topic, partition = self.random.choice(PARTITIONS)
        return DeleteRecords(version=2, asked=((topic, partition, self.random.choice([-1, 1, 2])),))

    def _delete_or_create(self) -> Step:
        topic = self.random.choice(list(TOPICS))
        exists = self._existing[topic]
        self._existing[topic] = not exists
        return DeleteTopic(topic=topic) if exists else CreateTopic(topic=topic, partitions=TOPICS[topic])

    # Administration

    def _administration(self) -> Step:
        random = self.random
        groups = self._unless_wrong((GROUP,), [(GROUP, "never"), ("",), ()])
        offset = self._unless_wrong(random.choice([0, 1, 2, 5]), [-1, -2, 1_000])
        topics = tuple(dict.fromkeys(topic for topic, _ in self._partitions()))
        choices: dict[Callable[[], Step], float] = {
            lambda: DescribeShareGroups(groups=groups, with_operations=random.random() < 0.3): 3,
            lambda: DescribeShareOffsets(
                version=random.choice([0, 1]),
                groups=groups,
                partitions=random.choice([None, self._existing_partitions()]),
            ): 4,
            lambda: AlterShareOffsets(partitions=self._partitions(), offset=offset, group=self._group()): 3,
            lambda: DeleteShareOffsets(topics=topics, group=self._group()): 2,
            lambda: DeleteGroups(version=2, groups=groups): 1.5,
            lambda: DescribeGroups(version=6, groups=groups): 0.5,
            lambda: ListGroups(version=5, types=random.choice([(), ("share",), ("consumer",)])): 1,
            self._configs_again: 1,
        }
        return self._weighted(choices)()

    def _configs_again(self) -> Step:
        random = self.random
        return SetGroupConfigs(
            configs=(
                random.choice(
                    [
                        ("share.delivery.count.limit", "2"),
                        ("share.delivery.count.limit", "1"),
                        ("share.auto.offset.reset", "latest"),
                        ("share.auto.offset.reset", "odd"),
                        ("share.renew.acknowledge.enable", "false"),
                        ("share.record.lock.duration.ms", "30000"),
                        ("share.record.lock.duration.ms", "1"),
                        ("share.isolation.level", "read_committed"),
                    ]
                ),
            ),
        )
