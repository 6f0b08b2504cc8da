"""Decodes the metrics of OpenTelemetry's protocol (OTLP) that clients push.

A push is one `MetricsData` message in the encoding of protocol buffers:

    MetricsData      resource_metrics 1
    ResourceMetrics  resource 1, scope_metrics 2
    Resource         attributes 1
    ScopeMetrics     metrics 2
    Metric           name 1, description 2, unit 3, gauge 5, sum 7
    Gauge            data_points 1
    Sum              data_points 1, aggregation_temporality 2, is_monotonic 3
    NumberDataPoint  as_double 4, as_int 6, attributes 7
    KeyValue         key 1, value 2
    AnyValue         string 1, bool 2, int 3, double 4

These messages have no recursion, so that the depth is bounded. The other kinds of metrics (histograms and summaries)
are counted and skipped; Java's clients and librdkafka do not push them. The packages `opentelemetry-proto` and
`protobuf` would do the same with an import of 40 ms at the start of a node, without bounds on the number of objects,
and in one piece that holds the event loop.
"""

from collections.abc import Generator, Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, TypeAlias, TypeVar

import attrs

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
Attributes: TypeAlias = tuple[tuple[str, str], ...]

# Data points in one push. A consumer of 1,000 partitions pushes some 6,000, most other clients less than 200.
POINTS_MAX: Final = 10_000
# Attributes of one data point, those of its resource included. Kafka's clients send fewer than ten.
ATTRIBUTES_MAX: Final = 32
# Characters of a metric's name, and of an attribute's name or value: topics and client ids have 249 at most.
TEXT_MAX: Final = 256
# Data points decoded in one step of about 100 us.
_STEP_POINTS: Final = 4

_DOUBLE: Final = Struct("<d")
_INT: Final = Struct("<q")
_VARINT_BYTES_MAX: Final = 10
_INT64_SIGN: Final = 1 << 63
_DELTA, _CUMULATIVE = 1, 2


class MalformedMetrics(ValueError):
    """The bytes are not a `MetricsData` message, or a field of it is out of range."""


class TooManyPoints(ValueError):
    """The message has more than POINTS_MAX data points."""


class _Wire(IntEnum):
    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


@attrs.frozen
class DataPoint:
    """One value of a metric; `attributes` are sorted by name, those of the resource included."""

    attributes: Attributes
    value: float


@attrs.frozen
class ClientMetric:
    """One metric of a push. A counter only rises. `is_delta` says that values are increments since the last push."""

    name: str
    is_counter: bool
    is_delta: bool
    points: list[DataPoint]


@attrs.define
class DecodedMetrics:
    """The metrics of one push, and the number of metrics of kinds that are not supported."""

    metrics: list[ClientMetric] = attrs.field(factory=list)
    skipped: int = 0
    points: int = 0


def decode_metrics(data: bytes) -> Steps[DecodedMetrics]:
    """Decode a `MetricsData` message, in steps. Raises MalformedMetrics and TooManyPoints."""
    decoded = DecodedMetrics()
    for number, value in _fields(data, 0, len(data), {1: _Wire.BYTES}):
        if number == 1:
            yield from _resource_metrics(decoded, data, *_range(value))
    return decoded


def _resource_metrics(decoded: DecodedMetrics, data: bytes, start: int, end: int) -> Steps[None]:
    resource: dict[str, str] = {}
    scopes = []
    for number, value in _fields(data, start, end, {1: _Wire.BYTES, 2: _Wire.BYTES}):
        if number == 1:
            for inner, attribute in _fields(data, *_range(value), {1: _Wire.BYTES}):
                if inner == 1:
                    _add_attribute(resource, data, *_range(attribute))
        elif number == 2:
            scopes.append(_range(value))
    for scope in scopes:
        for number, value in _fields(data, *scope, {2: _Wire.BYTES}):
            if number == 2:
                yield from _metric(decoded, resource, data, *_range(value))


_METRIC: Final = {1: _Wire.BYTES, 2: _Wire.BYTES, 3: _Wire.BYTES, 5: _Wire.BYTES, 7: _Wire.BYTES}
_GAUGE_FIELD, _SUM_FIELD = 5, 7
_OTHER_KINDS: Final = (9, 10, 11)


def _metric(decoded: DecodedMetrics, resource: dict[str, str], data: bytes, start: int, end: int) -> Steps[None]:
    name = ""
    kind = _GAUGE_FIELD
    content: tuple[int, int] | None = None
    for number, value in _fields(data, start, end, _METRIC):
        if number == 1:
            name = _text(data, *_range(value))
        elif number in (_GAUGE_FIELD, _SUM_FIELD):
            kind, content = number, _range(value)
        elif number in _OTHER_KINDS:
            decoded.skipped += 1
    yield
    if content is None:
        return
    temporality, is_monotonic = _sum_kind(data, *content) if kind == _SUM_FIELD else (_CUMULATIVE, False)
    if not name or temporality not in (_DELTA, _CUMULATIVE):
        raise MalformedMetrics("a metric has no name, or its values are neither increments nor cumulative")
    points = yield from _points(decoded, resource, data, *content)
    decoded.metrics.append(ClientMetric(name, is_monotonic, temporality == _DELTA, points))


