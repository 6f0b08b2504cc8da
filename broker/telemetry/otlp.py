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

A push of 200 bytes may decompress to a million empty messages, each of which takes time although nothing is kept of it.
So every field counts as work, wherever it stands: after some of them there is a step, and their number is bounded by
that of the data points.
"""

from codecs import utf_8_decode
from collections.abc import Generator, Iterator
from struct import Struct
from typing import Final, TypeAlias, TypeVar

import attrs

from kraft import lazy_attrs

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
Attributes: TypeAlias = tuple[tuple[str, str], ...]

# Data points in one push. A consumer of 1,000 partitions pushes some 6,000, most other clients less than 200.
POINTS_MAX: Final = 10_000
# Attributes of one data point, those of its resource included. Kafka's clients send fewer than ten.
ATTRIBUTES_MAX: Final = 32
# Characters of a metric's name, and of an attribute's name or value: topics and client ids have 249 at most.
TEXT_MAX: Final = 256
# Fields of a push, of its messages at all depths: a number, and some for each data point. A point of Java's producer
# has 40, those of its metric and its resource included. An attribute has four.
FIELDS_BASE: Final = 4_096
FIELDS_PER_POINT: Final = 64
# Fields of one data point or attribute, which is read in one step. 32 attributes have 128.
PIECE_FIELDS_MAX: Final = 512
# Fields that are read in one step of about 100 us.
STEP_FIELDS: Final = 64

_DOUBLE: Final = Struct("<d")
_INT: Final = Struct("<q")
_VARINT_BYTES_MAX: Final = 10
_VARINT_CONTINUES: Final = 0x80
_TEXT_BYTES_MAX: Final = 4 * TEXT_MAX
_INT64_SIGN: Final = 1 << 63
_DELTA, _CUMULATIVE = 1, 2


class MalformedMetrics(ValueError):
    """The bytes are not a `MetricsData` message, or a field of it is out of range."""


class TooLargeMetrics(ValueError):
    """The message has too many data points or fields."""


# The types of fields.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@lazy_attrs.frozen
class DataPoint:
    """One value of a metric; `attributes` are sorted by name, those of the resource included."""

    attributes: Attributes
    value: float


@lazy_attrs.frozen
class ClientMetric:
    """One metric of a push. A counter only rises. `is_delta` says that values are increments since the last push."""

    name: str
    is_counter: bool
    is_delta: bool
    points: list[DataPoint]


@lazy_attrs.define
class DecodedMetrics:
    """The metrics of one push, and the number of metrics of kinds that are not supported."""

    metrics: list[ClientMetric] = attrs.field(factory=list)
    skipped: int = 0
    points: int = 0


_METRIC: Final = {1: _BYTES, 2: _BYTES, 3: _BYTES, 5: _BYTES, 7: _BYTES}
_GAUGE_FIELD, _SUM_FIELD = 5, 7
_OTHER_KINDS: Final = (9, 10, 11)
_GAUGE: Final = {1: _BYTES}
_SUM: Final = {1: _BYTES, 2: _VARINT, 3: _VARINT}
_POINT: Final = {4: _FIXED64, 6: _FIXED64, 7: _BYTES}
_ANY_VALUE: Final = {1: _BYTES, 2: _VARINT, 3: _VARINT, 4: _FIXED64}


# A field's value: a number, the position of eight bytes, or the range of a text or message.
_Value: TypeAlias = int | tuple[int, int]
# The attributes of a resource or point, by name. Points share the pairs of their resource.
_Named: TypeAlias = dict[str, tuple[str, str]]


class Decoder:
    """Reads one `MetricsData` message. `fields_read` counts the fields of messages at all depths.

    The methods that are steps read messages with any number of fields.
    """

    def __init__(self, data: bytes) -> None:
        self.decoded = DecodedMetrics()
        self.fields_read = 0
        self._data = data
        self._fields_max = FIELDS_BASE
        self._step_ends = STEP_FIELDS

    def steps(self) -> Steps[DecodedMetrics]:
        """Read the message. Raises MalformedMetrics and TooLargeMetrics."""
        for number, value in self._fields((0, len(self._data)), {1: _BYTES}):
            if number == 1:
                yield from self._resource_metrics(_range(value))
            if self._is_step_over():
                yield
        return self.decoded

    def _resource_metrics(self, message: tuple[int, int]) -> Steps[None]:
        resource: _Named = {}
        for number, value in self._fields(message, {1: _BYTES, 2: _BYTES}):
            if number == 1:
                yield from self._resource(resource, _range(value))
            if self._is_step_over():
                yield
        # Only now are all attributes known: the resource may follow its metrics.
        for number, value in self._fields(message, {}):
            if number == 2:
                yield from self._scope_metrics(resource, _range(value))
            if self._is_step_over():
                yield

    def _resource(self, resource: _Named, message: tuple[int, int]) -> Steps[None]:
        for number, value in self._fields(message, {1: _BYTES}):
            if number == 1:
                self._add_attribute(resource, _range(value), self._piece())
            if self._is_step_over():
                yield

    def _scope_metrics(self, resource: _Named, message: tuple[int, int]) -> Steps[None]:
        for number, value in self._fields(message, {2: _BYTES}):
            if number == 2:
                yield from self._metric(resource, _range(value))
            if self._is_step_over():
                yield

    def _metric(self, resource: _Named, message: tuple[int, int]) -> Steps[None]:
        name = ""
        kind = _GAUGE_FIELD
        content: tuple[int, int] | None = None
        for number, value in self._fields(message, _METRIC):
            if number == 1:
                name = _text(self._data, *_range(value))
            elif number in (_GAUGE_FIELD, _SUM_FIELD):
                kind, content = number, _range(value)
            elif number in _OTHER_KINDS:
                self.decoded.skipped += 1
            if self._is_step_over():
                yield
        if content is not None:
            if not name:
                raise MalformedMetrics("a metric has no name")
            yield from self._gauge_or_sum(name, resource, content, is_sum=kind == _SUM_FIELD)

    def _gauge_or_sum(self, name: str, resource: _Named, message: tuple[int, int], *, is_sum: bool) -> Steps[None]:
        points: list[DataPoint] = []
        temporality, is_monotonic = 0 if is_sum else _CUMULATIVE, False
        for number, value in self._fields(message, _SUM if is_sum else _GAUGE):
            if number == 1:
                point = self._data_point(resource, _range(value))
                if point is not None:
                    points.append(point)
            elif number == 2 and is_sum:
                temporality = _number(value)
            elif number == 3 and is_sum:
                is_monotonic = bool(value)
            if self._is_step_over():
                yield
        if temporality not in (_DELTA, _CUMULATIVE):
            raise MalformedMetrics("the values of a metric are neither increments nor cumulative")
        self.decoded.metrics.append(ClientMetric(name, is_monotonic, temporality == _DELTA, points))

    def _data_point(self, resource: _Named, message: tuple[int, int]) -> DataPoint | None:
        """The data point; None if it has no value, as a client reports a metric that it did not measure."""
        self.decoded.points += 1
        if self.decoded.points > POINTS_MAX:
            raise TooLargeMetrics(f"a push has more than {POINTS_MAX} data points")
        self._fields_max += FIELDS_PER_POINT
        attributes = resource.copy()
        found: float | None = None
        piece = self._piece()
        for number, value in self._fields(message, _POINT, piece):
            if number == 4:
                found = _DOUBLE.unpack_from(self._data, _number(value))[0]
            elif number == 6:
                found = _INT.unpack_from(self._data, _number(value))[0]
            elif number == 7:
                self._add_attribute(attributes, _range(value), piece)
        return None if found is None else DataPoint(tuple(sorted(attributes.values())), found)

    def _add_attribute(self, attributes: _Named, message: tuple[int, int], piece: int) -> None:
        """Add one KeyValue, unless its value is a list, a map or bytes."""
        name, text = "", ""
        for number, value in self._fields(message, {1: _BYTES, 2: _BYTES}, piece):
            if number == 1:
                name = _text(self._data, *_range(value))
            elif number == 2:
                text = self._any_value(_range(value), piece)
        if name and text:
            attributes[name] = (name, text)
            if len(attributes) > ATTRIBUTES_MAX:
                raise MalformedMetrics(f"a data point has more than {ATTRIBUTES_MAX} attributes")

    def _any_value(self, message: tuple[int, int], piece: int) -> str:
        text = ""
        for number, value in self._fields(message, _ANY_VALUE, piece):
            if number == 1:
                text = _text(self._data, *_range(value))
            elif number == 2:
                text = "true" if value else "false"
            elif number == 3:
                integer = _number(value)
                text = str(integer - (_INT64_SIGN << 1) if integer >= _INT64_SIGN else integer)
            elif number == 4:
                text = repr(_DOUBLE.unpack_from(self._data, _number(value))[0])
        return text

    def _is_step_over(self) -> bool:
        """True if the fields of a step have been read; the next step begins."""
        if self.fields_read < self._step_ends:
            return False
        self._step_ends = self.fields_read + STEP_FIELDS
        return True

    def _piece(self) -> int:
        """The number of fields of the push at which the data point or attribute that begins here must have ended."""
        return self.fields_read + PIECE_FIELDS_MAX

    def _fields(
        self, message: tuple[int, int], types: dict[int, int], piece: int | None = None
    ) -> Iterator[tuple[int, _Value]]:
        """The fields of the message in a range of the data: their numbers, and their values.

        Raises MalformedMetrics for bytes that are no message, and for a field of `types` that has another type;
        TooLargeMetrics if the push, or the piece that the message belongs to, has too many fields.
        """
        data = self._data
        position, end = message
        while position < end:
            self.fields_read += 1
            if self.fields_read > self._fields_max or (piece is not None and self.fields_read > piece):
                raise TooLargeMetrics("a push, or one of its data points, has too many fields")
            tag = data[position]
            if tag < _VARINT_CONTINUES:
                position += 1
            else:
                tag, position = _varint(data, position, end)
            number, wire = tag >> 3, tag & 7
            value: _Value
            if wire == _BYTES:
                size, start = _varint(data, position, end)
                position = start + size
                value = (start, position)
            elif wire == _VARINT:
                value, position = _varint(data, position, end)
            else:
                value = position
                position += _fixed_size(wire)
            if not number or position > end:
                raise MalformedMetrics("a field ends after its message" if number else "a field has the number 0")
            if types.get(number, wire) != wire:
                raise MalformedMetrics(f"field {number} has the type {wire}")
            yield number, value


def _fixed_size(wire: int) -> int:
    if wire not in (_FIXED64, _FIXED32):
        raise MalformedMetrics(f"there is no type {wire} of fields")
    return 8 if wire == _FIXED64 else 4


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    if position < end and data[position] < _VARINT_CONTINUES:
        return data[position], position + 1
    result = shift = 0
    for at in range(position, min(end, position + _VARINT_BYTES_MAX)):
        byte = data[at]
        result |= (byte & 0x7F) << shift
        if byte < _VARINT_CONTINUES:
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
    cut = min(end, start + _TEXT_BYTES_MAX)
    try:
        text, _ = utf_8_decode(data[start:cut], "strict", cut == end)
    except UnicodeDecodeError as error:
        raise MalformedMetrics("a text is not UTF-8") from error
    return text[:TEXT_MAX]
