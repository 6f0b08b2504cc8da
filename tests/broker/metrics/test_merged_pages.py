"""The pages of several brokers, merged into one that Prometheus' own parsers read."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from broker.metrics import OPEN_METRICS, TEXT, Format, Histogram, Sample, counter, exposition, gauge, histogram
from broker.metrics.exposition import label_text
from broker.metrics.merged_pages import merged_page

READS = counter("reads_total", "Reads, with a # HELP in\nthe text", labels=("topic",))
SIZE = gauge("size", "A size")
TIMES = histogram("times_ms", "Times")
ODD = 'a} 1 {,broker="x" \\ \n# HELP size'


def page(text_format: Format, reads: int, *, with_size: bool) -> str:
    times = Histogram((1.0, 2.0))
    times.record(1.5)
    families = [(READS, [Sample((ODD,), reads), Sample(("t",), 0)]), TIMES.single(times.distribution)]
    return "".join(exposition([*families, *([SIZE.single(5)] if with_size else [])], text_format))


@pytest.mark.parametrize(("text_format", "read"), [(TEXT, read_text), (OPEN_METRICS, read_open_metrics)])
def test_each_series_of_each_broker_has_its_label(text_format: Format, read: object) -> None:
    pages = {"1": page(text_format, 7, with_size=False), "2": page(text_format, 8, with_size=True), "3": None}
    text = "".join(merged_page(pages, text_format))
    families = list(read(text))  # type: ignore[operator]
    names = [family.name for family in families]
    assert len(set(names)) == len(names), "one head for each metric"
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }
    assert samples["kraft_broker_up", ("broker", "1")] == samples["kraft_broker_up", ("broker", "2")] == 1
    assert samples["kraft_broker_up", ("broker", "3")] == 0
    assert samples["reads_total", ("broker", "1"), ("topic", ODD)] == 7
    assert samples["reads_total", ("broker", "2"), ("topic", ODD)] == 8
    assert samples["size", ("broker", "2")] == 5
    assert samples["times_ms_count", ("broker", "1")] == 1
    assert len([key for key in samples if key[1] == ("broker", "1")]) == 1 + 2 + 5
    assert text.endswith("# EOF\n") == text_format.is_open_metrics


def test_label_that_a_client_has_pushed_is_renamed_as_prometheus_does() -> None:
    labels = {"broker": "own", "exported_broker": "b", "other": ',broker="'}
    text = "".join(exposition([(SIZE, [Sample(label_text(labels.items()), 5)])], TEXT))
    (family,) = [each for each in read_text("".join(merged_page({"1": text}, TEXT))) if each.name == "size"]
    (sample,) = family.samples
    assert sample.labels == {
        "broker": "1",
        "exported_exported_broker": "own",
        "exported_broker": "b",
        "other": ',broker="',
    }


def test_labels_whose_values_only_look_like_the_label_stay() -> None:
    text = "".join(exposition([(SIZE, [Sample(label_text([("other", "x,broker=")]), 5)])], TEXT))
    (family,) = [each for each in read_text("".join(merged_page({"1": text}, TEXT))) if each.name == "size"]
    assert family.samples[0].labels == {"broker": "1", "other": "x,broker="}
