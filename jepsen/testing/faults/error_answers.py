"""Answers with an error code, in the place where the API's responses have it.

Where a response has partitions, only the chosen ones get the error: the rest of the request is carried out, and both
parts are one response. A refused part is not carried out.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from broker.wire.api import Api
from broker.wire.errors import ErrorCode
from broker.wire.schema import replaced
from jepsen.testing.faults.shapes import (
    GROUP,
    PARTITION,
    TOPIC,
    WHOLE_RESPONSE_ERRORS,
    Level,
    NameOf,
    Shape,
    Subject,
    element_class,
    error_field,
    of_element,
    of_request,
    partition_field,
    partition_of,
    shape_of,
)

# Fields that tell elements apart. An answer has those of the element that was asked for.
_IDENTITIES: Final = (
    "group_id",
    "id",
    "key",
    "name",
    "producer_id",
    "resource_name",
    "resource_type",
    "topic",
    "topic_id",
    "topic_name",
    "transactional_id",
)
# Numbers that are -1 in Kafka's answers with an error.
_ABSENT: Final = (
    "base_offset",
    "committed_offset",
    "end_offset",
    "generation_id",
    "high_watermark",
    "lag",
    "leader_epoch",
    "leader_id",
    "low_watermark",
    "node_id",
    "offset",
    "port",
    "producer_epoch",
    "producer_id",
    "start_offset",
    "timestamp",
)


@attrs.frozen
class Refusal:
    """A request of which a part is refused. `remaining` is the rest to carry out, or None.

    `finish` completes the response to the rest; it is given None if nothing was carried out.
    """

    remaining: Any | None
    finish: Callable[[Any], Any]


@attrs.frozen
class Refuser:
    """Refuses the elements of one request for which `matches` is true.

    `names_topic` and `names_partition` are true if the fault does: errors of OffsetFetch and DescribeShareGroupOffsets
    are otherwise those of the group, and errors of Metadata those of whole topics.
    """

    api: Api
    version: int
    code: ErrorCode
    matches: Callable[[Subject], bool]
    name_of: NameOf
    names_topic: bool
    names_partition: bool

    def refuse(self, request: Any) -> Refusal:
        shape = self._shape()
        if not shape:
            return Refusal(None, lambda _: self._whole(request))
        outer = of_request(request)
        if all(level.asked for level in shape) and getattr(request, shape[0].asked):
            kept, refused = self._split(shape, request, self.api.response, outer, request)
            remaining = replaced(request, **{shape[0].asked: kept}) if kept else None
            return Refusal(remaining, lambda response: self._merged(shape, response, refused))
        if error_field(self.api.response) is not None and getattr(request, shape[0].asked) is None and not self._reads:
            return Refusal(None, lambda _: self._whole(request))
        return Refusal(request, lambda response: self._overwritten(shape, response, outer))

    @property
    def _reads(self) -> bool:
        """True for APIs whose requests can be carried out, because they change nothing."""
        return self.api.name in ("Metadata", "DescribeTopicPartitions", "OffsetFetch", "DescribeConfigs")

    def _shape(self) -> Shape:
        """The levels down to the elements that get the error; none if the whole response does."""
        shape = shape_of(self.api, self.version)
        if not shape or self.code in WHOLE_RESPONSE_ERRORS:
            return ()
        if not self.names_partition and not shape[-1].asked:
            shape = shape[:-1]
        if shape[0].kind == GROUP and not self.names_topic:
            return shape[:1]
        if self.api.name == "OffsetFetch" and not self.names_topic:
            return () if self.version >= _OFFSET_FETCH_ERROR_FROM else shape
        return shape

    def _split(
        self, shape: Shape, struct: Any, response: type[Any], outer: Subject, request: Any
    ) -> tuple[list[Any], list[Any]]:
        """The elements of a list that are kept, and the answers to those that are refused."""
        level, deeper = shape[0], shape[1:]
        answer = element_class(response, level.answered)
        kept: list[Any] = []
        refused: list[Any] = []
        for element in getattr(struct, level.asked) or ():
            subject = of_element(level.kind, element, outer, self.name_of, request)
            if deeper:
                inner_kept, inner_refused = self._split(deeper, element, answer, subject, request)
                if inner_refused:
                    refused.append(_answer(answer, level, element, **{deeper[0].answered: inner_refused}))
                if inner_kept or not inner_refused:
                    kept.append(replaced(element, **{deeper[0].asked: inner_kept}) if inner_refused else element)
            elif self.matches(subject):
                refused.append(self._refused(answer, level, element))
            else:
                kept.append(element)
        return kept, refused

    def _refused(self, answer: type[Any], level: Level, element: Any) -> Any:
        refused = _answer(answer, level, element)
        return _with_error(refused, self.code, _identities(answer))

    def _whole(self, request: Any) -> Any:
        whole = self.api.response()
        assert error_field(self.api.response) is not None, "the fault was checked"
        return _with_error(whole, self.code, ())

    def _merged(self, shape: Shape, response: Any | None, refused: list[Any]) -> Any:
        """The response to the rest, with the answers to the refused elements."""
        if response is None:
            response = self.api.response()
        _merge(shape, response, refused)
        return response

    def _overwritten(self, shape: Shape, struct: Any, outer: Subject) -> Any:
        """A response whose chosen elements have the error in place of what they had."""
        level, deeper = shape[0], shape[1:]
        elements = getattr(struct, level.answered)
        for index, element in enumerate(elements or ()):
            subject = of_element(level.kind, element, outer, self.name_of)
            if deeper:
                self._overwritten(deeper, element, subject)
            elif self.matches(subject):
                emptied: dict[str, Any] = (
                    {"partitions": []} if level.kind == TOPIC and hasattr(element, "partitions") else {}
                )
                elements[index] = _with_error(replaced(element, **emptied), self.code, _identities(type(element)))
        return struct


_OFFSET_FETCH_ERROR_FROM: Final = 2


def _answer(answer: type[Any], level: Level, element: Any, **fields: Any) -> Any:
    """The answer to an element of a request, with its identity."""
    names = {spec.name for spec in answer.__fields__}
    if level.kind == PARTITION:
        fields[partition_field(answer)] = partition_of(element)
    elif isinstance(element, str):
        fields[next(name for name in ("name", "group_id", "key", "transactional_id") if name in names)] = element
    for name in _IDENTITIES:
        if name in names and hasattr(element, name):
            fields.setdefault(name, getattr(element, name))
    return answer(**fields)


def _with_error(struct: Any, code: ErrorCode, kept: Sequence[str]) -> Any:
    """The struct with the error, and without the numbers that go with success."""
    names = [spec.name for spec in struct.__fields__]
    field = error_field(type(struct))
    assert field is not None, "the fault was checked"
    setattr(struct, field, code)
    for name in _ABSENT:
        if name in names and name not in kept:
            setattr(struct, name, -1)
    return struct


def _identities(struct: type[Any]) -> tuple[str, ...]:
    return tuple(spec.name for spec in struct.__fields__ if spec.name in _IDENTITIES)


def _merge(shape: Shape, struct: Any, added: list[Any]) -> None:
    """Add answers to the lists of a response, each to the element with the same identity."""
    level, deeper = shape[0], shape[1:]
    elements = list(getattr(struct, level.answered) or ())
    for answer in added:
        same = next((each for each in elements if _identity(each) == _identity(answer)), None) if deeper else None
        if same is None:
            elements.append(answer)
        else:
            _merge(deeper, same, getattr(answer, deeper[0].answered))
    setattr(struct, level.answered, elements)


def _identity(element: Any) -> tuple[Any, ...]:
    return tuple(getattr(element, name) for name in _identities(type(element)))
