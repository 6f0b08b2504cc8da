"""Passes the requests of one node through its faults, and keeps their history.

`Node` has one place for this, the classes of its dispatchers (`broker.node.Dispatchers`). A node that `kraft start`
runs has none of it.
"""

from collections.abc import Callable, Generator, Sequence
from itertools import count
from typing import Any, Final, TypeAlias

import attrs
import trio

from broker.net.reply import FileRange, frame_response
from broker.server.context import Context, Message
from broker.server.quotas import Throttling
from broker.server.scheduler import Frame, Work, in_task
from broker.wire.api import APIS
from broker.wire.api.fetch import FetchRequest, FetchResponse
from broker.wire.errors import ErrorCode
from broker.wire.schema import EncodedArray
from jepsen.testing.faults.active_fault import ActiveFault
from jepsen.testing.faults.changed_answers import stale_metadata, with_less
from jepsen.testing.faults.error_answers import Refusal, Refuser
from jepsen.testing.faults.fault import CLOSE, ActionKind, Fault, FaultRefused, RequestFacts
from jepsen.testing.faults.request_history import AnswerError, RequestHistory, ServedRequest, errors_of
from jepsen.testing.faults.shapes import Subject, of_element, shape_of, subjects
from metadata.image import MetadataImage, MetadataLoader

# Carries a request out as the node does without faults.
CarryOut: TypeAlias = Callable[[Message], Message | Frame | Work[Message | Frame | None] | None]

_FRAME_SIZE: Final = 4
_NO_SESSION_EPOCH: Final = -1
_CLOSED: Final = "a fault of the test closes the connection"


class RequestFilter:
    """The faults and the history of the node `node`, whose wall clock is `wall`.

    `when_changed` is called when a fault has fired, or holds more or fewer requests.
    """

    def __init__(
        self, node: int, wall: Callable[[], float], when_changed: Callable[[ActiveFault], None] = lambda active: None
    ) -> None:
        self.node = node
        self.history = RequestHistory()
        # Gets each request with its answer and the errors in it.
        self.when_answered: Callable[[RequestFacts, Message, Message, Sequence[AnswerError]], None] | None = None
        self.faults: dict[str, ActiveFault] = {}
        self._wall = wall
        self._when_changed = when_changed
        self._loader: MetadataLoader | None = None
        self._ids = count(1)

    def serves_with(self, loader: MetadataLoader) -> None:
        """Called when the node begins to serve."""
        self._loader = loader

    def begin(self, fault: Fault, fault_id: str = "") -> ActiveFault:
        """Put a fault in force. Raises FaultRefused if it needs metadata, and the node does not serve yet."""
        if fault.kind is ActionKind.STALE and self._loader is None:
            raise FaultRefused(f"node {self.node} does not serve yet, and has no metadata to repeat")
        fault_id = fault_id or f"{self.node}-{next(self._ids)}"
        active = ActiveFault(fault_id, fault, self._image, self._when_changed)
        self.faults[fault_id] = active
        return active

    def end(self, active: ActiveFault) -> None:
        """End a fault, and release the requests that it holds."""
        self.faults.pop(active.id, None)
        active.end()

    @property
    def _image(self) -> MetadataImage | None:
        return None if self._loader is None else self._loader.image

    def serve(self, context: Context[Any], request: Message, carry_out: CarryOut) -> Work[Message | Frame | None]:
        """Carry out a request as the faults say.

        A request that a broker has forwarded has passed its faults there. SASL messages without headers, which follow
        version 0 of SaslHandshake, have no faults.
        """
        session = context.session
        is_forwarded = context.connection is None and not session.is_own
        if is_forwarded or (session.sasl is not None and session.sasl.is_raw):
            return (yield from _work(carry_out(request)))
        facts = self._facts(context, request)
        served = self.history.begin(facts, self._wall())
        began = trio.current_time()
        response = None
        try:
            response = yield from _FilteredRequest(self, context, facts, served).carry_out(request, carry_out)
        finally:
            self._finish(context, facts, served, began, request, response)
        return response

    def _facts(self, context: Context[Any], request: Message) -> RequestFacts:
        api = APIS[context.codec.api_key]
        version = context.api_version
        about = subjects(shape_of(api, version), request, self.name_of)
        return RequestFacts(api, version, context.client_id or "", context.client_host, self.node, tuple(about))

    def name_of(self, topic_id: bytes) -> str | None:
        image = self._image
        topic = None if image is None else image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def firing(self, facts: RequestFacts, *, is_connected: bool, before: bool) -> ActiveFault | None:
        """The first fault that fires on a request `before` it is carried out, or on its answer."""
        for active in self.faults.values():
            if (active.fault.kind is ActionKind.DATA) == before:
                continue
            if active.concerns(facts, is_connected=is_connected) and active.fires(facts, self._wall()):
                return active
        return None

    def changes_fetches(self, facts: RequestFacts) -> bool:
        """True if a fault may concern single partitions of this client's Fetch requests."""
        return any(
            active.fault.changes_fetches and active.fault.selection.matches_client(facts)
            for active in self.faults.values()
        )

    def _finish(
        self,
        context: Context[Any],
        facts: RequestFacts,
        served: ServedRequest,
        began: float,
        request: Message,
        response: Any,
    ) -> None:
        connection = context.connection
        if connection is not None and connection.closed:
            served.outcome = "closed"
        elif response is None:
            served.outcome = "unanswered"
        else:
            served.outcome = "answered"
            served.latency_ms = (trio.current_time() - began) * 1000
            message = _unframed(context, response) if isinstance(response, bytes | list) else response
            served.errors = errors_of(facts.api, facts.version, message, self.name_of)
            if self.when_answered is not None:
                self.when_answered(facts, request, message, served.errors)


