"""The cluster as a client sees it: metadata, one connection per broker and purpose, routing, retries.

Every client stands on one `Cluster`. Its nursery carries the connections and a task that keeps the metadata fresh.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from math import inf
from typing import Final, TypeVar

import trio

from broker.client.backoff import Backoff
from broker.client.brokers import Broker, BrokerLink, security_of
from broker.client.config import ClientConfig
from broker.client.environment import Environment
from broker.client.errors import (
    ClientFailed,
    ClosedError,
    ConnectionLost,
    KafkaError,
    TimedOut,
    UnsupportedByBroker,
    check,
    is_retriable,
    is_stale_metadata,
)
from broker.client.find_coordinators import GROUP, find_coordinators
from broker.client.first_success import NoSuccess, first_success
from broker.client.links import Links, Purpose
from broker.client.metadata_cache import MetadataCache
from broker.client.reachability import Destination, Reachability, Trouble, trouble_with_all
from broker.client.types import Node
from broker.wire.api.find_coordinator import Coordinator
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker.wire.errors import ErrorCode

# How long one server is waited for before another is tried as well: to connect, where trying costs little, and to
# answer a question, where a server may have to work for longer.
CONNECT_PATIENCE_S: Final = 0.5
_ANSWER_PATIENCE_S: Final = 1.0
# So many brokers are asked the same question at most.
_ASKED_MAX: Final = 3
# The least that a metadata refresh waits for, so that a zero back-off does not become a busy loop.
_REFRESH_PAUSE_MIN_S: Final = 0.001

_T = TypeVar("_T")


class Cluster:
    """See the module's docstring. Made by `open_cluster`; after its block every call raises ClosedError."""

    # True if the nodes are controllers, which serve no Metadata.
    is_of_controllers = False

    def __init__(self, config: ClientConfig, environment: Environment, nursery: trio.Nursery) -> None:
        self.config = config
        self.environment = environment
        self.nursery = nursery
        self.metadata = MetadataCache()
        self.backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, environment.rng)
        self.reachability = Reachability(config.client_id)
        # Since when no broker at all can be reached, and what is wrong with each.
        self._unreachable: Trouble | None = None
        self._security = security_of(config, environment)
        self._links = Links(self._new_link)
        self._coordinators: dict[tuple[str, int], int] = {}
        self._followed: dict[str, None] | None = {}  # None: all topics
        self._refreshing = trio.Lock()
        self._refreshes_begun = 0
        self._refreshed: tuple[int, frozenset[str] | None] = (0, frozenset())
        self._stale = trio.Event()
        self._changed = trio.Event()
        self._is_closed = False
        # Why a background task ended, which has closed the cluster.
        self.failure: ClientFailed | None = None
        self._on_failure: list[Callable[[ClientFailed], None]] = []

    # Brokers

    async def any_broker(self, passed_over: Collection[Broker] = ()) -> Broker:
        """A connected broker that is not `passed_over`, the one with the fewest requests in flight first.

        Without a connection to a broker that answers, it tries the known brokers in random order, then the bootstrap
        servers, whose names are resolved again (KIP-899); each for a moment before it tries the next one too. Raises
        ConnectionLost after one round in which none could be reached; MismatchedEndpointType if each is a controller,
        and AuthenticationFailed if each refuses this client or is refused.
        """
        await self._check_open()
        links = self._links.connected()
        connected = [broker for link in links if (broker := link.broker) is not None and broker not in passed_over]
        if answering := [broker for broker in connected if not self.is_silent(broker)]:
            self._unreachable = None
            return min(answering, key=lambda broker: broker.in_flight)
        known = list(self.metadata.brokers.values())
        self.environment.rng.shuffle(known)
        candidates = [link for node in known if not (link := self._links.of(node, "general")).is_backing_off]
        may_bootstrap = not known or self.config.metadata_recovery_strategy == "rebootstrap"
        tried = [link for link in candidates if link not in links]
        try:
            links = [*tried, *(self._new_bootstrap_links() if may_bootstrap else [])]
            broker = await _first_connected([link.connected for link in links])
        except NoSuccess as none:
            if connected:
                return connected[0]
            if passed_over:
                raise ConnectionLost("no other broker can be reached") from none
            if none.failures or self._unreachable is None:
                self._unreachable = trouble_with_all(none.failures, self._unreachable)
            await trio.sleep(self.backoff.pause_s(1))
            raise self._unreachable.error() from none
        self._unreachable = None
        return broker

    async def ask_any(self, ask: Callable[[Broker], Awaitable[_T]]) -> _T:
        """The answer of any broker. `ask` may run for several brokers at once, so it must not change the cluster.

        A broker that loses its connection or does not answer within a moment is passed over, and its answer is taken
        nevertheless if it comes first. Raises as `any_broker` and `ask` do.
        """
        asked: list[Broker] = []

        async def next_attempt() -> Callable[[], Awaitable[_T]] | None:
            if len(asked) == _ASKED_MAX:
                return None
            try:
                broker = await self.any_broker(asked)
            except ConnectionLost:
                if not asked:
                    raise
                return None
            asked.append(broker)
            return lambda: ask(broker)

        try:
            return await first_success(next_attempt, patience_s=_ANSWER_PATIENCE_S, passed_over=(ConnectionLost,))
        except NoSuccess as none:
            raise none.failures[-1] from none

    def is_silent(self, broker: Broker) -> bool:
        """True if requests wait for the broker's answer, and have done so for a while."""
        return broker.in_flight > 0 and broker.used_at < trio.current_time() - _ANSWER_PATIENCE_S

    def trouble(self, *, tolerated_ms: float = 0.0) -> ConnectionLost | None:
        """Why this client gets no answers: no broker can be reached, or none at the address that the cluster gives.

        A trouble that lasts less than `tolerated_ms` is left out once the client has reached a broker.
        """
        reachability = self.reachability
        found = self._unreachable
        if found is None and not reachability.has_reached_broker:
            found = reachability.of_brokers()
        if found is None or (reachability.has_reached_broker and found.is_tolerated(tolerated_ms)):
            return None
        return found.error()

    def trouble_of(self, node_id: int, *, tolerated_ms: float = 0.0) -> ConnectionLost | None:
        """Why this client gets no answers of one broker, since more than `tolerated_ms`."""
        node = self.metadata.brokers.get(node_id)
        found = None if node is None else self.reachability.of(node)
        if found is None or found.is_tolerated(tolerated_ms):
            return self.trouble(tolerated_ms=tolerated_ms)
        return found.error()

    async def broker(self, node_id: int, purpose: Purpose = "general") -> Broker:
        """A connection to one broker, after its reconnect back-off. Raises ConnectionLost."""
        await self._check_open()
        node = self.metadata.brokers.get(node_id)
        if node is None:
            raise ConnectionLost(f"broker {node_id} is not part of the cluster at present")
        return await self._links.of(node, purpose).connected()

    async def controller(self) -> Broker:
        """The broker for administrative requests: the controller where clients can reach it, else one that forwards."""
        await self._check_open()
        node = self.metadata.brokers.get(self.metadata.controller_id)
        if node is None:
            return await self.any_broker()
        link = self._links.of(node, "general")
        if link.broker is not None and not self.is_silent(link.broker):
            return link.broker
        attempts = [self.any_broker] if link.broker is not None else [link.connected, self.any_broker]
        try:
            return await _first_connected(attempts)
        except NoSuccess as none:
            raise none.failures[-1] from none

    async def coordinator(self, key: str, key_type: int = GROUP, purpose: Purpose = "coordinator") -> Broker:
        """The coordinator of a group or a transactional id. Raises KafkaError, ConnectionLost."""
        node_id = self._coordinators.get((key, key_type))
        if node_id is None or node_id not in self.metadata.brokers:
            found = await self._find_coordinator(key, key_type)
            self.metadata.add_broker(Node(found.node_id, found.host, found.port))
            node_id = self._coordinators[key, key_type] = found.node_id
        try:
            return await self.broker(node_id, purpose)
        except ConnectionLost:
            self.forget_coordinator(key, key_type)
            raise

    def forget_coordinator(self, key: str, key_type: int = GROUP) -> None:
        """Looks the coordinator up again before its next use."""
        self._coordinators.pop((key, key_type), None)

    # Metadata

    def follow_topics(self, topics: Iterable[str]) -> None:
        """Keeps the metadata of these topics, besides the ones that are followed already."""
        if self._followed is not None:
            self._followed.update(dict.fromkeys(topics))

    def follow_all(self) -> None:
        """Keeps the metadata of every topic, which a subscription by pattern needs."""
        self._followed = None

    def follow_only(self, topics: Iterable[str]) -> None:
        """Keeps the metadata of exactly these topics."""
        followed = dict.fromkeys(topics)
        self.metadata.forget([name for name in self.metadata.topics if name not in followed])
        self._followed = followed

    def request_refresh(self) -> None:
        """Has the metadata refreshed in the background after `retry.backoff.ms`."""
        self._stale.set()

    async def refresh(self, topics: Iterable[str] | None = (), *, may_create: bool = False) -> None:
        """Asks for the metadata of the followed topics and of `topics` (None: all), at once.

        Callers that wait at the same time share a request. Raises ConnectionLost, KafkaError.
        """
        await self._check_open()
        wanted = None if topics is None or self._followed is None else frozenset([*self._followed, *topics])
        begun_before = self._refreshes_begun
        async with self._refreshing:
            serial, covered = self._refreshed
            if serial > begun_before and (covered is None or (wanted is not None and wanted <= covered)):
                return
            self._refreshes_begun += 1
            serial = self._refreshes_begun
            await self._ask_for_metadata(None if wanted is None else sorted(wanted), may_create)
            self._refreshed = (serial, wanted)
        self.notify_changed()

    async def wait_for_change(self, version: int) -> None:
        """Waits until `metadata.version` is no longer `version`."""
        while self.metadata.version == version:
            await self._changed.wait()

    def notice_leader(self, node: Node) -> None:
        """Takes the address of a new leader from a Produce or Fetch response (KIP-951)."""
        self.metadata.add_broker(node)
        self.notify_changed()

    # Retries

    async def retried(self, attempt: Callable[[], Awaitable[_T]], *, timeout_ms: float) -> _T:
        """Runs `attempt` until it succeeds. After a retriable failure it backs off and tries again.

        Raises TimedOut from the last failure when the time is over, and any other failure at once.
        """
        failures = 0
        last: Exception | None = None
        with trio.move_on_after(timeout_ms / 1000):
            while True:
                try:
                    return await attempt()
                except ConnectionLost as failure:
                    if not failure.retriable:
                        raise
                    last = failure
                    self.request_refresh()
                except KafkaError as failure:
                    if not is_retriable(failure.code):
                        raise
                    last = failure
                    if is_stale_metadata(failure.code):
                        self.request_refresh()
                failures += 1
                await trio.sleep(self.backoff.pause_s(failures))
        raise TimedOut(f"no success within {timeout_ms:.0f} ms: {last or 'the brokers did not respond'}") from last

    # The inside

    async def run(self) -> None:
        """Keeps the metadata fresh and closes idle connections until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_metadata)
            nursery.start_soon(self._links.close_idle, self.config.connections_max_idle_ms / 1000)

    def close(self) -> None:
        self._is_closed = True

    def closed_error(self, message: str) -> ClosedError:
        """The error of a call that the end of the client refuses or interrupts. A failure is its cause."""
        error = ClosedError(message)
        error.__cause__ = self.failure
        return error

    def call_on_failure(self, function: Callable[[ClientFailed], None]) -> None:
        """Has a function called if a task of the client fails; it must not raise."""
        self._on_failure.append(function)

    def fail(self, failure: ClientFailed) -> None:
        """Closes the cluster because a task of its nursery failed."""
        self.failure = failure
        self.close()
        for function in self._on_failure:
            function(failure)
        self.notify_changed()

    async def _check_open(self) -> None:
        """Raises ClosedError if the cluster is closed; in a background task, which closing has cancelled, Cancelled."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_closed:
            raise self.closed_error("the client is closed; open a new one")

    async def _keep_metadata(self) -> None:
        failures = 0
        failing_since = inf
        while True:
            with trio.move_on_after(self.config.metadata_max_age_ms / 1000):
                await self._stale.wait()
                await trio.sleep(max(self.backoff.pause_s(max(failures, 1)), _REFRESH_PAUSE_MIN_S))
            self._stale = trio.Event()
            try:
                await self.refresh()
                failures, failing_since = 0, inf
            except (ConnectionLost, UnsupportedByBroker, KafkaError):
                failures += 1
                failing_since = min(failing_since, trio.current_time())
                self._stale.set()
            if self._is_to_start_over(failing_since):
                self._start_over()
                failing_since = inf

    def _is_to_start_over(self, failing_since: float) -> bool:
        trigger_s = self.config.metadata_recovery_rebootstrap_trigger_ms / 1000
        is_due = trio.current_time() - failing_since >= trigger_s
        return is_due and self.config.metadata_recovery_strategy == "rebootstrap"

    async def _ask_for_metadata(self, topics: list[str] | None, may_create: bool) -> None:
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=may_create)
        response: MetadataResponse = await self.ask_any(lambda broker: broker.call(request))
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._start_over()
        check(response.error_code)
        if not response.brokers:
            raise ConnectionLost("the broker does not know any brokers yet")
        self.metadata.update(response, is_complete=topics is None)
        self._drop_superseded_links()

    async def _find_coordinator(self, key: str, key_type: int) -> Coordinator:
        found_all = await self.ask_any(lambda broker: find_coordinators(broker, [key], key_type))
        if not found_all:
            raise ConnectionLost(f"the broker did not return the coordinator of {key}")
        found = found_all[0]
        check(found.error_code, found.error_message)
        return found

    def _new_link(self, node: Node) -> BrokerLink:
        parts = self.config, self.environment, self.nursery, self.reachability, self._security
        destination = Destination(self.config, lambda: self.metadata.cluster_id, self._start_over)
        return BrokerLink(node, *parts, self.is_of_controllers, destination)

    def _new_bootstrap_links(self) -> list[BrokerLink]:
        nodes = [Node(-1 - number, host, port) for number, (host, port) in enumerate(self.config.bootstrap_servers)]
        self.environment.rng.shuffle(nodes)
        return self._links.replace_bootstrap(nodes)

    def _drop_superseded_links(self) -> None:
        for node in self._links.drop_superseded(self.metadata):
            self.reachability.reached(node)
        addresses = [(node.host, node.port) for node in self.metadata.brokers.values()]
        self.reachability.keep([*self.config.bootstrap_servers, *addresses])

    def _start_over(self) -> None:
        """Forgets every broker; the next request goes to the bootstrap servers (KIP-1102, KIP-1242)."""
        self._links.close()
        self._coordinators.clear()
        self.metadata.update_brokers([], self.metadata.cluster_id, -1)

    def notify_changed(self) -> None:
        """Wakes the tasks that wait for a change of the metadata."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()


async def _first_connected(attempts: Iterable[Callable[[], Awaitable[Broker]]]) -> Broker:
    """The broker that is connected first, of these in their order. Raises NoSuccess."""
    left = iter(list(attempts))

    async def next_attempt() -> Callable[[], Awaitable[Broker]] | None:
        return next(left, None)

    expected = (ConnectionLost, UnsupportedByBroker, KafkaError)
    return await first_success(next_attempt, patience_s=CONNECT_PATIENCE_S, passed_over=expected)
