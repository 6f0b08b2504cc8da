"""Whatever clients push, Prometheus' own parsers accept the scrape, and no series is lost or there twice."""

from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.metrics import OPEN_METRICS, TEXT, Format, exposition
from broker.metrics.catalogue import METRICS
from broker.metrics.collectors.telemetry import family_of
from broker.metrics.metric import Family
from broker.server.slices import run
from broker.telemetry.otlp import ClientMetric, DataPoint
from broker.telemetry.pushed_metrics import BROKER_BOUNDS, CLIENT_BOUNDS, PushedMetrics
from tests.support.scraped_metrics import Scrape

FORMATS = pytest.mark.parametrize("text_format", [TEXT, OPEN_METRICS], ids=["text", "openmetrics"])

# Names that become one name, or whose endings mean something.
WORDS = ["a", "A", "é", "b", "total", "created", "bucket", "count", "sum", "gsum", "info", "value", ""]
names = st.lists(st.sampled_from(WORDS), max_size=4).flatmap(
    lambda words: st.sampled_from("._- ").map(lambda separator: separator.join(words))
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
attributes = st.dictionaries(
    st.sampled_from(["topic", "a.b", "a_b", "le", "quantile", "__name__", "1st", "client_id", ""]) | texts, texts
)
points = st.builds(DataPoint, attributes.map(lambda named: tuple(named.items())), st.floats())
metrics = st.builds(ClientMetric, names | texts, st.booleans(), st.booleans(), st.lists(points, min_size=1, max_size=2))


def pushed_by(*pushes: Iterable[ClientMetric]) -> PushedMetrics:
    """The series after these pushes, each by a client of its own."""
    pushed = PushedMetrics(CLIENT_BOUNDS, BROKER_BOUNDS)
    for number, metrics_ in enumerate(pushes):
        run(pushed.apply(bytes([number]) * 16, {"client_instance_id": str(number)}, list(metrics_)))
    return pushed


def scraped(pushed: PushedMetrics, text_format: Format) -> Scrape:
    """A scrape with the names of the node's own metrics as well."""
    families: list[Family] = [(metric, []) for metric in METRICS.values()]
    families += map(family_of, pushed.families())
    text = "".join(exposition(families, text_format))
    return Scrape(text, open_metrics=text_format is OPEN_METRICS)


def one(name: str, *, is_counter: bool, value: float = 1) -> ClientMetric:
    return ClientMetric(name, is_counter, False, [DataPoint((), value)])


@FORMATS
@given(pushes=st.lists(st.lists(metrics, max_size=8), max_size=2))
@example(pushes=[[one("a", is_counter=False), one("a", is_counter=True)]])
@example(pushes=[[one("a", is_counter=True)], [one("a.created", is_counter=False)]])
@example(pushes=[[one("a", is_counter=True), one("a.created", is_counter=True)]])
@example(pushes=[[one("a", is_counter=True), one("a.total.total", is_counter=True)]])
@example(pushes=[[one("a", is_counter=True, value=-1), one("b", is_counter=True, value=float("nan"))]])
def test_parsers_accept_all_that_clients_push(text_format: Format, pushes: list[list[ClientMetric]]) -> None:
    pushed = pushed_by(*pushes)
    found = [(name, tuple(sorted(labels.items()))) for name, labels, _ in scraped(pushed, text_format).samples]
    assert len(found) == len(set(found)) == pushed.count


@FORMATS
def test_gauge_and_counter_of_one_name_are_two_series_and_one_of_them_has_the_ending(text_format: Format) -> None:
    pushed = pushed_by([one("lag", is_counter=False, value=3), one("lag", is_counter=True, value=5)])
    scrape = scraped(pushed, text_format)
    assert (scrape.value("kafka_client_lag"), scrape.value("kafka_client_lag_total")) == (3, 5)


def test_counter_has_its_type_again_when_no_gauge_has_its_name() -> None:
    pushed = pushed_by([one("lag", is_counter=False)], [one("lag", is_counter=True)])
    assert scraped(pushed, OPEN_METRICS).types["kafka_client_lag_total"] == "unknown"
    pushed.remove(bytes([0]) * 16)
    assert scraped(pushed, OPEN_METRICS).types["kafka_client_lag"] == "counter"


def test_no_metric_of_the_node_has_a_name_that_clients_can_push() -> None:
    assert not [name for name in METRICS if name.startswith("kafka_client_")]
    assert "kafka_client" not in METRICS
