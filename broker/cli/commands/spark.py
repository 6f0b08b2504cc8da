"""`kraft spark`: the jobs of the data pipeline, on this machine or on any Spark cluster."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from broker.cli.commands.spark_check import check
from broker.cli.commands.spark_session import SparkCommand, source_options, spark_options, spark_session
from broker.cli.grammar import Command, CommandGroup, Invocation
from broker.cli.grammar.arguments import DURATION, RATE, SIZE, Integer
from broker.cli.grammar.completion import complete_topic
from broker.cli.grammar.units import format_count, format_size
from broker.cli.output import Column, list_of, one
from broker.client.consumer.config import ConsumerConfig
from broker.client.producer.config import ProducerConfig
from broker.spark.jobs.results import LoadSummary, ReplaySummary
from broker.spark.jobs.topic_stats import SequenceCounts, TopicStats

if TYPE_CHECKING:
    from broker.spark.jobs.load import LoadProgress

_SCRIPT: Final = "spark_submit.py"
# The configs by which Spark uses the package of a table; the package itself is the user's to name.
TABLE_CONFIGS: Final[Mapping[str, Sequence[str]]] = {
    "parquet": (),
    "delta": (
        "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    ),
    "iceberg": (),
}


def _of_sequences(row: TopicStats, count: Callable[[SequenceCounts], int]) -> str:
    counts = row.measures.sequences
    return "-" if counts is None else f"{count(counts):,}"


STATS_COLUMNS: Final[Sequence[Column[TopicStats]]] = (
    Column("topic", lambda row: row.topic),
    Column("partitions", lambda row: len(row.partitions), is_number=True),
    Column("records", lambda row: f"{row.measures.records:,}", is_number=True),
    Column("bytes", lambda row: format_size(row.measures.bytes), is_number=True),
    Column("records/s", lambda row: f"{row.measures.records_per_second:,.1f}", is_number=True),
    Column("keys", lambda row: f"{row.measures.keys:,}", is_number=True),
    Column("first key", lambda row: f"{row.key_share:.1%}", is_number=True),
    Column("skew", lambda row: f"{row.partition_skew:g}", is_number=True),
    Column("null values", lambda row: f"{row.measures.null_values:,}", is_number=True),
    Column("size p99", lambda row: format_size(row.measures.value_sizes.p99), is_number=True),
    Column("late", lambda row: f"{row.measures.lateness.late:,}", is_number=True),
    Column("late max", lambda row: f"{row.measures.lateness.max_ms:,} ms", is_number=True),
    Column("missing", lambda row: f"{row.measures.missing_offsets:,}", is_number=True),
    Column("duplicates", lambda row: f"{row.measures.duplicate_offsets:,}", is_number=True),
    Column("producers", lambda row: _of_sequences(row, lambda counts: counts.producers), is_number=True),
    Column("seq missing", lambda row: _of_sequences(row, lambda counts: counts.missing), is_number=True),
    Column("seq duplicates", lambda row: _of_sequences(row, lambda counts: counts.duplicates), is_number=True),
)


@attrs.frozen
class SubmitScript:
    """Where the script for spark-submit is."""

    path: str


@click.group("spark", cls=CommandGroup)
def spark() -> None:
    """Run the data pipeline with Spark: topics to files and back, statistics, checks."""


@spark.command("load", cls=SparkCommand, shape=one(LoadSummary))
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topic)
@click.option("--to", "destination", required=True, metavar="DIR", help="Directory of the files: a path or URI.")
@click.option(
    "--table",
    "table_format",
    type=click.Choice(sorted(TABLE_CONFIGS)),
    default="parquet",
    help="Plain files, or a table of Delta Lake or Iceberg; these need a package of their own (--conf).",
)
@click.option("--table-name", metavar="NAME", help="Iceberg: the table in a catalog, such as lake.events.orders.")
@click.option(
    "--by", "granularity", type=click.Choice(["date", "hour"]), default="date", help="How a topic is divided; by date."
)
@click.option("--event-time", metavar="SQL", help="A record's time, such as value.at; default: its timestamp.")
@click.option(
    "--format",
    "value_format",
    type=click.Choice(["binary", "json", "avro"]),
    default="binary",
    help="The format of values.",
)
@click.option("--schema", metavar="SCHEMA", help="The values' schema, as DDL or @FILE; by default JSON's is inferred.")
@click.option("--headers", "has_headers", is_flag=True, help="Keep the records' headers.")
@click.option(
    "--producer", "has_producers", is_flag=True, help="Keep producer ids, epochs and sequence numbers, for stats."
)
@click.option(
    "--records-per-run",
    type=Integer(1),
    default=10_000_000,
    metavar="N",
    help="Records that one run loads at most.",
)
@click.option("--file-size", type=SIZE, default="128MiB", metavar="SIZE", help="Files are joined up to this size.")
@click.option(
    "--compact-from",
    type=Integer(0),
    default=16,
    metavar="N",
    help="Join this number of small files; 0: never.",
)
@click.option("--allow-loss", is_flag=True, help="Continue if records were deleted before they were loaded.")
@click.option("--follow", is_flag=True, help="Continue with new records, until Ctrl-C or the end of --for.")
@click.option("--every", type=DURATION, default="10s", metavar="TIME", help="With --follow: the time between runs.")
@click.option("--for", "duration", type=DURATION, metavar="TIME", help="With --follow: end after this time.")
@spark_options
def load(invocation: Invocation, master: str | None, confs: tuple[str, ...], allow_loss: bool, **options: Any) -> None:
    """Load topics into Parquet files or a table, each record once, and go on where the last load ended.

    The files are in topic=NAME/date=DAY. Rows whose value does not fit the schema are in _quarantine.
    """
    confs = (*TABLE_CONFIGS[options["table_format"]], *confs)
    source = {**source_options(invocation.cluster(), ConsumerConfig), "failOnDataLoss": str(not allow_loss).lower()}
    ends_at = _end(options.pop("follow"), options.pop("duration"))
    every_seconds = options.pop("every") / 1000
    with spark_session(invocation, "kraft load", master, confs) as session:
        from broker.spark.jobs import load as jobs

        options["table_format"] = jobs.TableFormat(options["table_format"])
        options["granularity"] = jobs.Granularity(options["granularity"])
        options["value_format"] = jobs.ValueFormat(options["value_format"])
        options["value_schema"] = _schema(options.pop("schema"))
        wanted = jobs.LoadOptions(**options)
        summary = jobs.load(
            session,
            wanted,
            source,
            report=lambda progress: invocation.printer.note(_progress_line(progress)),
            ends_at=ends_at,
            every_seconds=every_seconds,
        )
    lines = [
        f"{_records(summary.records)} in {format_count(summary.runs, 'run')}, {summary.quarantined:,} in quarantine",
        f"{format_count(summary.files, 'file', has_separators=True)}, {format_size(summary.bytes)}; "
        f"{format_count(summary.compactions, 'compaction')}",
        f"{summary.seconds:g} s",
    ]
    invocation.printer.one(summary, lines if summary.runs else ["nothing new"])


@spark.command("replay", cls=SparkCommand, shape=one(ReplaySummary))
@click.argument("source", metavar="DIR")
@click.option(
    "--to", "topic", required=True, metavar="TOPIC", shell_complete=complete_topic, help="The topic to write to."
)
@click.option("--where", metavar="SQL", help="Which records, such as \"topic = 'orders' and date >= '2026-01-01'\".")
@click.option("--rate", type=RATE, metavar="N", help="Records a second at most.")
@click.option("--order-by", multiple=True, metavar="COLUMN", help="Orders the records of a key; default: offsets.")
@click.option("--keep-partitions", "keeps_partitions", is_flag=True, help="Write each record to its old partition.")
@spark_options
def replay(invocation: Invocation, master: str | None, confs: tuple[str, ...], **options: Any) -> None:
    """Write the records of Parquet files to a topic, in order per key.

    DIR is what `kraft spark load` has written, or any Parquet with columns key and value.
    """
    sink = source_options(invocation.cluster(), ProducerConfig)
    with spark_session(invocation, "kraft replay", master, confs) as session:
        from broker.spark.jobs import replay as jobs

        options["order_by"] = options["order_by"] or None
        summary = jobs.replay(session, jobs.ReplayOptions(**options), sink)
    invocation.printer.one(summary, [f"{_records(summary.records)} in {summary.seconds:g} s"])


@spark.command("stats", cls=SparkCommand, shape=list_of(TopicStats))
@click.argument("topics", nargs=-1, shell_complete=complete_topic)
@click.option("--files", metavar="DIR", help="Read files that `kraft spark load` has written, in place of the cluster.")
@click.option("--page", type=click.Path(dir_okay=False), metavar="FILE", help="Write an HTML page with plots, too.")
@click.option("-n", "--records", type=Integer(1), metavar="N", help="Read only the last N records of the cluster.")
@spark_options
def stats(
    invocation: Invocation,
    topics: tuple[str, ...],
    files: str | None,
    page: str | None,
    records: int | None,
    master: str | None,
    confs: tuple[str, ...],
) -> None:
    """Show what the records of topics are like: rates, keys, sizes, lateness, gaps, duplicates."""
    if not topics and files is None:
        raise click.UsageError("Name a topic, or --files.", click.get_current_context())
    settings = invocation.cluster()
    with spark_session(invocation, "kraft stats", master, confs) as session:
        from broker.spark.jobs import stats as jobs

        if files is None:
            found = jobs.topic_stats(session, topics, source_options(settings, ConsumerConfig), records_max=records)
        else:
            found = jobs.file_stats(session, files, topics)
        if page is not None:
            Path(page).write_text(jobs.render_page(found, files or settings.bootstrap_servers))
            invocation.printer.note(f"the page is {page}")
    invocation.printer.rows(found, STATS_COLUMNS, empty="no records")
    for line in _sequence_findings(found):
        invocation.printer.note(line)


@spark.command("script", cls=Command, shape=one(SubmitScript))
def script(invocation: Invocation) -> None:
    """Print the path of the script that runs these commands with spark-submit.

    \b
    spark-submit --master spark://host:7077 $(kraft spark script) load orders --to s3a://bucket/orders
    """
    path = str(Path(__file__).parent.parent / _SCRIPT)
    invocation.printer.one(SubmitScript(path), [path])


spark.add_command(check)


def _sequence_findings(topics: Sequence[TopicStats]) -> Iterator[str]:
    """A line about each partition that has lost records, or has some twice."""
    for topic in topics:
        for each in topic.partitions:
            counts = each.measures.sequences
            if counts is not None and (counts.missing or counts.duplicates):
                yield (
                    f"{topic.topic}-{each.partition}: missing sequence numbers: {counts.missing:,}, "
                    f"gaps: {counts.gaps:,}, duplicate records: {counts.duplicates:,}"
                )


def _end(follows: bool, duration_ms: int | None) -> Callable[[], bool] | None:
    """The stop request for a load that follows its topics; None for a load that ends by itself."""
    if not follows:
        return None
    began = time.monotonic()
    return lambda: duration_ms is not None and time.monotonic() - began >= duration_ms / 1000


def _schema(given: str | None) -> str | None:
    return Path(given[1:]).read_text() if given is not None and given.startswith("@") else given


def _records(number: int) -> str:
    return format_count(number, "record", has_separators=True)


def _progress_line(progress: "LoadProgress") -> str:
    manifest, seconds = progress.manifest, progress.seconds
    quarantined = f", {manifest.quarantined:,} in quarantine" if manifest.quarantined else ""
    return (
        f"run {manifest.run}: {_records(manifest.records)}{quarantined}, {format_size(manifest.size)} in "
        f"{format_count(manifest.files, 'file')}, {manifest.records / seconds:,.0f} records/s; "
        f"{progress.records_left:,} left"
    )
