"""OTLP's metrics, as clients push them: what is read, and what is refused."""

import contextlib
from math import inf
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.server.slices import run
from broker.telemetry.otlp import (
    ATTRIBUTES_MAX,
    FIELDS_BASE,
    FIELDS_PER_POINT,
    PIECE_FIELDS_MAX,
    POINTS_MAX,
    STEP_FIELDS,
    TEXT_MAX,
    ClientMetric,
    DataPoint,
    DecodedMetrics,
    Decoder,
    MalformedMetrics,
    TooLargeMetrics,
)
from tests.support.otlp import CUMULATIVE, DELTA, attributes, counter, field, gauge, metrics_data, point, varint


def decoded(data: bytes) -> DecodedMetrics:
    return run(Decoder(data).steps())


def test_gauges_and_counters_are_decoded_with_the_attributes_of_their_resource() -> None:
    data = metrics_data(
        gauge("queue", point(1.5, node_id="1"), point(-7)),
        counter("sent", point(3, topic="t"), temporality=DELTA),
        counter("level", point(2**40), is_monotonic=False),
        group_id="g",
    )
    resource = ("group_id", "g")
    assert decoded(data).metrics == [
        ClientMetric("queue", False, False, [DataPoint((resource, ("node_id", "1")), 1.5), DataPoint((resource,), -7)]),
        ClientMetric("sent", True, True, [DataPoint((resource, ("topic", "t")), 3)]),
        ClientMetric("level", False, False, [DataPoint((resource,), 2**40)]),
    ]


def test_resource_may_follow_its_metrics() -> None:
    scope = field(2, gauge("m", point(1)))
    data = field(1, field(2, scope) + field(1, attributes(1, {"rack": "r"})))
    assert decoded(data).metrics[0].points == [DataPoint((("rack", "r"),), 1)]


def test_values_of_attributes_have_several_types() -> None:
    values = {"text": field(1, "t"), "truth": field(2, 1), "number": field(3, 2**64 - 5), "real": field(4, 0.5)}
    nested = {"list": field(5, field(1, field(1, "x"))), "map": field(6, b""), "bytes": field(7, b"x"), "none": b""}
    encoded = b"".join(field(7, field(1, name) + field(2, value)) for name, value in {**values, **nested}.items())
    data = metrics_data(gauge("m", encoded + field(4, 1.0)))
    assert dict(decoded(data).metrics[0].points[0].attributes) == {
        "text": "t",
        "truth": "true",
        "number": "-5",
        "real": "0.5",
    }


def test_other_kinds_of_metrics_are_counted_and_skipped() -> None:
    kinds = [field(1, "m") + field(kind, b"") for kind in (9, 10, 11)]
    found = decoded(metrics_data(*kinds, gauge("g", point(1))))
    assert (found.skipped, [metric.name for metric in found.metrics]) == (3, ["g"])


def test_point_without_a_value_is_left_out() -> None:
    assert decoded(metrics_data(gauge("g", attributes(7, {"a": "b"})))).metrics[0].points == []


def test_unknown_fields_are_ignored() -> None:
    unknown = field(90, 5) + field(91, "x") + field(92, 1.0) + varint(93 << 3 | 5) + bytes(4)
    data = metrics_data(unknown + gauge("g", unknown + point(inf))) + unknown
    assert decoded(data).metrics == [ClientMetric("g", False, False, [DataPoint((), inf)])]


def test_long_texts_are_cut() -> None:
    data = metrics_data(gauge("n" * 2 * TEXT_MAX, point(1, a="v" * 2 * TEXT_MAX)))
    metric = decoded(data).metrics[0]
    assert (metric.name, metric.points[0].attributes) == ("n" * TEXT_MAX, (("a", "v" * TEXT_MAX),))


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",  # a length is missing
        b"\x0a\x05abc",  # a message is cut
        field(1, 5),  # a number instead of a message
        varint(1 << 3 | 3),  # the group of an old format
        varint(0 << 3 | 0) + b"\0",
        b"\x80" * 11,
        b"\xff" * 10,
        metrics_data(gauge("", point(1))),
        metrics_data(gauge("", *[])),
        metrics_data(field(1, b"\xff\xfe") + gauge("g", point(1))),
        metrics_data(field(1, "m") + field(5, field(1, varint(4 << 3 | 1) + b"\0\0\0\0"))),
        metrics_data(counter("c", point(1), temporality=0)),
        metrics_data(counter("c", point(1), temporality=3)),
        metrics_data(gauge("g", point(1, **{f"a{index}": "x" for index in range(ATTRIBUTES_MAX + 1)}))),
        metrics_data(gauge("g", varint(6 << 3) + varint(1))),
    ],
)
def test_malformed_metrics_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMetrics):
        decoded(data)


