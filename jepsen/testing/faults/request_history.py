"""The requests that a node has served: who asked for which partitions, and the answer.

The history keeps the latest requests only, so that a long test needs no more memory than a short one.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import attrs

from broker.wire.api import Api
from broker.wire.errors import ErrorCode
from jepsen.testing.faults.fault import RequestFacts, Selection
from jepsen.testing.faults.shapes import NameOf, Shape, Subject, error_field, of_element, shape_of

# About 1 KB each.
REQUESTS_MAX: Final = 10_000
# The subjects and errors of one request that are kept.
SUBJECTS_MAX: Final = 50


@attrs.frozen
class AnswerError:
    """An error code of an answer, by Kafka's name; without a subject, it is that of the whole answer."""

    error: str
    subject: Subject


@attrs.define(eq=False)
class ServedRequest:
    """`at` is the wall-clock time of the request, `latency_ms` the time to its answer, None if there is none.

    `outcome` is "pending", "answered", "unanswered" (as Produce with acks=0) or "closed" (the connection was). `fault`
    is the id of the fault that has fired on it.
    """

    at: float
    api: str
    version: int
    client_id: str
    address: str
    node: int
    subjects: tuple[Subject, ...]
    fault: str | None = None
    outcome: str = "pending"
    latency_ms: float | None = None
    errors: tuple[AnswerError, ...] = ()
    _facts: RequestFacts | None = None

    def matches(self, selection: Selection) -> bool:
        return self._facts is not None and selection.matches(self._facts)


class RequestHistory:
    """`node` has served these requests. `total` counts all, also those that are forgotten."""

    def __init__(self) -> None:
        self._requests: deque[ServedRequest] = deque(maxlen=REQUESTS_MAX)
        self.total = 0

    def begin(self, facts: RequestFacts, at: float) -> ServedRequest:
        """Keep a request that is about to be carried out."""
        facts = attrs.evolve(facts, subjects=facts.subjects[:SUBJECTS_MAX])
        served = ServedRequest(
            at,
            facts.api.name,
            facts.version,
            facts.client_id,
            facts.address,
            facts.node,
            facts.subjects,
            facts=facts,
        )
        self._requests.append(served)
        self.total += 1
        return served

    def matching(self, selection: Selection) -> Iterator[ServedRequest]:
        """The requests that a selection of a fault would concern, in the order in which they came."""
        return (served for served in self._requests if served.matches(selection))


def errors_of(api: Api, version: int, response: Any, name_of: NameOf) -> tuple[AnswerError, ...]:
    """The error codes of an answer other than NONE."""
    found: list[AnswerError] = []
    for error in _errors(shape_of(api, version), response, Subject(), name_of):
        found.append(error)
        if len(found) == SUBJECTS_MAX:
            break
    return tuple(found)


def _errors(shape: Shape, struct: Any, subject: Subject, name_of: NameOf) -> Iterator[AnswerError]:
    field = error_field(type(struct))
    code = ErrorCode.NONE if field is None else getattr(struct, field)
    if code != ErrorCode.NONE:
        yield AnswerError(ErrorCode(code).name, subject)
    if shape:
        level, deeper = shape[0], shape[1:]
        elements = getattr(struct, level.answered)
        # All topics of the cluster come as an array that is encoded already, and have no errors.
        for element in elements if isinstance(elements, list) else ():
            yield from _errors(deeper, element, of_element(level.kind, element, subject, name_of), name_of)
