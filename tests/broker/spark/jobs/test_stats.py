"""`stats`: the measurements of topics, and the page that shows them."""

from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyspark.sql import SparkSession

from broker.spark.jobs.load import LoadOptions, load
from broker.spark.jobs.results import JobFailed
from broker.spark.jobs.stats import file_stats, render_page, topic_stats
from broker.spark.jobs.stats.measure import interval_of
from broker.spark.jobs.stats.plots import plot_bars, plot_over_time
from broker.spark.jobs.topic_stats import SequenceCounts
from tests.support.job_topics import DAY_MS, JobTopics

SCHEMA = "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary"


def test_topic_is_measured_by_partition_and_as_a_whole(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    topic = topics.create("measured", 2)
    regular = [
        {
            "value": b"x" * (10 + number % 10),
            "key": b"hot" if number % 2 else b"k%d" % number,
            "partition": 0,
            "timestamp_ms": DAY_MS + number * 100,
        }
        for number in range(100)
    ]
    special = [
        {"value": None, "key": None, "partition": 1, "timestamp_ms": DAY_MS + 5_000},
        {"value": b"late", "key": b"l", "partition": 1, "timestamp_ms": DAY_MS + 1_500},
    ]
    topics.write(topic, [*regular, *special])
    (found,) = topic_stats(spark, [topic], topics.options)
    whole = found.measures
    assert (whole.records, whole.null_keys, whole.null_values) == (102, 1, 1)
    assert (whole.first_ms, whole.last_ms) == (DAY_MS, DAY_MS + 9_900)
    assert whole.bytes == sum(len(each["key"] or b"") + len(each["value"] or b"") for each in [*regular, *special])  # type: ignore[arg-type]
    assert 50 <= whole.keys <= 54
    assert (whole.value_sizes.max, whole.value_sizes.p50) == (19, 14)
    assert (whole.lateness.late, whole.lateness.max_ms, whole.lateness.p99_ms) == (1, 3_500, 3_500)
    assert (whole.gaps, whole.missing_offsets, whole.duplicate_offsets) == (0, 0, 0)
    assert [(each.partition, each.first_offset, each.last_offset) for each in found.partitions] == [
        (0, 0, 99),
        (1, 0, 1),
    ]
    assert found.partitions[1].measures.lateness.late == 1
    assert (found.top_keys[0].key, found.top_keys[0].records) == ("hot", 50)
    assert found.key_share == round(50 / 101, 6)
    assert found.partition_skew == round(100 / 51, 3)
    assert found.interval_ms == 1_000
    assert sum(point.records for point in found.rates) == 102

    destination = str(tmp_path / "out")
    load(spark, LoadOptions((topic,), destination, has_producers=True), topics.options)
    assert file_stats(spark, destination) == [found]
    (last,) = topic_stats(spark, [topic], topics.options, records_max=51)
    assert last.measures.records == 51
    assert last.measures.sequences == SequenceCounts(producers=1, records=51, duplicates=0, gaps=0, missing=0)
    assert topic_stats(spark, [topics.create("without.records")], topics.options) == []


def test_gaps_and_duplicates_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("t", 0, offset, None, None, b"v") for offset in (3, 4, 4, 8, 9, 12)]
    spark.createDataFrame(rows, SCHEMA).write.parquet(str(tmp_path / "records"))
    (found,) = file_stats(spark, str(tmp_path / "records"), ["t"])
    assert (found.measures.gaps, found.measures.missing_offsets, found.measures.duplicate_offsets) == (2, 5, 1)
    assert found.measures.sequences is None
    assert found.measures.first_ms is None
    assert found.rates == []
    page = render_page([found], "files")
    assert "no record has a time" in page
    assert "<td>-</td><td>-</td><td>-</td></tr>" in page
    spark.range(1).write.parquet(str(tmp_path / "other"))
    with pytest.raises(JobFailed, match="has no column topic"):
        file_stats(spark, str(tmp_path / "other"))


def test_page_is_whole_html_with_plots_and_needs_no_network(spark: SparkSession, topics: JobTopics) -> None:
    topic = topics.create("shown")
    topics.write(topic, [{"value": b"v", "key": b"<b>&", "timestamp_ms": DAY_MS + n * 900} for n in range(20)])
    page = render_page(topic_stats(spark, [topic], topics.options), "a cluster & more")
    checker = _Tags()
    checker.feed(page)
    assert checker.open == []
    assert checker.count["svg"] == 4
    assert "http" not in page
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page


def test_plots_are_well_formed_and_show_missing_intervals_as_zero() -> None:
    plot = plot_over_time([(0, 5.0), (3_000, 1_200.0)], 1_000, "records/s")
    titles = [each.text for each in ElementTree.fromstring(plot).iter("title")]
    assert len(titles) == 4
    assert titles[1] == "1970-01-01 00:00:01: 0 records/s"
    assert titles[3] == "1970-01-01 00:00:03: 1.2k records/s"
    bars = ElementTree.fromstring(plot_bars([("a" * 40, 3.0), ("<&>", 0.0)], "records"))
    assert [each.text for each in bars.iter("title")] == [f"{'a' * 40}: 3 records", "<&>: 0 records"]
    assert plot_over_time([], 1_000, "x") == plot_bars([], "x") == ""


@pytest.mark.parametrize(
    ("span_ms", "interval_ms"),
    [(0, 1_000), (120_000, 1_000), (120_001, 5_000), (86_400_000, 900_000), (10**13, 2_592_000_000)],
)
def test_interval_leaves_a_plot_readable(span_ms: int, interval_ms: int) -> None:
    assert interval_of(span_ms) == interval_ms


class _Tags(HTMLParser):
    """The open tags, and the number of all tags."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
