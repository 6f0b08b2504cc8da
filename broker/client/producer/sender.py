"""The task that sends a producer's batches and handles the responses.

It asks the accumulator which batches are due, posts at most one request per broker and round, and applies the verdict
on each batch of a response. Everything that may change what is due wakes it: a batch that was begun, a response, a
connection, metadata, a timer. It never waits for a single broker.
"""

from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from math import inf
from typing import Final

import attrs
import trio

from broker.client.brokers import Broker
from broker.client.cluster import Cluster
from broker.client.errors import (
    ConnectionLost,
    KafkaError,
    TimedOut,
    UnsupportedByBroker,
    check,
    is_retriable,
    is_stale_metadata,
)
from broker.client.producer.accumulator import Accumulator
from broker.client.producer.batch import NO_OFFSET, Batch
from broker.client.producer.config import ACKS_NONE, ProducerConfig
from broker.client.producer.produce_requests import (
    PostedRequest,
    ProduceOutcome,
    ProduceRequests,
    failure_of,
    produce_outcome,
    record_errors_of,
    responses_by_partition,
)
from broker.client.producer.routing import TopicRouting, hold_timeout
from broker.client.producer.sequences import ProducerIdentity
from broker.client.producer.transaction_requests import TransactionRequests
from broker.client.types import Node, TopicPartition
from broker.wire.api.init_producer_id import InitProducerIdRequest
from broker.wire.api.produce import PartitionProduceResponse, ProduceResponse
from broker.wire.errors import ErrorCode

# An idempotent producer has no transaction that could time out.
_NO_TRANSACTION_TIMEOUT_MS: Final = 2**31 - 1
# Errors of a topic that no refresh of the metadata will cure.
_TOPIC_REFUSED: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)


@attrs.define(eq=False)
class _Channel:
    """The connection to one node. `waiting_since` tells since when batches have waited for it."""

    broker: Broker | None = None
    is_connecting: bool = False
    in_flight: int = 0
    waiting_since: float = inf


@attrs.define(eq=False)
class _CompletedRequest:
    """A request that was answered or lost, and is not handled yet. `outcome` is None with acks=0, once it was sent."""

    batches: list[Batch]
    posted: PostedRequest
    outcome: ProduceResponse | ConnectionLost | None


