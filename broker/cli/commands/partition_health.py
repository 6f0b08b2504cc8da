"""Problems of partitions: no leader, too few replicas in sync, moves that cannot end, transactions that hang.

Each problem names its cause and the command that ends it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from broker.cli.grammar.units import format_ids
from broker.client.admin import (
    Admin,
    ConfigResource,
    ConfigResourceType,
    HangingTransaction,
    PartitionDescription,
    PartitionReassignment,
    TopicDescription,
)
from broker.client.errors import ClientError
from broker.client.types import TopicPartition
from broker.wire.errors import KafkaError

# Partitions that one problem names, and problems of one kind; more are counted.
NAMED_MAX: Final = 5
# Partitions whose producers are requested: a large cluster has millions of producers.
_SEARCHED_MAX: Final = 5000
_MIN_ISR: Final = "min.insync.replicas"
_MAX_TIMEOUT: Final = "transaction.max.timeout.ms"

Partitions: TypeAlias = Mapping[TopicPartition, PartitionDescription]


@attrs.frozen
class PartitionFacts:
    """Partitions of a cluster, and the state that their problems depend on.

    `partitions` has those of users first, then internal ones.
    `min_isr` has the topics that have a partition with fewer replicas in sync than assigned. `unsearched` partitions
    were not searched for transactions that hang.
    """

    partitions: Partitions
    alive: Collection[int]
    min_isr: Mapping[str, int]
    moving: Mapping[TopicPartition, PartitionReassignment]
    hanging: Sequence[HangingTransaction]
    unsearched: int

    @property
    def without_leader(self) -> list[TopicPartition]:
        return [name for name, each in self.partitions.items() if each.leader is None]

    @property
    def under_replicated(self) -> list[TopicPartition]:
        """The partitions with fewer replicas in sync than assigned, without those that a move adds, as in Kafka."""
        return [name for name, each in self.partitions.items() if _lacks_replicas(each, self._number_added(name))]

    @property
    def under_min_isr(self) -> list[TopicPartition]:
        """The partitions that refuse writes with acks=all. The minimum is never above the number of replicas."""
        return [
            name
            for name, each in self.partitions.items()
            if each.leader is not None and len(each.isr) < min(self.min_isr.get(name.topic, 0), len(each.replicas))
        ]

    @property
    def not_led_by_preferred(self) -> int:
        return sum(each.leader is not None and each.leader != each.replicas[0] for each in self.partitions.values())

    @property
    def replicas_max(self) -> Mapping[int, int]:
        """By broker, the most replicas that a partition with a replica on it has, without those that a move adds."""
        most: Counter[int] = Counter()
        for name, each in self.partitions.items():
            number = len(each.replicas) - self._number_added(name)
            most.update({broker: max(0, number - most[broker]) for broker in each.replicas})
        return most

    def _number_added(self, name: TopicPartition) -> int:
        """The number of replicas that the move of the partition adds, if it moves."""
        return len(self.moving[name].adding_replicas) if name in self.moving else 0


async def request_partition_facts(
    admin: Admin,
    topics: Iterable[TopicDescription],
    alive: Sequence[int],
    silent: Collection[int],
    timeout_ms: int,
) -> PartitionFacts:
    """Request what the problems of partitions consist of. Raises ClientError, KafkaError.

    Hanging transactions are left out where the brokers do not report them: without the right to see them, or if the
    brokers are too old. The brokers in `silent` do not answer, and are not asked again. `moving` is empty: only an
    active controller knows the reassignments.
    """
    partitions = {
        TopicPartition(topic.name, each.partition): each
        for topic in sorted(topics, key=lambda topic: (topic.is_internal, topic.name))
        for each in topic.partitions
    }
    lacking = dict.fromkeys(name.topic for name, each in partitions.items() if _lacks_replicas(each))
    min_isr = await _min_isr(admin, lacking)
    answering = [broker for broker in alive if broker not in silent]
    led = sum(each.leader in alive for each in partitions.values())
    searched = [name for name, each in partitions.items() if each.leader in answering][:_SEARCHED_MAX]
    hanging = await _hanging(admin, searched, answering, timeout_ms)
    return PartitionFacts(partitions, alive, min_isr, {}, hanging, led - len(searched))


async def _min_isr(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    if not resources:
        return {}
    described = await admin.describe_configs(resources, names=[_MIN_ISR])
    return {
        resource.name: int(configs[_MIN_ISR].value or 0)
        for resource, configs in described.succeeded.items()
        if _MIN_ISR in configs
    }


async def _hanging(
    admin: Admin, partitions: Sequence[TopicPartition], answering: Sequence[int], timeout_ms: int
) -> list[HangingTransaction]:
    if not partitions:
        return []
    brokers = [ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in answering[:1]]
    try:
        described = await admin.describe_configs(brokers, names=[_MAX_TIMEOUT], timeout_ms=timeout_ms)
        longest = [int(configs[_MAX_TIMEOUT].value or 0) for configs in described.succeeded.values() if configs]
        if not longest:
            return []
        return await admin.find_hanging_transactions(
            partitions, max_transaction_timeout_ms=longest[0], timeout_ms=timeout_ms
        )
    except (ClientError, KafkaError):
        return []


def partition_problems(facts: PartitionFacts) -> Iterator[str]:
    """The problems, the ones that stop clients first."""
    yield from _first(_leaderless(facts), "more groups of partitions without a leader")
    yield from _first(_under_min_isr(facts), "more topics refuse writes with acks=all")
    stuck = (why_stuck(each, facts.partitions.get(each), facts.moving[each], facts.alive) for each in facts.moving)
    yield from _first([each for each in stuck if each is not None], "more reassignments cannot end")
    yield from _first([_hanging_problem(each) for each in facts.hanging], "more transactions hang")
    told = {*facts.without_leader, *facts.under_min_isr}
    behind = [each for each in facts.under_replicated if each not in told]
    if behind:
        lacking = {
            broker
            for each in behind
            for broker in {*facts.partitions[each].replicas} - {*facts.partitions[each].isr}
            if each not in facts.moving or broker not in facts.moving[each].adding_replicas
        }
        yield f"{named(behind)} fewer replicas in sync than assigned: {_catch_up(sorted(lacking), facts.alive)}"


def _leaderless(facts: PartitionFacts) -> list[str]:
    """One problem per set of replicas that may lead, and of live ones that may not."""
    groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[TopicPartition]] = {}
    for name in facts.without_leader:
        each = facts.partitions[name]
        holders = holders_of(each)
        others = tuple(sorted(broker for broker in each.replicas if broker in facts.alive and broker not in holders))
        groups.setdefault((holders, others), []).append(name)
    return [_leaderless_problem(names, holders, others, facts.alive) for (holders, others), names in groups.items()]


def holders_of(partition: PartitionDescription) -> tuple[int, ...]:
    """The replicas that have all acknowledged records, or were the last to lead if none is sure to have them."""
    sure = {*partition.isr, *(partition.eligible_leader_replicas or ())}
    return tuple(sorted(sure or {*(partition.last_known_elr or ())} or {*partition.replicas}))


def _leaderless_problem(
    names: Sequence[TopicPartition], holders: Sequence[int], others: Sequence[int], alive: Collection[int]
) -> str:
    down = [broker for broker in holders if broker not in alive]
    head = f"{named(names)} no leader, and cannot be read or written:"
    if not down:
        return f"{head} {brokers_named(holders)} may lead, and the controllers have not elected it yet"
    start = f"{head} {_only_on(names, holders, down)}: start {_it(down)} again"
    topics = " ".join(_arguments(names))
    if others:
        return f"{start}; if {_it(down)} {_is(down)} gone for good, `kraft elect --unclean {topics}` loses records"
    return (
        f"{start}; if {_it(down)} {_is(down)} gone for good, the records are lost: `kraft reassign plan "
        f"{' '.join(dict.fromkeys(name.topic for name in names))} > plan.json`, `kraft reassign execute plan.json`, "
        f"then `kraft elect --unclean {topics}` makes {'it' if len(names) == 1 else 'them'} empty"
    )


def _only_on(names: Sequence[TopicPartition], holders: Sequence[int], down: Sequence[int]) -> str:
    its = "its" if len(names) == 1 else "their"
    return f"{its} records are only on {brokers_named(holders)}, and {brokers_named(down)} {_is(down)} down"


def _under_min_isr(facts: PartitionFacts) -> list[str]:
    groups: dict[tuple[str, int, int, tuple[int, ...]], list[TopicPartition]] = {}
    for name in facts.under_min_isr:
        each = facts.partitions[name]
        least = min(facts.min_isr[name.topic], len(each.replicas))
        missing = tuple(sorted(set(each.replicas) - set(each.isr)))
        groups.setdefault((name.topic, len(each.isr), least, missing), []).append(name)
    return [
        f"{named(names)} {in_sync} of at least {least} replicas in sync ({_MIN_ISR}), so that writes with acks=all "
        f"fail: {_catch_up(missing, facts.alive)}, or `kraft configs set topic {topic} {_MIN_ISR}={max(in_sync, 1)}`"
        for (topic, in_sync, least, missing), names in groups.items()
    ]


def _catch_up(missing: Sequence[int], alive: Collection[int]) -> str:
    down = [broker for broker in missing if broker not in alive]
    if down:
        return f"start {brokers_named(down)} again"
    return f"wait until {brokers_named(missing)} {'has' if len(missing) == 1 else 'have'} caught up"


def why_stuck(
    name: TopicPartition,
    partition: PartitionDescription | None,
    moving: PartitionReassignment,
    alive: Collection[int],
) -> str | None:
    """Why the reassignment cannot end, and what ends it; None if it goes on by itself."""
    target = moving.target_replicas
    place = f"{name.topic}-{name.partition}"
    cancel = f"`kraft reassign cancel {name.topic}:{name.partition}`"
    if partition is not None and partition.leader is None:
        down = [broker for broker in holders_of(partition) if broker not in alive]
        again = f": start {brokers_named(down)} again" if down else ""
        return f"{place} cannot move to {format_ids(target)}, since it has no leader to copy from{again}, or {cancel}"
    down = [broker for broker in target if broker not in alive]
    if down:
        return f"{place} cannot move to {format_ids(target)}: start {brokers_named(down)} again, or {cancel}"
    return None


def _hanging_problem(found: HangingTransaction) -> str:
    topic, partition = found.partition
    return (
        f"{topic}-{partition} has a transaction of producer {found.producer.producer_id} that nothing will end, and "
        f"read_committed consumers stop before offset {found.producer.transaction_start_offset}: `kraft transactions "
        f"abort --topic {topic} --partition {partition} --start-offset {found.producer.transaction_start_offset}`"
    )


def _lacks_replicas(partition: PartitionDescription, number_added: int = 0) -> bool:
    return len(partition.isr) < len(partition.replicas) - number_added


def _first(problems: Sequence[str], more: str) -> Iterator[str]:
    yield from problems[:NAMED_MAX]
    if len(problems) > NAMED_MAX:
        yield f"{len(problems) - NAMED_MAX} {more}"


def named(partitions: Sequence[TopicPartition]) -> str:
    """The partitions as the subject of a sentence, with its verb."""
    more = len(partitions) - NAMED_MAX
    names = (f"{each.topic}-{each.partition}" for each in partitions[:NAMED_MAX])
    return f"{', '.join(names)}{f' and {more} more' if more > 0 else ''} {'has' if len(partitions) == 1 else 'have'}"


def _arguments(partitions: Iterable[TopicPartition]) -> Iterator[str]:
    """The partitions as commands take them: TOPIC:PARTITION,..."""
    numbers: dict[str, list[str]] = {}
    for each in partitions:
        numbers.setdefault(each.topic, []).append(str(each.partition))
    for topic, of_topic in numbers.items():
        yield f"{topic}:{','.join(of_topic)}"


def brokers_named(ids: Sequence[int]) -> str:
    """The brokers in a sentence: `broker 1`, `brokers 1 and 2`."""
    if len(ids) == 1:
        return f"broker {ids[0]}"
    return f"brokers {', '.join(map(str, ids[:-1]))} and {ids[-1]}"


def _it(ids: Sequence[int]) -> str:
    return "it" if len(ids) == 1 else "one of them"


def _is(ids: Sequence[int]) -> str:
    return "is" if len(ids) == 1 else "are"