def _sum_kind(data: bytes, start: int, end: int) -> tuple[int, bool]:
    """The aggregation temporality of a Sum, and whether it is monotonic."""
    temporality, is_monotonic = 0, False
    for number, value in _fields(data, start, end, {2: _Wire.VARINT, 3: _Wire.VARINT}):
        if number == 2:
            temporality = _number(value)
        elif number == 3:
            is_monotonic = bool(value)
    return temporality, is_monotonic


def _points(
    decoded: DecodedMetrics, resource: dict[str, str], data: bytes, start: int, end: int
) -> Steps[list[DataPoint]]:
    points: list[DataPoint] = []
    for number, value in _fields(data, start, end, {1: _Wire.BYTES}):
        if number != 1:
            continue
        decoded.points += 1
        if decoded.points > POINTS_MAX:
            raise TooManyPoints(f"a push has more than {POINTS_MAX} data points")
        point = _data_point(resource, data, *_range(value))
        if point is not None:
            points.append(point)
        if not decoded.points % _STEP_POINTS:
            yield
    return points


_POINT: Final = {4: _Wire.FIXED64, 6: _Wire.FIXED64, 7: _Wire.BYTES}


def _data_point(resource: dict[str, str], data: bytes, start: int, end: int) -> DataPoint | None:
    """The data point; None if it has no value, as a client reports a metric that it did not measure."""
    attributes = resource.copy()
    found: float | None = None
    for number, value in _fields(data, start, end, _POINT):
        if number == 4:
            found = _DOUBLE.unpack_from(data, _number(value))[0]
        elif number == 6:
            found = _INT.unpack_from(data, _number(value))[0]
        elif number == 7:
            _add_attribute(attributes, data, *_range(value))
    return None if found is None else DataPoint(tuple(sorted(attributes.items())), found)


def _add_attribute(attributes: dict[str, str], data: bytes, start: int, end: int) -> None:
    """Add one KeyValue, unless its value is a list, a map or bytes."""
    name, text = "", ""
    for number, value in _fields(data, start, end, {1: _Wire.BYTES, 2: _Wire.BYTES}):
        if number == 1:
            name = _text(data, *_range(value))
        elif number == 2:
            text = _any_value(data, *_range(value))
    if name and text:
        attributes[name] = text
        if len(attributes) > ATTRIBUTES_MAX:
            raise MalformedMetrics(f"a data point has more than {ATTRIBUTES_MAX} attributes")


_ANY_VALUE: Final = {1: _Wire.BYTES, 2: _Wire.VARINT, 3: _Wire.VARINT, 4: _Wire.FIXED64}


def _any_value(data: bytes, start: int, end: int) -> str:
    text = ""
    for number, value in _fields(data, start, end, _ANY_VALUE):
        if number == 1:
            text = _text(data, *_range(value))
        elif number == 2:
            text = "true" if value else "false"
        elif number == 3:
            integer = _number(value)
            text = str(integer - (_INT64_SIGN << 1) if integer >= _INT64_SIGN else integer)
        elif number == 4:
            text = repr(_DOUBLE.unpack_from(data, _number(value))[0])
    return text


# A field's value: a number, the position of eight bytes, or the range of a text or message.
_Value: TypeAlias = int | tuple[int, int]


def _fields(data: bytes, position: int, end: int, types: dict[int, _Wire]) -> Iterator[tuple[int, _Value]]:
    """The fields of the message in `data[position:end]`: their numbers, and their values.

    Raises MalformedMetrics for bytes that are no message, and for a field of `types` that has another type.
    """
    while position < end:
        tag, position = _varint(data, position, end)
        number, wire = tag >> 3, tag & 7
        value: _Value
        if wire == _Wire.VARINT:
            value, position = _varint(data, position, end)
        elif wire == _Wire.BYTES:
            size, start = _varint(data, position, end)
            value = (start, start + size)
            position = start + size
        elif wire == _Wire.FIXED64:
            value = position
            position += 8
        elif wire == _Wire.FIXED32:
            value = position
            position += 4
        else:
            raise MalformedMetrics(f"there is no type {wire} of fields")
        if not number or position > end:
            raise MalformedMetrics("a field ends after its message" if number else "a field has the number 0")
        if types.get(number, wire) != wire:
            raise MalformedMetrics(f"field {number} has the type {wire}")
        yield number, value


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    result = shift = 0
    for at in range(position, min(end, position + _VARINT_BYTES_MAX)):
        byte = data[at]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & (1 << 64) - 1, at + 1
        shift += 7
    raise MalformedMetrics("a number is cut, or has more than 64 bits")


def _range(value: _Value) -> tuple[int, int]:
    assert isinstance(value, tuple), "the type of the field was checked"
    return value


def _number(value: _Value) -> int:
    assert isinstance(value, int), "the type of the field was checked"
    return value


def _text(data: bytes, start: int, end: int) -> str:
    """A text; of a long one, the beginning."""
    try:
        return data[start:end].decode()[:TEXT_MAX]
    except UnicodeDecodeError as error:
        raise MalformedMetrics("a text is not UTF-8") from error
