"""Reaches the share coordinators of share-partitions, on this broker or on others (KIP-932).

The coordinator of a share-partition leads its partition of `__share_group_state`. This broker carries out its own
requests; others get them as messages. To each of them, one message of each kind and group is under way at a time, with
all requests that have come together meanwhile. A request that fails because its coordinator moves, is loaded or cannot
be reached is sent again after a pause, to the coordinator of that time.

A request may be carried out twice, and the first time after the second. For a write this has no effect: merging is
independent of the order, and start offsets only grow.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

import trio

from broker.client import ConnectionLost
from broker.coordinator.broker_connections import BrokerConnections
from broker.coordinator.runtime.completion import Completion, failed
from broker.coordinator.share.coordinator import ShareCoordinator
from broker.coordinator.share.requests import Write
from broker.coordinator.share.share_state import PartitionState, PartitionSummary, SharePartitionKey, StateBatch
from broker.coordinator.share.state_requests import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    StateRequest,
    WriteState,
    as_message,
    results_of,
)
from broker.net.completion import Completion as OwnCompletion
from broker.net.deadlines import Deadlines
from broker.wire.errors import ErrorCode, KafkaError, WireError
from kraft import lazy_attrs
from kraft.env import Tracer
from metadata.image import MetadataImage

# The pause before the first repetition, and the longest. Kafka's are 1 s and 30 s. A coordinator that moves is back
# after some 100 ms, and consumers wait for their acknowledgements meanwhile.
_BACKOFF_MS: Final = 20.0
_BACKOFF_MS_MAX: Final = 1_000.0
_JITTER: Final = 0.2
# How long a request is repeated. Kafka repeats it five times, which takes as long.
RETRY_S: Final = 30.0
# How long a request is repeated if the coordinator does not know its topic. The coordinator's metadata may lag for a
# moment; mostly the topic was deleted.
UNKNOWN_TOPIC_RETRY_S: Final = 5.0
_RETRIABLE: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
# Bytes of the requests in one message, of which coordinators accept 1 MiB, and their number: some 5 ms.
_MESSAGE_BYTES_MAX: Final = 512 * 1024
_MESSAGE_REQUESTS_MAX: Final = 200
# Batches of states in one response: some 25 ms to decode. A state has a batch for each record in flight at worst. How
# many a read returns is known afterwards; so a lane begins with few reads in a message, and adapts their number.
_RESPONSE_BATCHES_MAX: Final = 10_000
_FIRST_MESSAGE_REQUESTS: Final = 8
# Requests that are carried out in one turn: some 1 ms, or 30 ms if their share-partitions were just loaded and each has
# 500 updates to be merged.
_TURN_MAX: Final = 10
# Requests under way. A broker has one for each share-partition that it leads or coordinates, or a few.
_PENDING_MAX: Final = 100_000

# The broker, the kind of request and the group: requests with the same ones share messages.
_Lane: TypeAlias = tuple[int, type[Any], str]


@lazy_attrs.define(eq=False)
class _Pending:
    """A request under way. `completion` gets its outcome. Times are of Trio's clock."""

    request: StateRequest
    completion: Completion[Any]
    began: float
    attempts: int = 0