class _FilteredRequest:
    """One request on its way through the faults."""

    def __init__(self, owner: RequestFilter, context: Context[Any], facts: RequestFacts, served: ServedRequest) -> None:
        self._filter = owner
        self._context = context
        self._facts = facts
        self._served = served
        self._is_connected = context.connection is not None

    def carry_out(self, request: Message, carry_out: CarryOut) -> Work[Message | Frame | None]:
        if isinstance(request, FetchRequest) and self._filter.changes_fetches(self._facts):
            if request.session_epoch > 0:
                return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            _leave_session(request)
        active = self._filter.firing(self._facts, is_connected=self._is_connected, before=True)
        if active is not None:
            self._served.fault = active.id
            return (yield from self._act(active, request, carry_out))
        wait_s = request.max_wait_ms / 1000 if isinstance(request, FetchRequest) else 0
        response = yield from _work(carry_out(request))
        if isinstance(response, FetchResponse):
            yield from self._lessen(response, wait_s)
        return response

    def _act(self, active: ActiveFault, request: Message, carry_out: CarryOut) -> Work[Message | Frame | None]:
        fault = active.fault
        match fault.kind:
            case ActionKind.ERROR:
                return (yield from self._refuse(active, request, carry_out))
            case ActionKind.DELAY | ActionKind.HOLD:
                timeout_s = fault.value / 1000 if fault.kind is ActionKind.DELAY else float("inf")
                yield from in_task(active.hold(timeout_s))
                return (yield from _work(carry_out(request)))
            case ActionKind.DROP:
                if fault.value != CLOSE:
                    yield from in_task(active.hold(float("inf")))
                return self._close(None)
            case ActionKind.LOSE_ANSWER:
                return self._close((yield from _work(carry_out(request))))
            case ActionKind.THROTTLE:
                return self._throttle(fault.value, (yield from _work(carry_out(request))))
        assert fault.kind is ActionKind.STALE, "faults of data fire on answers"
        return self._make_stale(active, request, (yield from _work(carry_out(request))))

    def _refuse(self, active: ActiveFault, request: Message, carry_out: CarryOut) -> Work[Message | Frame | None]:
        selection = active.fault.selection
        refuser = Refuser(
            self._facts.api,
            self._facts.version,
            active.fault.value,
            selection.matches_subject,
            self._filter.name_of,
            selection.topic is not None,
            selection.partition is not None,
        )
        refusal: Refusal = refuser.refuse(request)
        response = None
        if refusal.remaining is not None:
            if isinstance(refusal.remaining, FetchRequest):
                refusal.remaining.max_wait_ms = 0  # an error is answered at once
            response = yield from _work(carry_out(refusal.remaining))
        if getattr(request, "acks", None) == 0:
            return self._close(None)  # there is no answer that could have the error
        return refusal.finish(None if response is None else _decoded(self._context, response))

    def _close(self, response: Message | Frame | None) -> Message | Frame:
        """Close the connection, with which the answer is dropped. An empty frame stands for an answer of which there is
        none.
        """
        self._context.own_connection.close(_CLOSED)
        return b"" if response is None else response

    def _throttle(self, throttle_time_ms: int, response: Message | Frame | None) -> Message | None:
        if response is None:
            return None
        message = _decoded(self._context, response)
        message.throttle_time_ms = max(message.throttle_time_ms, throttle_time_ms)
        server = self._context.server
        throttling: Throttling | None = server.charging or server.mutation_charging
        if throttling is None:
            throttling = Throttling(self._context.services.deadlines)
        throttling.throttle(self._context.session, throttle_time_ms)
        return message

    def _make_stale(self, active: ActiveFault, request: Message, response: Message | Frame | None) -> Message:
        assert response is not None, "Metadata is answered"
        assert active.image is not None, "the node served when the fault began"
        message = _decoded(self._context, response)
        matches = active.fault.selection.matches_subject
        stale_metadata(message, active.image, self._context.listener, matches, has_all_topics=request.topics is None)
        return message

    def _lessen(self, response: FetchResponse, wait_s: float) -> Work[None]:
        """Take records out of the answer to a Fetch, if a fault says so and there are some.

        A broker without records waits before it says so, and so does this.
        """
        found = [
            (subject, partition)
            for topic in response.responses
            for partition in topic.partitions
            if partition.records
            for subject in [self._subject(topic, partition)]
        ]
        facts = attrs.evolve(self._facts, subjects=tuple(subject for subject, _ in found))
        active = self._filter.firing(facts, is_connected=True, before=False) if found else None
        if active is None:
            return
        self._served.fault = active.id
        for subject, partition in found:
            if active.fault.selection.matches_subject(subject):
                partition.records = with_less(partition.records, active.fault.value)
        if not any(partition.records for _, partition in found):
            yield from in_task(active.hold(wait_s))

    def _subject(self, topic: Any, partition: Any) -> Subject:
        levels = shape_of(self._facts.api, self._facts.version)
        outer = of_element(levels[0].kind, topic, Subject(), self._filter.name_of)
        return of_element(levels[1].kind, partition, outer, self._filter.name_of)


