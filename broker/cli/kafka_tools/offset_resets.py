"""--reset-offsets of kafka-consumer-groups and kafka-share-groups: which offsets it sets, as a table or as CSV
(OffsetsUtils.java, GroupOffsetsResetter.java).
"""

import csv
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias

from broker.cli.kafka_tools.columns import row, width_of
from broker.cli.kafka_tools.files import read_file
from broker.cli.kafka_tools.java_order import hash_map_order, partition_order
from broker.cli.kafka_tools.options import Options, integer, long
from broker.cli.printing import print_text
from broker.client.admin import Admin, OffsetSpec
from broker.client.consumer.offset_reset import read_offset_reset
from broker.client.environment import Environment
from broker.client.types import TopicPartition
from broker.printable import printable
from broker.wire.errors import ErrorCode, KafkaError

Offsets: TypeAlias = dict[TopicPartition, int]

SCENARIOS: Final = (
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "from-file",
)
# Jackson, which writes Kafka's CSV, quotes values that are longer, or have a character before this one.
_UNQUOTED_MAX: Final = 24
_UNQUOTED_FROM: Final = "-"


async def offsets_to_reset(admin: Admin, options: Options, groups: Iterable[str]) -> dict[str, Offsets]:
    """The new offsets by group, which are set with --execute. Raises KafkaError, ClientError, ValueError."""
    planned: dict[str, Offsets] = {}
    described = await admin.describe_groups(groups, timeout_ms=options.value("timeout"))
    for group, outcome in described.items():
        if isinstance(outcome, KafkaError) and outcome.code == ErrorCode.GROUP_ID_NOT_FOUND:
            state = "Dead"
        else:
            state = described.value(group).state
        if state not in ("Empty", "Dead"):
            print_text(
                f"\nError: Assignments can only be reset if the group '{printable(group)}' is inactive, "
                f"but the current state is {state}."
            )
            planned[group] = {}
            continue
        planned[group] = offsets = await planned_offsets(OffsetReset(admin, options, group, _committed))
        if "execute" in options and offsets:
            results = await admin.alter_group_offsets(group, offsets, timeout_ms=options.value("timeout"))
            results.raise_first()
    return {group: planned[group] for group in hash_map_order(planned)}


def reset_lines(options: Options, planned: Mapping[str, Offsets]) -> Iterator[str]:
    """The table of the new offsets."""
    topics = [each.topic for offsets in planned.values() for each in offsets]
    widths = [width_of(list(planned), 15), width_of(topics, 15), 10, 0]
    if planned:
        yield "\n" + row(widths, ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"])
    for group, offsets in planned.items():
        for each in partition_order(offsets):
            yield row(widths, [group, each.topic, each.partition, offsets[each]])
    if not planned:
        yield ""


def export_lines(options: Options, planned: Mapping[str, Offsets]) -> Iterator[str]:
    """The new offsets as CSV: with the group's name, unless a single group was asked for."""
    has_group = len(options.values("group")) != 1
    for group, offsets in planned.items():
        for each in partition_order(offsets):
            cells = [*([_quoted(group)] if has_group else []), _quoted(each.topic), each.partition, offsets[each]]
            yield ",".join(map(str, cells))
    yield ""


def parse_partitions(text: str) -> list[TopicPartition]:
    """`topic:0,1`. Raises ValueError."""
    topic, *numbers = text.split(":")
    if len(numbers) != 1:
        raise ValueError(f"Invalid topic arg '{text}', expected topic name and partitions")
    partitions = []
    for number in numbers[0].split(","):
        try:
            partitions.append(TopicPartition(topic, integer(number)))
        except ValueError:
            raise ValueError(f"Invalid partition '{number}' specified in topic arg '{text}''") from None
    return partitions


class OffsetReset:
    """The reset of one group's offsets, with the requests that it needs.

    `current` returns the present offsets of the group.
    """

    def __init__(
        self, admin: Admin, options: Options, group: str, current: Callable[["OffsetReset"], Awaitable[Offsets]]
    ) -> None:
        self.options = options
        self.group = group
        self.admin = admin
        self.timeout_ms = options.value("timeout")
        self._current = current

    async def partitions(self) -> list[TopicPartition]:
        """The partitions of --all-topics or --topic. Raises UsageFailure where there is no scope, and KafkaError."""
        if "all-topics" in self.options:
            return list(await self.current())
        if "topic" not in self.options:
            if "from-file" not in self.options:
                raise self.options.failure("One of the reset scopes should be defined: --all-topics, --topic.")
            return []
        topics = self.options.values("topic")
        chosen = [each for topic in topics if ":" in topic for each in parse_partitions(topic)]
        named = [topic for topic in topics if ":" not in topic]
        existing = await self._existing([*named, *(each.topic for each in chosen)])
        chosen += [each for each in existing if each.topic in named]
        self._check(chosen, existing)
        return list(dict.fromkeys(chosen))

    async def current(self) -> Offsets:
        """The present offsets of the group."""
        return await self._current(self)

    async def found(self, partitions: Iterable[TopicPartition], spec: int) -> dict[TopicPartition, int | None]:
        """The offsets at a time, or at an end."""
        listed = await self.admin.list_offsets(dict.fromkeys(partitions, spec), timeout_ms=self.timeout_ms)
        return {each: None if at is None else at.offset for each, at in listed.raise_first().items()}

    async def ends(self, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> Offsets:
        return {each: offset for each, offset in (await self.found(partitions, spec)).items() if offset is not None}

    async def at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
        """Returns the offsets at a time, or a partition's end if it has no record since then."""
        found = await self.found(partitions, timestamp_ms)
        missing = [each for each, offset in found.items() if offset is None]
        for each in missing:
            print_text(
                f"\nWarn: Partition {each.partition} from topic {each.topic} is empty. "
                "Falling back to latest known offset."
            )
        ends = await self.ends(missing, OffsetSpec.LATEST)
        return {each: ends[each] if offset is None else offset for each, offset in found.items()}

    async def within_range(self, offsets: Offsets) -> Offsets:
        """Moves offsets outside of a log to its start or end, and prints a warning for each."""
        first = await self.ends(offsets, OffsetSpec.EARLIEST)
        last = await self.ends(offsets, OffsetSpec.LATEST)
        for each, offset in offsets.items():
            bounded = min(max(offset, first[each]), last[each])
            if bounded != offset:
                relation = "higher than latest" if offset > bounded else "lower than earliest"
                print_text(
                    f"WARN New offset ({offset}) is {relation} offset for topic partition "
                    f"{each.topic}-{each.partition}. Value will be set to {bounded}",
                    file=sys.stderr,
                )
            offsets[each] = bounded
        return offsets

    async def _existing(self, topics: Iterable[str]) -> dict[TopicPartition, int | None]:
        """The leaders of the topics' partitions. Raises KafkaError."""
        described = await self.admin.describe_topics(dict.fromkeys(topics), timeout_ms=self.timeout_ms)
        return {
            TopicPartition(topic.name, each.partition): each.leader
            for topic in described.raise_first().values()
            for each in topic.partitions
        }

    def _check(self, chosen: Iterable[TopicPartition], existing: Mapping[TopicPartition, int | None]) -> None:
        """Checks that the partitions exist and have leaders. Raises KafkaError."""
        if unknown := ",".join(f"{each.topic}-{each.partition}" for each in chosen if each not in existing):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f'The partitions "{unknown}" do not exist')
        if leaderless := ",".join(f"{each.topic}-{each.partition}" for each in chosen if existing[each] is None):
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f'The partitions "{leaderless}" have no leader')