class Sender:
    """See the module's docstring. `on_fatal` is called with an error after which nothing can be sent any more.

    `transactions` is None unless the producer is transactional.
    While `flushes` is not 0, batches are sent without waiting for more records.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator,
        identity: ProducerIdentity | None,
        routings: dict[str, TopicRouting],
        on_fatal: Callable[[Exception], None],
        transactions: TransactionRequests | None = None,
    ) -> None:
        self.flushes = 0
        self._on_fatal = on_fatal
        self._cluster = cluster
        self._config = config
        self._accumulator = accumulator
        self._identity = identity
        self._routings = routings
        self._transactions = transactions
        self._requests = ProduceRequests(config, accumulator.ratios, accumulator.transaction)
        self._channels: dict[int, _Channel] = {}
        self._completed: deque[_CompletedRequest] = deque()
        self._wakeup = trio.Event()
        self._idle: trio.Event | None = None
        self._is_identifying = False
        self._is_describing = False
        self._seen_metadata = -1

    def wake(self) -> None:
        self._wakeup.set()

    async def run(self) -> None:
        """Sends until it is cancelled. An exception from a callback of the application ends it."""
        self._cluster.nursery.start_soon(self._watch_metadata)
        self._cluster.nursery.start_soon(self._forget_idle_topics)
        while True:
            self._wakeup = trio.Event()
            next_at = self._step(trio.current_time())
            with trio.move_on_at(next_at):
                await self._wakeup.wait()

    def fail_all(self, error: Exception) -> None:
        """Gives up everything that has no outcome yet. Raises what callbacks raise, when everything has one."""
        with ExitStack() as stack:
            for batch in list(self._accumulator.batches()):
                stack.callback(self._accumulator.fail, batch, error)
            for routing in self._routings.values():
                stack.callback(routing.give_up_held, error)

    async def wait_until_idle(self) -> None:
        """Waits until no request is on the wire, also of batches that were given up: up to `request.timeout.ms`."""
        while any(channel.in_flight for channel in self._channels.values()):
            self._idle = trio.Event()
            await self._idle.wait()

    def is_slow(self, partition: TopicPartition) -> bool:
        """True if batches have waited for the partition's broker for `partitioner.availability.timeout.ms`."""
        timeout_s = self._config.partitioner_availability_timeout_ms / 1000
        leader = self._leader(partition)
        if not timeout_s or leader is None or leader not in self._channels:
            return False
        return trio.current_time() - self._channels[leader].waiting_since > timeout_s

    # One round

    def _step(self, now: float) -> float:
        """Handles responses and sends the batches that are due. Returns the time of the next step, at the latest."""
        while self._completed:
            self._handle_outcome(self._completed.popleft(), now)
        self._notice_metadata()
        if self._transactions is not None and (error := self._transactions.transaction.error) is not None:
            self.fail_all(error)
        for batch in self._accumulator.expired(now):
            self._accumulator.fail(batch, self._expiry(batch, now))
        next_at = self._expire_held_records(now)
        self._accumulator.is_urgent = self.flushes > 0 or self._accumulator.memory.is_awaited
        # Requests that are posted in one round leave in one system call.
        while (drained := self._accumulator.drain(now, self._leader, partial(self._is_ready, now))).batches:
            for node, batches in drained.batches.items():
                self._post(node, batches)
        if drained.is_leader_missing:
            self._cluster.request_refresh()
        if drained.is_identity_missing and not self._is_identifying:
            self._is_identifying = True
            self._cluster.nursery.start_soon(self._identify)
        if self._transactions is not None:
            self._transactions.add_partitions_soon(self.wake)
        return min(next_at, drained.next_at, self._throttle_end(now))

    def _leader(self, partition: TopicPartition) -> int | None:
        leader = self._cluster.metadata.leader(partition)
        return None if leader is None else leader[0]

    def _is_ready(self, now: float, node: int) -> bool:
        channel = self._channels.get(node)
        if channel is None:
            channel = self._channels[node] = _Channel()
        if channel.broker is None or channel.broker.is_lost:
            if not channel.is_connecting:
                channel.is_connecting = True
                self._cluster.nursery.start_soon(self._connect, node, channel)
        elif (
            channel.in_flight < self._config.max_in_flight_requests_per_connection
            and channel.broker.throttled_until <= now
        ):
            channel.waiting_since = inf
            return True
        channel.waiting_since = min(channel.waiting_since, now)
        return False

    def _throttle_end(self, now: float) -> float:
        ends = [channel.broker.throttled_until for channel in self._channels.values() if channel.broker is not None]
        return min((end for end in ends if end > now), default=inf)

    def _post(self, node: int, batches: list[Batch]) -> None:
        channel = self._channels[node]
        assert channel.broker is not None, "the node was ready"
        try:
            posted = self._requests.build(channel.broker, self._cluster.metadata, batches)
        except UnsupportedByBroker as error:
            for batch in batches:
                self._accumulator.end_attempt(batch)
                self._accumulator.fail(batch, error)
            return

        def on_response(outcome: ProduceResponse | ConnectionLost | None) -> None:
            channel.in_flight -= 1
            self._completed.append(_CompletedRequest(batches, posted, outcome))
            self._wakeup.set()
            if self._idle is not None:
                self._idle.set()

        channel.in_flight += 1
        channel.broker.post(posted.message, posted.version, on_response, is_answered=self._config.acks != ACKS_NONE)

    # Responses

    def _handle_outcome(self, completed: _CompletedRequest, now: float) -> None:
        for batch in completed.batches:
            self._accumulator.end_attempt(batch)
        outcome = completed.outcome
        if isinstance(outcome, ConnectionLost):
            self._cluster.request_refresh()
            for batch in completed.batches:
                self._retry(batch, outcome, now)
            return
        if outcome is None:  # acks=0: the kernel has it
            for batch in completed.batches:
                self._accumulator.succeed(batch, NO_OFFSET)
            return
        for endpoint in outcome.node_endpoints:
            self._cluster.notice_leader(Node(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack))
        by_partition = responses_by_partition(completed.posted, outcome)
        for batch in completed.batches:
            self._apply_verdict(batch, by_partition.get(batch.partition), now)

    def _apply_verdict(self, batch: Batch, response: PartitionProduceResponse | None, now: float) -> None:
        if response is None:
            self._retry(batch, ConnectionLost("the broker's response leaves the partition out"), now)
            return
        verdict = produce_outcome(
            response.error_code,
            len(batch.records),
            response.log_start_offset,
            is_idempotent=self._identity is not None,
        )
        if verdict is ProduceOutcome.APPENDED:
            self._accumulator.succeed(batch, response.base_offset, response.log_append_time_ms)
        elif verdict is ProduceOutcome.SPLIT:
            self._accumulator.split(batch, now)
        elif verdict is ProduceOutcome.FAILED:
            self._accumulator.fail(batch, failure_of(response), record_errors_of(response, len(batch.records)))
        elif verdict is ProduceOutcome.SEQUENCE_REJECTED:
            failure = failure_of(response)
            self._accumulator.reject_sequence(batch, failure)
            self._retry(batch, failure, now)
        else:
            self._retry(batch, failure_of(response), now, is_leader_new=self._take_leader(batch.partition, response))

    def _take_leader(self, partition: TopicPartition, response: PartitionProduceResponse) -> bool:
        """Takes the new leader that the old one has named (KIP-951). Returns True if it was not known yet."""
        leader = response.current_leader
        metadata = self._cluster.metadata
        if leader is not None and metadata.update_leader(partition, leader.leader_id, leader.leader_epoch):
            return True
        if is_stale_metadata(response.error_code):
            self._cluster.request_refresh()
        return False

    def _retry(self, batch: Batch, failure: Exception, now: float, *, is_leader_new: bool = False) -> None:
        batch.last_failure = failure
        if batch.attempts > self._config.retries:
            self._accumulator.fail(batch, failure)
        else:
            batch.retry_at = now if is_leader_new else now + self._cluster.backoff.pause_s(batch.attempts)

    def _expiry(self, batch: Batch, now: float) -> TimedOut:
        topic, partition = batch.partition
        leader = self._leader(batch.partition)
        trouble = self._cluster.trouble() if leader is None else self._cluster.trouble_of(leader)
        reason = trouble or batch.last_failure
        error = TimedOut(
            f"{len(batch.records)} records for partition {partition} of {topic} were not written within"
            f" {now - batch.created_at:.1f} s (delivery.timeout.ms): {reason or 'they were never sent'}"
        )
        error.__cause__ = reason
        return error

    # Metadata, connections, the producer id

    def _notice_metadata(self) -> None:
        metadata = self._cluster.metadata
        if metadata.version == self._seen_metadata:
            return
        self._seen_metadata = metadata.version
        for routing in self._routings.values():
            topic = metadata.topic(routing.topic)
            if topic is not None and topic.partitions:
                routing.update(topic)
            elif topic is not None and topic.error in _TOPIC_REFUSED:
                routing.give_up_held(KafkaError(topic.error, f"topic {routing.topic!r}"))

    def _expire_held_records(self, now: float) -> float:
        """Fails records whose topic stays unknown for `max.block.ms`, or with no broker to ask about it.

        Returns the time of the next check.
        """
        max_block_s = self._config.max_block_ms / 1000
        next_at = inf
        trouble = self._cluster.trouble()
        for routing in self._routings.values():
            if (held := routing.held) is None:
                continue
            if held.created_at + max_block_s <= now:
                known = self._cluster.metadata.topic(routing.topic)
                routing.give_up_held(hold_timeout(routing.topic, known, trouble, self._config.max_block_ms))
                continue
            if trouble is not None and not trouble.retriable:
                routing.give_up_held(trouble)
                continue
            next_at = min(next_at, held.created_at + max_block_s)
            if not self._is_describing:
                self._is_describing = True
                self._cluster.nursery.start_soon(self._describe)
        return next_at

    async def _forget_idle_topics(self) -> None:
        """Stops following topics that no record was written to for `metadata.max.idle.ms`."""
        idle_s = self._config.metadata_max_idle_ms / 1000
        while True:
            await trio.sleep(idle_s / 2)
            now = trio.current_time()
            idle = [name for name, routing in self._routings.items() if routing.is_idle_since(now - idle_s)]
            for name in idle:
                del self._routings[name]
            if idle:
                self._cluster.follow_only(self._routings)

    async def _watch_metadata(self) -> None:
        version = self._cluster.metadata.version
        while True:
            await self._cluster.wait_for_change(version)
            version = self._cluster.metadata.version
            self.wake()

    async def _describe(self) -> None:
        """Asks for the metadata of topics, which creates them where brokers do so, until no record is held."""
        attempts = 0
        while held := [routing.topic for routing in self._routings.values() if routing.held is not None]:
            attempts += 1
            with suppress(ConnectionLost, KafkaError, UnsupportedByBroker):
                await self._cluster.refresh(held, may_create=True)
            self.wake()
            await trio.sleep(self._cluster.backoff.pause_s(attempts))
        self._is_describing = False

    async def _connect(self, node: int, channel: _Channel) -> None:
        try:
            channel.broker = await self._cluster.broker(node)
        except (ConnectionLost, UnsupportedByBroker, KafkaError):
            self._cluster.request_refresh()
            if node not in self._cluster.metadata.brokers:
                # Nothing else paces attempts to reach a leader that the metadata gives no address of.
                await trio.sleep(self._cluster.backoff.pause_s(1))
        channel.is_connecting = False
        self.wake()

    async def _identify(self) -> None:
        """Asks for a producer id until there is one, or none can be had."""
        assert self._identity is not None, "an idempotent producer"
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS)
        attempts = 0
        while not self._identity.is_known:
            attempts += 1
            try:
                response = await self._cluster.ask_any(lambda broker: broker.call(request))
                check(response.error_code)
                self._identity.assigned(response.producer_id, response.producer_epoch)
            except ConnectionLost:
                await trio.sleep(self._cluster.backoff.pause_s(attempts))
            except (KafkaError, UnsupportedByBroker) as error:
                if not isinstance(error, KafkaError) or not is_retriable(error.code):
                    self._on_fatal(error)
                    self.fail_all(error)
                    return
                await trio.sleep(self._cluster.backoff.pause_s(attempts))
        self._is_identifying = False
        self.wake()