class ShareStateClient:
    """Implements `broker.coordinator.share.share_state.ShareStateStore`. `run` must run; all work is done there.

    `image` has the metadata as this broker knows it. `create_topic` has the controller create the coordinators' topic,
    and returns NONE or the error. `commit` writes the batches that a turn has staged.
    """

    def __init__(
        self,
        local_id: int,
        coordinator: ShareCoordinator,
        image: Callable[[], MetadataImage],
        connections: BrokerConnections,
        create_topic: Callable[[], Awaitable[ErrorCode]],
        deadlines: Deadlines,
        commit: Callable[[], None],
        rng: Random,
        trace: Tracer,
    ) -> None:
        self._local_id = local_id
        self._coordinator = coordinator
        self._image = image
        self._connections = connections
        self._create_topic = create_topic
        self._deadlines = deadlines
        self._commit = commit
        self._rng = rng
        self._trace = trace
        self._actions: deque[Callable[[], None]] = deque()
        self._wanted = trio.Event()
        self._lanes: dict[_Lane, deque[_Pending]] = {}
        self._pending = 0
        self._is_creating = False
        self._nursery: trio.Nursery | None = None

    # Requests

    def initialize(
        self, group_id: str, topic_id: bytes, partition: int, state_epoch: int, start_offset: int
    ) -> Completion[None]:
        """See `ShareStateStore.initialize`."""
        key = SharePartitionKey(group_id, topic_id, partition)
        return self._begin(InitializeState(key, state_epoch, start_offset))

    def read(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> Completion[PartitionState]:
        """See `ShareStateStore.read`."""
        return self._begin(ReadState(SharePartitionKey(group_id, topic_id, partition), leader_epoch))

    def write(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
    ) -> Completion[None]:
        """See `ShareStateStore.write`."""
        written = Write(state_epoch, leader_epoch, start_offset, delivery_complete_count, batches)
        return self._begin(WriteState(SharePartitionKey(group_id, topic_id, partition), written))

    def delete(self, group_id: str, topic_id: bytes, partition: int) -> Completion[None]:
        """See `ShareStateStore.delete`."""
        return self._begin(DeleteState(SharePartitionKey(group_id, topic_id, partition)))

    def read_summary(
        self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int
    ) -> Completion[PartitionSummary]:
        """See `ShareStateStore.read_summary`."""
        return self._begin(ReadSummary(SharePartitionKey(group_id, topic_id, partition), leader_epoch))

    def _begin(self, request: StateRequest) -> Completion[Any]:
        if self._pending >= _PENDING_MAX:
            return failed(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "Too many requests are under way."))
        self._pending += 1
        completion: Completion[Any] = OwnCompletion()
        self._run_soon(partial(self._route, _Pending(request, completion, trio.current_time())))
        return completion

    # Turns

    async def run(self) -> None:
        """Carries out requests, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            while True:
                if not self._actions:
                    self._wanted = trio.Event()
                    await self._wanted.wait()
                self._turn()
                if self._actions:
                    await trio.lowlevel.checkpoint()

    def _turn(self) -> None:
        """Carries out requests and commits them, and then the answers that the commit has brought.

        Answers come within the commit if there are no other replicas. A pass of the event loop for them alone would
        cost more than the answers do.
        """
        left = _TURN_MAX
        while count := min(len(self._actions), left):
            left -= count
            for _ in range(count):
                self._actions.popleft()()
            self._commit()

    def _run_soon(self, action: Callable[[], None]) -> None:
        """Runs `action` in a turn of this client, and then commits what it has staged. `action` must not raise."""
        self._actions.append(action)
        self._wanted.set()

    # Routing

    def _route(self, pending: _Pending) -> None:
        """Hands a request over to the coordinator of its share-partition."""
        pending.attempts += 1
        runtime, request = self._coordinator.runtime, pending.request
        topic = self._image().topics.by_name.get(runtime.settings.topic)
        if topic is None:
            self._create_topic_soon()
            self._failed(pending, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The topic does not exist yet."))
            return
        leader = topic.partitions[runtime.partition_for(request.key.coordinator_key)].leader
        if leader == self._local_id:
            self._carry_out(pending)
        elif leader < 0:
            self._failed(pending, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "Its partition has no leader."))
        else:
            self._queue((leader, type(request), request.key.group_id), pending)

    def _carry_out(self, pending: _Pending) -> None:
        """Has the coordinator on this broker carry out a request.

        The outcome can come within the commit of a partition; callbacks, which may append to others, get it in a turn
        of their own.
        """
        try:
            outcome = pending.request.carry_out(self._coordinator)
        except WireError as error:
            outcome = failed(KafkaError(ErrorCode.INVALID_REQUEST, str(error)))
        if outcome.done:
            self._answered(pending, outcome.outcome)
        else:
            outcome.then(lambda value: self._run_soon(partial(self._answered, pending, value)))

    def _answered(self, pending: _Pending, outcome: Any) -> None:
        if isinstance(outcome, KafkaError):
            self._failed(pending, outcome)
        else:
            self._end(pending, outcome)

    def _failed(self, pending: _Pending, error: KafkaError) -> None:
        """Repeats a request after a pause, or ends it with the error if that is final, or if its time is over."""
        is_unknown = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        pause_ms = min(_BACKOFF_MS * 2 ** min(pending.attempts - 1, 16), _BACKOFF_MS_MAX)
        pause_s = pause_ms * self._rng.uniform(1 - _JITTER, 1 + _JITTER) / 1000
        due, until = trio.current_time() + pause_s, UNKNOWN_TOPIC_RETRY_S if is_unknown else RETRY_S
        if error.code not in _RETRIABLE or due > pending.began + until:
            self._end(pending, error)
        else:
            self._deadlines.add(due, lambda: self._run_soon(partial(self._route, pending)))

    def _end(self, pending: _Pending, outcome: Any) -> None:
        self._pending -= 1
        pending.completion.complete(outcome)

    # The topic

    def _create_topic_soon(self) -> None:
        assert self._nursery is not None, "it runs"
        if not self._is_creating:
            self._is_creating = True
            self._nursery.start_soon(self._create)

    async def _create(self) -> None:
        """Creates the topic once; requests that wait for it have it tried again."""
        code = await self._create_topic()
        self._is_creating = False
        if code is not ErrorCode.NONE:
            topic = self._coordinator.runtime.settings.topic
            self._trace("share_state_topic_not_created", topic=topic, error=code.name)

    # Other brokers

    def _queue(self, lane: _Lane, pending: _Pending) -> None:
        assert self._nursery is not None, "it runs"
        queue = self._lanes.get(lane)
        if queue is None:
            self._lanes[lane] = deque([pending])
            self._nursery.start_soon(self._send, lane)
        else:
            queue.append(pending)

    async def _send(self, lane: _Lane) -> None:
        """Sends what is queued in a lane, until nothing is."""
        broker_id, kind, _ = lane
        requests_max = _FIRST_MESSAGE_REQUESTS if kind is ReadState else _MESSAGE_REQUESTS_MAX
        while queue := self._lanes[lane]:
            sent = _take(queue, requests_max)
            message = as_message([each.request for each in sent])
            try:
                response = await self._connections.call(broker_id, message, kind.version)
            except (ConnectionLost, WireError) as failure:
                # A number that does not fit into a message is a mistake of the caller.
                code = ErrorCode.NETWORK_EXCEPTION if isinstance(failure, ConnectionLost) else ErrorCode.INVALID_REQUEST
                for each in sent:
                    self._run_soon(partial(self._failed, each, KafkaError(code, str(failure))))
            else:
                results = results_of(response)
                if kind is ReadState:
                    requests_max = _next_reads_max(requests_max, len(sent), results.values())
                for each in sent:
                    result = results.get((each.request.key.topic_id, each.request.key.partition))
                    self._run_soon(partial(self._answered, each, _outcome_of(each.request, result)))
        del self._lanes[lane]


def _next_reads_max(reads_max: int, sent: int, results: Iterable[Any]) -> int:
    """The most reads in the next message, after a message with `sent` reads, of which there may be `reads_max`.

    The next states may be larger: their number at most doubles, and their batches are expected to fill half a response.
    """
    batch_count = sum(len(result.state_batches) for result in results)
    fitting = sent * (_RESPONSE_BATCHES_MAX // 2) // max(1, batch_count)
    return max(1, min(2 * reads_max, fitting, _MESSAGE_REQUESTS_MAX))


def _take(queue: deque[_Pending], requests_max: int) -> list[_Pending]:
    """Removes the first requests from a queue, as many as one message takes.

    Results are told apart by their share-partitions. So a second request about the same one stays for the next message.
    """
    taken: dict[SharePartitionKey, _Pending] = {}
    size_bytes = 0
    while queue and len(taken) < requests_max and queue[0].request.key not in taken:
        size_bytes += queue[0].request.size_bytes
        if taken and size_bytes > _MESSAGE_BYTES_MAX:
            break
        pending = queue.popleft()
        taken[pending.request.key] = pending
    return [*taken.values()]


def _outcome_of(request: StateRequest, result: Any) -> Any:
    """The value of a result, or the KafkaError that it has."""
    if result is None:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The share coordinator has not answered for the partition.")
    if not result.error_code:
        return request.value(result)
    return KafkaError(ErrorCode.of(result.error_code), result.error_message or "")
