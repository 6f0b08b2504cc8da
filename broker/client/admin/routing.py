"""Routes administrative requests to the nodes that answer them, and retries them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import attrs
import trio

from broker.client.admin.config import AdminConfig
from broker.client.arguments.calls import checks_arguments
from broker.client.brokers import Broker
from broker.client.cluster import Cluster
from broker.client.errors import ConnectionLost, KafkaError, TimedOut, UnsupportedByBroker, is_retriable
from broker.client.find_coordinators import GROUP, find_coordinators
from broker.client.results import Failure, Outcomes, Results, failure, missing
from broker.client.types import Node, TopicPartition
from broker.wire.api.find_coordinator import Coordinator
from broker.wire.errors import ErrorCode

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

# A topic that was just created, and a broker that is just starting, are not known to every broker at once. After this
# time they count as missing. Kafka's AdminClient asks until the call times out, which by default is a minute.
_UNKNOWN_TIMEOUT_S: Final = 3.0

# The part of the time for a request that the broker may use.
_BROKER_SHARE: Final = 0.9
# The part of the time for nodes: more than that, so that late answers of brokers count.
_NODES_SHARE: Final = 0.95

# The codes on which a request to the controller is sent again; other codes are answers.
_RETRIED_BY_CONTROLLER: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})


def is_retried_by_controller(code: ErrorCode) -> bool:
    """True if a change of metadata that was refused with this code should be sent again."""
    return code in _RETRIED_BY_CONTROLLER


class Deadline:
    """The time at which a call gives up."""

    __slots__ = ("_request_timeout_ms", "_time", "timeout_ms")

    def __init__(self, timeout_ms: float, request_timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._time = trio.current_time() + timeout_ms / 1000

    @property
    def silence_s(self) -> float:
        """How long nodes may take: a little less than is left, so that an error can say which of them are silent."""
        return max(0.0, self._time - trio.current_time()) * _NODES_SHARE

    @property
    def request_timeout_ms(self) -> int:
        """The timeout of the next request in milliseconds, for the field of that name in requests.

        It is a little less than the remaining time, so that the broker's answer, which says what it waits for, arrives
        in time.
        """
        left_ms = (self._time - trio.current_time()) * 1000
        return max(1, int(min(left_ms, self._request_timeout_ms) * _BROKER_SHARE))


@attrs.frozen
class _Settling(Generic[K, V]):
    """The outcomes of a call: those of the attempt under way, the final ones, and the last failures of other items."""

    wanted: Sequence[K]
    is_retried: Callable[[ErrorCode], bool]
    outcomes: Outcomes[K, V] = attrs.field(factory=dict)
    settled: Outcomes[K, V] = attrs.field(factory=dict)
    latest: dict[K, Failure] = attrs.field(factory=dict)

    def pending(self) -> Sequence[K]:
        return [item for item in self.wanted if item not in self.settled]

    def take_outcomes(self) -> None:
        """Settles the items of the attempt, apart from those that are asked about again."""
        for item, outcome in self.outcomes.items():
            if isinstance(outcome, ConnectionLost) or (
                isinstance(outcome, KafkaError) and self.is_retried(outcome.code)
            ):
                self.latest[item] = outcome
            else:
                self.settled[item] = outcome


class Routing:
    """The base class of the calls of each concern, which check their arguments."""

    _config: AdminConfig

    def __init_subclass__(cls) -> None:
        checks_arguments()(cls)

    @property
    def _cluster(self) -> Cluster:
        raise NotImplementedError

    @property
    def _uses_controllers(self) -> bool:
        """True if the client talks to controllers; each request goes to the active one then (KIP-919)."""
        return bool(self._config.bootstrap_controllers)

    async def _any(self) -> Broker:
        cluster = self._cluster
        return await (cluster.controller() if self._uses_controllers else cluster.any_broker())

    async def _ask_once(self, ask: Callable[[Broker], Awaitable[T]]) -> T:
        """The answer of a broker to a question, or of the active controller. Several brokers may be asked."""
        cluster = self._cluster
        return await (ask(await cluster.controller()) if self._uses_controllers else cluster.ask_any(ask))

    def _deadline(self, timeout_ms: float | None) -> Deadline:
        chosen_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return Deadline(chosen_ms, self._config.request_timeout_ms)

    async def _ask_any(self, ask: Callable[[Broker, Deadline], Awaitable[T]], timeout_ms: float | None) -> T:
        """Asks any broker, and retries retriable failures until the deadline."""
        deadline = self._deadline(timeout_ms)

        async def attempt() -> T:
            return await self._ask_once(lambda broker: ask(broker, deadline))

        return await self._cluster.retried(attempt, timeout_ms=deadline.timeout_ms)

    async def _ask_controller(self, ask: Callable[[Broker, Deadline], Awaitable[T]], timeout_ms: float | None) -> T:
        """Asks the active controller, and retries retriable failures until the deadline."""
        deadline = self._deadline(timeout_ms)

        async def attempt() -> T:
            return await ask(await self._cluster.controller(), deadline)

        return await self._cluster.retried(attempt, timeout_ms=deadline.timeout_ms)

    async def _settle(
        self,
        items: Iterable[K],
        ask: Callable[[Sequence[K], Deadline, Outcomes[K, V]], Awaitable[None]],
        timeout_ms: float | None,
        is_retried: Callable[[ErrorCode], bool] = is_retriable,
    ) -> Results[K, V]:
        """Asks about the items that have no final outcome yet, until all have one or the deadline is over.

        `ask` adds each outcome to its last argument as soon as it has it. Those that it has at the deadline count.
        """
        deadline = self._deadline(timeout_ms)
        state: _Settling[K, V] = _Settling(list(dict.fromkeys(items)), is_retried)

        async def attempt() -> None:
            state.outcomes.clear()
            pending = state.pending()
            await ask(pending, deadline, state.outcomes)
            state.latest.clear()
            state.outcomes.update({item: missing(item) for item in pending if item not in state.outcomes})
            state.take_outcomes()
            if state.latest:
                raise next(iter(state.latest.values()))

        if state.wanted:
            try:
                await self._cluster.retried(attempt, timeout_ms=deadline.timeout_ms)
            except TimedOut:
                state.take_outcomes()
                if not state.settled:
                    raise
                state.settled.update(_timed_out(state.pending(), state.latest))
        return Results({item: state.settled[item] for item in state.wanted})

    async def _change(
        self,
        items: Iterable[K],
        ask: Callable[[Broker, Sequence[K], Deadline], Awaitable[Outcomes[K, V]]],
        timeout_ms: float | None,
    ) -> Results[K, V]:
        """Sends a metadata change to the active controller, with an outcome for each item."""

        async def ask_controller(pending: Sequence[K], deadline: Deadline, outcomes: Outcomes[K, V]) -> None:
            outcomes.update(await ask(await self._cluster.controller(), pending, deadline))

        return await self._settle(items, ask_controller, timeout_ms, is_retried_by_controller)

    async def _by_broker(
        self,
        broker_ids: Iterable[int] | None,
        ask: Callable[[Broker, Deadline], Awaitable[V]],
        timeout_ms: float | None,
    ) -> Results[int, V]:
        """Asks brokers, each for itself; all brokers of the cluster where `broker_ids` is None."""

        async def ask_one(broker: Broker, items: Sequence[int], deadline: Deadline) -> Outcomes[int, V]:
            return {items[0]: await ask(broker, deadline)}

        if broker_ids is None:
            deadline = self._deadline(timeout_ms)
            await self._cluster.retried(self._cluster.refresh, timeout_ms=deadline.timeout_ms)
            broker_ids = sorted(self._cluster.metadata.brokers)
        return await self._by_node(broker_ids, lambda broker_id: broker_id, ask_one, timeout_ms)

    async def _by_node(
        self,
        items: Iterable[K],
        node_of: Callable[[K], int | None],
        ask: Callable[[Broker, Sequence[K], Deadline], Awaitable[Outcomes[K, V]]],
        timeout_ms: float | None,
        is_retried: Callable[[ErrorCode], bool] = is_retriable,
    ) -> Results[K, V]:
        """Asks the node that each item belongs to, and any node about the items that belong to none."""
        nodes_are_known_at = trio.current_time() + _UNKNOWN_TIMEOUT_S

        async def ask_nodes(pending: Sequence[K], deadline: Deadline, outcomes: Outcomes[K, V]) -> None:
            items_of: dict[int | None, list[K]] = {}
            for item in pending:
                items_of.setdefault(node_of(item), []).append(item)
            for node_id in await self._absent(items_of):
                error = _absence(node_id, is_final=trio.current_time() >= nodes_are_known_at)
                outcomes.update(dict.fromkeys(items_of.pop(node_id), error))
            await self._ask_nodes(items_of, ask, deadline, outcomes)

        return await self._settle(items, ask_nodes, timeout_ms, is_retried)

    async def _by_leader(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[Broker, Sequence[TopicPartition], Deadline], Awaitable[Outcomes[TopicPartition, V]]],
        timeout_ms: float | None,
    ) -> Results[TopicPartition, V]:
        """Asks the leader of each partition, with one request per leader and round."""
        topics_are_known_at = trio.current_time() + _UNKNOWN_TIMEOUT_S

        async def ask_leaders(
            pending: Sequence[TopicPartition], deadline: Deadline, outcomes: Outcomes[TopicPartition, V]
        ) -> None:
            leaders, failures = await self._leaders(pending)
            outcomes.update(failures)
            await self._ask_nodes(leaders, ask, deadline, outcomes)

        def is_retried(code: ErrorCode) -> bool:
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return trio.current_time() < topics_are_known_at
            return is_retriable(code)

        return await self._settle(partitions, ask_leaders, timeout_ms, is_retried)

    async def _by_coordinator(
        self,
        keys: Iterable[str],
        ask: Callable[[Broker, Sequence[str], Deadline], Awaitable[Outcomes[str, V]]],
        timeout_ms: float | None,
        key_type: int = GROUP,
    ) -> Results[str, V]:
        """Asks the coordinator of each group or transactional id, with one request per coordinator and round."""

        async def ask_coordinators(pending: Sequence[str], deadline: Deadline, outcomes: Outcomes[str, V]) -> None:
            coordinators, failures = await self._coordinators(pending, key_type)
            outcomes.update(failures)
            await self._ask_nodes(coordinators, ask, deadline, outcomes)

        return await self._settle(keys, ask_coordinators, timeout_ms)

    async def _ask_nodes(
        self,
        items_of: Mapping[int | None, Sequence[K]],
        ask: Callable[[Broker, Sequence[K], Deadline], Awaitable[Outcomes[K, V]]],
        deadline: Deadline,
        outcomes: Outcomes[K, V],
    ) -> None:
        """Asks nodes, of which None is any, at the same time. If one fails, that is the outcome of all its items.

        Until a node answers, the outcome of its items is that it does not. The call ends shortly before the deadline,
        so that the error of a call without any other outcome can say which node did not answer.
        """
        for node_id, items in items_of.items():
            name = "the broker that was asked" if node_id is None else f"broker {node_id}"
            outcomes.update(dict.fromkeys(items, ConnectionLost(f"{name} does not answer")))

        async def ask_node(node_id: int | None, items: Sequence[K]) -> None:
            try:
                node = await (self._any() if node_id is None else self._cluster.broker(node_id))
                answers = await ask(node, items, deadline)
            except (ConnectionLost, UnsupportedByBroker, KafkaError) as error:
                answers = dict.fromkeys(items, error)
            outcomes.update({item: answers.get(item, missing(item)) for item in items})

        with trio.move_on_after(deadline.silence_s):
            async with trio.open_nursery() as nursery:
                for node_id, items in items_of.items():
                    nursery.start_soon(ask_node, node_id, items)

    async def _absent(self, node_ids: Iterable[int | None]) -> list[int]:
        """Returns the nodes that are not part of the cluster, as far as a broker knows now."""
        known = self._cluster.metadata.brokers
        if all(node_id is None or node_id in known for node_id in node_ids):
            return []
        await self._cluster.refresh()
        known = self._cluster.metadata.brokers
        return [node_id for node_id in node_ids if node_id is not None and node_id not in known]

    async def _leaders(
        self, partitions: Sequence[TopicPartition]
    ) -> tuple[dict[int | None, list[TopicPartition]], dict[TopicPartition, Failure]]:
        """The partitions of each leader, and the errors of the partitions without one."""
        if self._uses_controllers:
            raise UnsupportedByBroker("controllers have no partitions; give the Admin bootstrap servers instead")
        await self._cluster.refresh(dict.fromkeys(partition.topic for partition in partitions))
        metadata = self._cluster.metadata
        leaders: dict[int | None, list[TopicPartition]] = {}
        errors: dict[TopicPartition, Failure] = {}
        for partition in partitions:
            leader = metadata.leader(partition)
            if leader is not None:
                leaders.setdefault(leader[0], []).append(partition)
                continue
            topic = metadata.topic(partition.topic)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
            if code == ErrorCode.NONE:
                is_known = metadata.partition(partition) is not None
                code = ErrorCode.LEADER_NOT_AVAILABLE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            errors[partition] = failure(code) or missing(partition)
        return leaders, errors

    async def _coordinators(
        self, keys: Sequence[str], key_type: int
    ) -> tuple[dict[int | None, list[str]], dict[str, Failure]]:
        """The keys of each coordinator, and the errors of the keys without one."""
        located: dict[int | None, list[str]] = {}
        errors: dict[str, Failure] = {}
        answers = await self._cluster.ask_any(lambda broker: find_coordinators(broker, keys, key_type))
        for found in answers:
            error = failure(found.error_code, found.error_message)
            if error is not None:
                errors[found.key] = error
                continue
            self._cluster.metadata.add_broker(self._node(found))
            located.setdefault(found.node_id, []).append(found.key)
        return located, errors

    def _node(self, found: Coordinator) -> Node:
        """The coordinator's address; its rack, which FindCoordinator does not report, stays as it is known."""
        known = self._cluster.metadata.brokers.get(found.node_id)
        return Node(found.node_id, found.host, found.port, None if known is None else known.rack)


def _absence(node_id: int, *, is_final: bool) -> Failure:
    text = f"broker {node_id} is not part of the cluster at present"
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text) if is_final else ConnectionLost(text)


def _timed_out(pending: Iterable[K], latest: Mapping[K, Failure]) -> dict[K, Failure]:
    """The errors of the items that have no outcome at the deadline, each with its last failure as the cause."""
    errors: dict[K, Failure] = {}
    for item in pending:
        last = latest.get(item)
        errors[item] = TimedOut(f"no answer in time about {item!r}" + (f"; the last failure: {last}" if last else ""))
        errors[item].__cause__ = last
    return errors


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """The partitions of each topic, in their order."""
    grouped: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        grouped.setdefault(partition.topic, []).append(partition)
    return grouped