def _leave_session(request: FetchRequest) -> None:
    """Serve the request outside of a fetch session, as a broker without a free slot does (KIP-227).

    A session assumes that its client has got each answer; an answer that a fault has changed would be missed in it.
    """
    request.session_id, request.session_epoch = 0, _NO_SESSION_EPOCH


def _work(response: Message | Frame | Work[Message | Frame | None] | None) -> Work[Message | Frame | None]:
    return (yield from response) if isinstance(response, Generator) else response


def _decoded(context: Context[Any], response: Message | Frame) -> Message:
    """The message of a response that a handler may have encoded already."""
    if isinstance(response, bytes | list):
        return _unframed(context, response)
    if any(isinstance(getattr(response, spec.name), EncodedArray) for spec in response.__fields__ if spec.pre_encoded):
        codec = context.codec
        frame = frame_response(context.correlation_id, codec.flexible_response_header, codec.encode(response))
        return _unframed(context, frame)
    return response


def _unframed(context: Context[Any], frame: Frame) -> Message:
    parts = [frame] if isinstance(frame, bytes) else frame
    return context.codec.decode_response(b"".join(map(_bytes, parts))[_FRAME_SIZE:])


def _bytes(part: Any) -> bytes:
    return part.file.read(part.position, part.size) if isinstance(part, FileRange) else bytes(part)