async def _committed(reset: OffsetReset) -> Offsets:
    """The offsets that a group of consumers has committed."""
    listed = await reset.admin.list_group_offsets({reset.group: None}, timeout_ms=reset.timeout_ms)
    offsets = listed.value(reset.group).raise_first()
    return {each: found.offset for each, found in offsets.items() if found is not None}


async def planned_offsets(reset: OffsetReset, scenarios: Sequence[str] = SCENARIOS) -> Offsets:
    """The new offsets of a group. Raises KafkaError, ClientError, UsageFailure, ValueError."""
    options = reset.options
    partitions = await reset.partitions()
    scenario = next((name for name in scenarios if name in options), None)
    match scenario:
        case "to-offset":
            return await reset.within_range(dict.fromkeys(partitions, options.value("to-offset")))
        case "to-earliest":
            return await reset.ends(partitions, OffsetSpec.EARLIEST)
        case "to-latest":
            return await reset.ends(partitions, OffsetSpec.LATEST)
        case "shift-by":
            return await reset.within_range(_shifted(partitions, await reset.current(), options.value("shift-by")))
        case "to-datetime":
            return await reset.at(partitions, _time_ms(options.value("to-datetime")))
        case "by-duration":
            return await reset.at(partitions, _time_ago_ms(options.value("by-duration")))
        case "from-file":
            return await reset.within_range(_from_file(options, reset.group))
        case "to-current":
            committed = await reset.current()
            ends = await reset.ends([each for each in partitions if each not in committed], OffsetSpec.LATEST)
            return {each: committed.get(each, ends.get(each, 0)) for each in partitions}
    named = ", ".join(f"[{name}]" for name in scenarios)
    raise options.failure(f"Option '[reset-offsets]' requires one of the following scenarios: [{named}]")


def _shifted(partitions: Iterable[TopicPartition], committed: Offsets, shift: int) -> Offsets:
    for each in partitions:
        if each not in committed:
            raise ValueError(
                f"Cannot shift offset for partition {each.topic}-{each.partition} since there is no current committed "
                "offset"
            )
    return {each: committed[each] + shift for each in partitions}


def _time_ms(text: str) -> int:
    """A time as ISO 8601 has it, in UTC unless it says otherwise. Raises ValueError."""
    if "T" not in text:
        raise ValueError("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    time = datetime.fromisoformat(text)
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _time_ago_ms(text: str) -> int:
    """The time that is this duration ago. Raises ConfigError."""
    reset = read_offset_reset("--by-duration", f"by_duration:{text}")
    assert reset is not None, "a duration"
    return reset.timestamp_at(Environment().now_ms())


def _from_file(options: Options, group: str) -> Offsets:
    """The offsets of a group in the file of --from-file. Raises ValueError, ToolExit."""
    offsets: Offsets = {}
    try:
        rows = [cells for cells in csv.reader(read_file(options.value("from-file")).splitlines()) if cells]
    except csv.Error as error:
        raise ValueError(f"the plan is not CSV: {error}") from error
    for cells in rows:
        if len(cells) not in (3, 4):
            raise ValueError(f"a line of the plan has topic, partition and offset, with or without a group: {cells}")
        name, topic, partition, offset = cells if len(cells) == 4 else [group, *cells]
        if name == group:
            offsets[TopicPartition(topic, integer(partition))] = long(offset)
    if not offsets:
        print_text(f"\nError: No reset plan for group {printable(group)} found")
    return offsets


def _quoted(text: str) -> str:
    text = printable(text)
    is_plain = len(text) <= _UNQUOTED_MAX and all(letter >= _UNQUOTED_FROM for letter in text)
    return text if is_plain else '"' + text.replace('"', '""') + '"'
