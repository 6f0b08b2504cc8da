"""`kraft consume`: read records, print them, follow topics."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import attrs
import click

from broker.cli.commands.consume_range import Range, Start, find_ranges, parse_start
from broker.cli.grammar import ClusterCommand, Invocation
from broker.cli.grammar.arguments import TOPIC_PARTITIONS, Integer, Parsed, TopicPartitions, parse_time
from broker.cli.grammar.clients import open_admin, open_consumer
from broker.cli.grammar.command import shown_item
from broker.cli.grammar.completion import complete_group
from broker.cli.grammar.partitions import find_partitions
from broker.cli.grammar.settings import ClusterSettings
from broker.cli.output import lines_of
from broker.cli.output.progress import Progress
from broker.cli.output.record_format import RecordFormat, check_format, compile_format
from broker.cli.output.record_json import JsonRecord, json_record
from broker.cli.output.shapes import to_json
from broker.client.consumer.consumer import Consumer
from broker.client.types import ConsumerRecord, TopicPartition
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import real_env

IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]

ISOLATION_LEVEL: Final = "isolation.level"
FORMAT: Final = Parsed("format", check_format)
# The prefix that shows the origin of a record where several topics are read.
_FORMAT_OF_ONE: Final = "%s\\n"
_FORMAT_OF_MANY: Final = "%t-%p@%o %s\\n"
# Cyan, green, yellow, magenta, blue, red, as terminals number them.
_COLOURS: Final = (36, 32, 33, 35, 34, 31)
_FETCH_RECORDS: Final = 2_000
# How often the end is looked for where no records come.
_LOOK_S: Final = 0.2


@attrs.frozen
class Filters:
    """Which records are printed. A header is a name, or a name and a value."""

    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]

    def pass_(self, record: ConsumerRecord) -> bool:
        if self.key is not None and record.key != self.key:
            return False
        return all(
            any(name == wanted and (value is None or content == value) for name, content in record.headers)
            for wanted, value in self.headers
        )


@click.command("consume", cls=ClusterCommand, shape=lines_of(JsonRecord))
@click.argument("topics", nargs=-1, required=True, type=TOPIC_PARTITIONS, metavar="TOPIC[:PARTITION,...]...")
@click.option(
    "-o",
    "--offset",
    default="beginning",
    metavar="OFFSET",
    help="Where to begin: beginning (default), end, 42, -10 for the last ten, or @TIME as in @-2h.",
)
@click.option("--until", metavar="TIME", help="Stop before the first record since a time: 2026-01-31T08:00, or -1h.")
@click.option("-e", "--exit", "stops_at_end", is_flag=True, help="Stop at the current end offsets.")
@click.option("-n", "--count", type=Integer(1), metavar="N", help="Stop after this number of records.")
@click.option(
    "-f",
    "--format",
    "record_format",
    type=FORMAT,
    metavar="FORMAT",
    help="Output format as in kcat: '%t %p %o %k %s\\n'.",
)
@click.option(
    "--raw",
    is_flag=True,
    help="Print bytes as they are on a terminal, too; by default escapes stand for what it obeys.",
)
@click.option("-k", "--key", metavar="KEY", help="Only records with this key.")
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    shell_complete=complete_group,
    help="Read as a group member; the group assigns partitions and stores offsets; --offset applies if none is stored. "
    "Excludes --exit, --until, partitions, and offsets other than beginning and end.",
)
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME[=VALUE]", help="Only records with this header.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="read_committed leaves out records of open and aborted transactions; default read_uncommitted.",
)
async def consume(
    invocation: Invocation,
    topics: Sequence[TopicPartitions],
    offset: str,
    until: str | None,
    stops_at_end: bool,
    count: int | None,
    record_format: str | None,
    raw: bool,
    key: str | None,
    headers: Sequence[str],
    group: str | None,
    isolation_level: IsolationLevel | None,
) -> None:
    """Print the records of topics, and follow them until Ctrl-C, a count or an end.

    \b
    Tokens of --format: %t topic, %p partition, %o offset, %k key, %s value, %h headers, %K and %S lengths of key and
    value, %T timestamp in ms, %D date, %e leader epoch, %%; \\n, \\t, \\0 and \\xHH.
    """
    start, until_ms = _parse_times(offset, until)
    settings, is_committed = _with_isolation_level(invocation.cluster(), isolation_level)
    names = list(dict.fromkeys(topic for topic, _ in topics))
    write = _writer(names, record_format, is_json=invocation.printer.is_json, is_raw=raw)
    filters = Filters(None if key is None else key.encode(), [_header(text) for text in headers])
    if group is not None:
        _check_member(topics, start, has_end=stops_at_end or until is not None)
        await _read_as_member(settings, group, names, start, count, filters, write)
        return
    async with open_admin(settings) as admin:
        partitions = await find_partitions(admin, topics)
        ranges, errors = await find_ranges(admin, partitions, start, until_ms, stops_at_end, is_committed=is_committed)
    _report_left_out(invocation, errors)
    # If the offset has been deleted meanwhile, reading begins at the first one that is left.
    async with open_consumer(settings, {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}) as consumer:
        await _print_records(consumer, ranges, count, filters, write)


def _report_left_out(invocation: Invocation, errors: Mapping[TopicPartition, Exception]) -> None:
    for partition, error in errors.items():
        invocation.fail(error, f"partition {shown_item(partition)}, which is left out")


async def _fetch(consumer: Consumer, records_max: int, timeout_s: float | None = None) -> list[ConsumerRecord]:
    """The next records. Raises ClientError, KafkaError, that of damaged records with what to do."""
    try:
        return list(await consumer.fetch(records_max, timeout_s=timeout_s))
    except KafkaError as error:
        if error.code == ErrorCode.CORRUPT_MESSAGE:
            error.add_note("`kraft cluster health` shows the damaged offsets; `-o OFFSET` goes on after them")
        raise


def _with_isolation_level(settings: ClusterSettings, level: IsolationLevel | None) -> tuple[ClusterSettings, bool]:
    """Put the isolation level into the settings, if one was given. Return True if only committed records are read."""
    if level is not None:
        settings = attrs.evolve(settings, configs={**settings.configs, ISOLATION_LEVEL: level})
    return settings, settings.configs.get(ISOLATION_LEVEL) == "read_committed"


def _parse_times(offset: str, until: str | None) -> tuple[Start, int | None]:
    """Parse the start and the time to stop at. Raises UsageError."""
    now_ms = int(real_env(lambda kind, /, **fields: None).wall() * 1000)
    try:
        start = parse_start(offset, now_ms)
    except ValueError as error:
        raise click.UsageError(f"{error}.", click.get_current_context()) from error
    return start, None if until is None else parse_time(until, now_ms)


def _check_member(topics: Sequence[TopicPartitions], start: Start, *, has_end: bool) -> None:
    """Checks that no option contradicts membership in a group. Raises UsageError."""
    chooses_offset = start.offset is not None or start.time_ms is not None
    if has_end or chooses_offset or any(numbers is not None for _, numbers in topics):
        raise click.UsageError(
            "A group chooses partitions and offsets: with --group, leave out --exit, --until, partitions, and offsets "
            "other than beginning and end.",
            click.get_current_context(),
        )


async def _read_as_member(
    settings: ClusterSettings,
    group: str,
    topics: Sequence[str],
    start: Start,
    count: int | None,
    filters: Filters,
    write: Callable[[Iterable[ConsumerRecord]], None],
) -> None:
    """Read as a member of a group until `count` records are printed. The offsets of printed records are committed."""
    async with open_admin(settings):
        pass  # it answers
    reset = "latest" if start.is_at_end else "earliest"
    async with open_consumer(settings, {"group.id": group, "auto.offset.reset": reset}) as consumer:
        consumer.subscribe(topics)
        printed = 0
        while count is None or printed < count:
            left = _FETCH_RECORDS if count is None else min(_FETCH_RECORDS, count - printed)
            chosen = [record for record in await _fetch(consumer, left) if filters.pass_(record)]
            write(chosen)
            printed += len(chosen)


async def _print_records(
    consumer: Consumer,
    ranges: Mapping[TopicPartition, Range],
    count: int | None,
    filters: Filters,
    write: Callable[[Iterable[ConsumerRecord]], None],
) -> None:
    """Print records until all ranges are read to their ends, or `count` records are printed."""
    open_ends = {partition: each for partition, each in ranges.items() if each.end is None or each.begin < each.end}
    consumer.assign(open_ends)
    for partition, each in open_ends.items():
        consumer.seek(partition, each.begin)
    has_ends = all(each.end is not None for each in open_ends.values())
    total = sum((each.end or each.begin) - each.begin for each in open_ends.values()) if has_ends else None
    with Progress("Reading", total, "offsets", is_shown=not sys.stdout.isatty()) as progress:
        printed, left = 0, dict(open_ends)
        while left and (count is None or printed < count):
            records = await _fetch(consumer, _FETCH_RECORDS, _LOOK_S if has_ends else None)
            chosen = [record for record in records if _is_wanted(record, left) and filters.pass_(record)]
            if count is not None:
                chosen = chosen[: count - printed]
            write(chosen)
            printed += len(chosen)
            positions = {partition: await consumer.position(partition) for partition in left} if has_ends else {}
            ended = [partition for partition, position in positions.items() if position >= (left[partition].end or 0)]
            for partition in ended:
                del left[partition]
            consumer.pause(ended)
            progress.show(_done(open_ends, left, positions))


def _is_wanted(record: ConsumerRecord, left: Mapping[TopicPartition, Range]) -> bool:
    wanted = left.get(TopicPartition(record.topic, record.partition))
    return wanted is not None and (wanted.end is None or record.offset < wanted.end)


def _done(
    ranges: Mapping[TopicPartition, Range],
    left: Mapping[TopicPartition, Range],
    positions: Mapping[TopicPartition, int],
) -> int:
    """Return how many offsets of the ranges have been read."""
    done = 0
    for partition, each in ranges.items():
        end = each.begin if each.end is None else each.end
        done += (positions.get(partition, each.begin) if partition in left else end) - each.begin
    return done


def _writer(
    topics: Sequence[str], given: str | None, *, is_json: bool, is_raw: bool
) -> Callable[[Iterable[ConsumerRecord]], None]:
    """Returns a function that writes records to standard output, each chunk completely."""
    form = _form(topics, given, is_json=is_json, is_raw=is_raw)

    def write(records: Iterable[ConsumerRecord]) -> None:
        left = memoryview(b"".join(map(form, records)))
        # With PYTHONUNBUFFERED the buffer is the bare file, which may take a part only.
        while left:
            left = left[sys.stdout.buffer.write(left) :]
        sys.stdout.buffer.flush()

    return write


def _form(topics: Sequence[str], given: str | None, *, is_json: bool, is_raw: bool) -> RecordFormat:
    if is_json:
        return lambda record: to_json(json_record(record)).encode() + b"\n"
    text = given or (_FORMAT_OF_ONE if len(topics) == 1 else _FORMAT_OF_MANY)
    is_terminal = sys.stdout.isatty()
    form = compile_format(text, is_rendered=is_terminal and not is_raw)
    if len(topics) == 1 or not is_terminal or os.environ.get("NO_COLOR"):
        return form
    colours = {topic: b"\x1b[%dm" % _COLOURS[index % len(_COLOURS)] for index, topic in enumerate(topics)}

    def in_colour(record: ConsumerRecord) -> bytes:
        line = form(record)
        body = line.rstrip(b"\n")
        return colours[record.topic] + body + b"\x1b[0m" + line[len(body) :]

    return in_colour


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    return name, value.encode() if equals else None
