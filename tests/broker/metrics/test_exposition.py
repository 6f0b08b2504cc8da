"""The text of a scrape, read by Prometheus' own parsers."""

from collections.abc import Callable, Iterable
from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric as ParsedMetric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from broker.metrics import OPEN_METRICS, TEXT, Format, Histogram, Sample, counter, exposition, gauge, histogram
from broker.metrics.catalogue import METRICS
from broker.metrics.exposition import STEP_SAMPLES
from broker.metrics.metric import Family, MetricType, Value

PARSERS: dict[Format, Callable[[str], Iterable[ParsedMetric]]] = {
    TEXT: text_string_to_metric_families,
    OPEN_METRICS: openmetrics_parser.text_string_to_metric_families,
}
FORMATS = pytest.mark.parametrize("text_format", [TEXT, OPEN_METRICS], ids=["text", "openmetrics"])

READS = counter("reads_total", "Reads of \\ a thing\nand more", labels=("topic", "kind"))
SIZE = gauge("size", 'The "size"')
TIME = histogram("time_ms", "A time", labels=("request",))


def parsed(text_format: Format, *families: Family) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = "".join(exposition(families, text_format))
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in PARSERS[text_format](text)
        for sample in family.samples
    }


@FORMATS
def test_values_and_labels_are_read_back(text_format: Format) -> None:
    samples = [Sample(("orders", "first"), 3), None, Sample(('a\\b"c\nd', "é"), 2**60)]
    assert parsed(text_format, (READS, samples), SIZE.single(1.5)) == {
        ("reads_total", (("kind", "first"), ("topic", "orders"))): 3,
        ("reads_total", (("kind", "é"), ("topic", 'a\\b"c\nd'))): 2**60,
        ("size", ()): 1.5,
    }


@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.just("\n")))
def test_any_label_value_is_read_back(text: str) -> None:
    assert parsed(TEXT, (READS, [Sample((text, "x"), 1)])) == {("reads_total", (("kind", "x"), ("topic", text))): 1}


@FORMATS
@pytest.mark.parametrize("value", [inf, -inf, nan, 0, -1, 1e300, 0.1])
def test_any_number_is_read_back(text_format: Format, value: Value) -> None:
    (read,) = parsed(text_format, SIZE.single(value)).values()
    assert read == value or (isnan(read) and value != value)


@FORMATS
def test_histograms_count_up_to_each_bound(text_format: Format) -> None:
    times = Histogram((1, 2.5, 10))
    for value, weight in ((0.5, 1), (1, 2), (2, 1), (10.5, 4)):
        times.record(value, weight)
    read = parsed(text_format, (TIME, [Sample(("Fetch",), times.distribution)]))
    bounds = {dict(labels)["le"]: value for (name, labels), value in read.items() if name == "time_ms_bucket"}
    assert {float(bound): value for bound, value in bounds.items()} == {1: 3, 2.5: 4, 10: 4, inf: 8}
    assert read["time_ms_count", (("request", "Fetch"),)] == 8
    assert read["time_ms_sum", (("request", "Fetch"),)] == 0.5 + 2 + 2 + 42


def test_large_families_are_written_in_steps() -> None:
    many = (Sample((str(number), "x"), number) for number in range(10 * STEP_SAMPLES))
    pieces = list(exposition([(READS, many)], TEXT))
    assert 11 <= len(pieces) <= 12
    assert max(map(len, pieces)) < 64 * 100


def test_the_catalogue_follows_the_conventions_of_prometheus() -> None:
    for metric in METRICS.values():
        assert metric.help
        assert not metric.help.endswith(".")
        assert len(set(metric.labels)) == len(metric.labels)
        assert not {"le", "job", "instance"} & set(metric.labels)
        if metric.type is not MetricType.COUNTER:
            assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket", "_created", "_info")) or (
                metric.type is MetricType.GAUGE
            )