def test_number_of_data_points_is_bounded() -> None:
    one = point(1)
    assert decoded(metrics_data(gauge("g", *[one] * POINTS_MAX))).points == POINTS_MAX
    with pytest.raises(TooLargeMetrics):
        decoded(metrics_data(gauge("g", *[one] * POINTS_MAX), gauge("h", one)))


EMPTY_MESSAGES = {
    "resources": field(1, b"") * 1_000_000,
    "attributes of a resource": field(1, field(1, field(1, b"") * 1_000_000)),
    "fields of an attribute": field(1, field(1, field(1, field(3, 0) * 1_000_000))),
    "fields of an attribute's value": field(1, field(1, field(1, field(2, field(2, 0) * 1_000_000)))),
    "scopes": field(1, field(2, b"") * 1_000_000),
    "metrics": field(1, field(2, field(2, b"") * 1_000_000)),
    "names of a metric": metrics_data(field(1, "") * 1_000_000),
    "histograms": metrics_data(field(9, b"") * 1_000_000),
    "types of a sum": metrics_data(field(1, "m") + field(7, field(2, 1) * 1_000_000)),
    "points": metrics_data(field(1, "m") + field(5, field(1, b"") * 1_000_000)),
    "values of a point": metrics_data(gauge("m", field(3, 0) * 1_000_000)),
    "attributes of a point": metrics_data(gauge("m", field(7, b"") * 1_000_000)),
    "unknown fields": field(99, 0) * 1_000_000,
}


def hardest_step(data: bytes) -> tuple[int, int]:
    """The numbers of fields that the decoder reads in all, and in one step, before it refuses the data or has read it.

    A field is what the decoder's `_fields` counts.
    """
    decoder = Decoder(data)
    before = hardest = 0
    with contextlib.suppress(TooLargeMetrics):
        for _ in decoder.steps():
            hardest = max(hardest, decoder.fields_read - before)
            before = decoder.fields_read
    return decoder.fields_read, max(hardest, decoder.fields_read - before)


@pytest.mark.parametrize("shape", EMPTY_MESSAGES)
def test_million_empty_messages_are_refused_after_few_fields(shape: str) -> None:
    fields, hardest = hardest_step(EMPTY_MESSAGES[shape])
    assert fields <= FIELDS_BASE + FIELDS_PER_POINT * (POINTS_MAX + 1)
    assert hardest <= PIECE_FIELDS_MAX + STEP_FIELDS
    with pytest.raises(TooLargeMetrics):
        decoded(EMPTY_MESSAGES[shape])


def test_large_push_is_decoded_in_short_steps() -> None:
    named = {f"a{index}": "x" for index in range(10)}
    data = metrics_data(*[gauge(f"g{index}", point(1, **named)) for index in range(1000)])
    fields, hardest = hardest_step(data)
    assert fields > 40 * 1000
    assert hardest <= 50 + STEP_FIELDS


@given(st.text(min_size=TEXT_MAX, max_size=2 * TEXT_MAX))
def test_long_text_is_cut_between_characters(text: str) -> None:
    data = metrics_data(gauge("m", point(1, a=text)))
    assert dict(decoded(data).metrics[0].points[0].attributes) == {"a": text[:TEXT_MAX]}


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(data: bytes) -> None:
    with contextlib.suppress(MalformedMetrics):
        decoded(data)


@given(st.data())
def test_damaged_push_raises_nothing_else(data: st.DataObject) -> None:
    intact = metrics_data(
        gauge("queue", point(1.5, node_id="1"), point(2)),
        counter("sent", point(3, topic="t"), temporality=data.draw(st.sampled_from([DELTA, CUMULATIVE]))),
        group_id="g",
    )
    damaged = bytearray(intact)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(MalformedMetrics):
        decoded(bytes(damaged)[: data.draw(st.integers(0, len(damaged)))])


def test_decoder_agrees_with_the_format_of_doubles() -> None:
    data = metrics_data(gauge("g", varint(4 << 3 | 1) + pack("<d", 1e-300)))
    assert decoded(data).metrics[0].points[0].value == 1e-300
