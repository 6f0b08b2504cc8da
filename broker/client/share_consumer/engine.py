"""The parts of a share consumer, and how they notify each other: membership, fetches, given records, polls."""

import logging
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, Final, Generic, TypeAlias

import trio

from broker.client.cluster import Cluster
from broker.client.consumer.engine import CANCELLED_CLOSE_TIMEOUT_S
from broker.client.consumer.leader_updates import LeaderUpdates
from broker.client.consumer.obstacles import ReadObstacles
from broker.client.consumer.subscription import SubscriptionKind, SubscriptionState
from broker.client.errors import ClientError, ClientFailed
from broker.client.results import Results
from broker.client.serializers import Deserializer
from broker.client.share_consumer.acknowledgements import Acknowledgement
from broker.client.share_consumer.acquired_records import AcquiredPartition
from broker.client.share_consumer.config import ShareConsumerConfig
from broker.client.share_consumer.deliveries import Deliveries, Delivery
from broker.client.share_consumer.delivery_queue import DeliveryQueue
from broker.client.share_consumer.leader import PendingAcknowledgement
from broker.client.share_consumer.member import ShareMember
from broker.client.share_consumer.share_fetcher import ShareFetcher
from broker.client.share_consumer.share_responses import ShareResponses
from broker.client.types import K, TopicPartition, V
from metadata.protocol import ShareAcquireMode

_log: Final = logging.getLogger(__name__)

# Called with a partition, the offsets of records of it whose acknowledgement has ended, and the error, or None.
AcknowledgementCallback: TypeAlias = Callable[[TopicPartition, Sequence[int], Exception | None], None]

# How often a fetch that waits looks whether the brokers can be reached.
_LOOK_AGAIN_S: Final = 5.0
# An iteration sends its acknowledgements at least so often, though records are left of the last fetch.
_ACKNOWLEDGE_EVERY_S: Final = 1.0


class ShareConsumerEngine(Generic[K, V]):
    """See the module's docstring. `run` has to run for anything to happen."""

    def __init__(
        self,
        cluster: Cluster,
        config: ShareConsumerConfig,
        key_deserializer: Deserializer[K] | None,
        value_deserializer: Deserializer[V] | None,
        callback: AcknowledgementCallback | None,
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.deliveries: Deliveries[K, V] = Deliveries()
        self.subscription = SubscriptionState(None, self._assigned)
        self.member = ShareMember(cluster, config, self.subscription, self._notify_waiters)
        self.obstacles = ReadObstacles(cluster, self.subscription, self.member, config.default_api_timeout_ms)
        is_limited = config.acquire_mode is ShareAcquireMode.RECORD_LIMIT
        deserializers = key_deserializer, value_deserializer
        self.queue: DeliveryQueue[K, V] = DeliveryQueue(self.deliveries, *deserializers, is_limited=is_limited)
        self._leader_updates = LeaderUpdates(cluster, self.subscription, self.obstacles, self._rechecked)
        recheck, crcs = self._leader_updates.recheck, config.check_crcs
        self.responses = ShareResponses(cluster, self.subscription, self._acquired, recheck, check_crcs=crcs)
        parts = self.subscription, self.member, self.responses
        self.fetcher = ShareFetcher(cluster, config, *parts, self._notify_waiters)
        self._callback = callback
        self._change = trio.lowlevel.ParkingLot()
        self._is_fetching = False
        self._is_closed = False
        self._acknowledged_at = 0.0
        cluster.call_on_failure(self._fail)

    async def run(self) -> None:
        """Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.member.run)
            nursery.start_soon(self.fetcher.run)
            nursery.start_soon(self._leader_updates.run)

    async def close(self, *, is_cancelled: bool) -> None:
        """Sends the acknowledgements that wait, releases all other records, and leaves the group."""
        timeout_s = CANCELLED_CLOSE_TIMEOUT_S if is_cancelled else self.config.request_timeout_ms / 1000
        with trio.CancelScope(shield=True, deadline=trio.current_time() + timeout_s):
            try:
                if self.cluster.failure is None:
                    self.send_acknowledgements(is_alone=True)
                    await self.fetcher.close()
                    await self.member.leave()
            finally:
                self._is_closed = True
                self._notify_waiters()

    # Fetches

    async def fetch(self, timeout_s: float | None) -> list[Delivery[K, V]]:
        """The next records, as `ShareConsumer.fetch` returns them."""
        if self._is_fetching:
            raise ClientError("another task is fetching: one task at a time fetches from a share consumer")
        deadline = inf if timeout_s is None else trio.current_time() + timeout_s
        self._is_fetching = True
        try:
            self._begin_fetch()
            while True:
                await self._poll()
                taken = self.queue.take(self.config.max_poll_records, trio.current_time())
                if taken:
                    return taken
                self.send_acknowledgements(is_alone=False)
                if trio.current_time() >= deadline:
                    await self.obstacles.check()
                    return []
                self.fetcher.want_records(True)
                await self._wait_for_change(deadline)
        finally:
            self.fetcher.want_records(False)
            self._is_fetching = False

    def _begin_fetch(self) -> None:
        """Ends what came of earlier fetches: their records are acknowledged, or given again if they were renewed."""
        self.settle_given()
        if self.config.is_explicit:
            self.deliveries.check_all_acknowledged()
        renewed = self.deliveries.take_renewed()
        self.queue.put_back(renewed)
        is_empty = self.queue.is_empty
        self.fetcher.want_records(is_empty)
        self.send_acknowledgements(is_alone=not is_empty)

    async def next(self) -> Delivery[K, V]:
        """The next record of an iteration."""
        self.settle_given()
        if self.queue.has_ready(trio.current_time()):
            await self._poll()
            if trio.current_time() - self._acknowledged_at >= _ACKNOWLEDGE_EVERY_S:
                self.send_acknowledgements(is_alone=True)
        else:
            self.queue.put_back(await self.fetch(None))
        delivery = self.queue.take_one()
        self.deliveries.give([delivery])
        return delivery

    def settle_given(self) -> None:
        """Accepts the given records, where acknowledgement is implicit."""
        if not self.config.is_explicit:
            self.deliveries.accept_all()

    async def _poll(self) -> None:
        """Keeps the membership alive. Raises errors since the last poll."""
        if self._is_closed:
            raise self.cluster.closed_error("the consumer was closed while a task was reading")
        if self.subscription.kind is SubscriptionKind.NONE:
            raise ClientError("there is nothing to read: subscribe() to topics first")
        await trio.lowlevel.checkpoint()
        self.member.poll_made()
        error, self.fetcher.error = self.fetcher.error, None
        error = error or self.subscription.take_error()
        if error is not None:
            raise error

    async def _wait_for_change(self, deadline: float) -> None:
        poll_s = min(_LOOK_AGAIN_S, self.config.max_poll_interval_ms / 3000)
        with trio.move_on_at(min(deadline, trio.current_time() + poll_s)):
            await self._change.park()
        if (error := self.obstacles.lasting()) is not None:
            raise error

    # Acknowledgements

    def send_acknowledgements(self, *, is_alone: bool) -> list[PendingAcknowledgement]:
        """Has the outcomes sent that no request carries yet; unless `is_alone`, with the next fetch."""
        self._acknowledged_at = trio.current_time()
        return self._send(self.deliveries.take(), self.config.default_api_timeout_ms, is_alone=is_alone)

    async def commit(self, timeout_s: float | None) -> Results[TopicPartition, None]:
        """Sends the outcomes, and waits for the result of each partition."""
        self.settle_given()
        timeout_ms = self.config.default_api_timeout_ms if timeout_s is None else timeout_s * 1000
        sent = self._send(self.deliveries.take(), timeout_ms, is_alone=True)
        with trio.move_on_after(timeout_ms / 1000):
            for pending in sent:
                await pending.ended.wait()
        results: dict[TopicPartition, Any] = {}
        for pending in sent:
            partition = pending.acknowledgement.source.partition
            error = pending.error if pending.ended.is_set() else pending.timed_out()
            results[partition] = results.get(partition) or error
        return Results(results)

    def _send(
        self, acknowledgements: Iterable[Acknowledgement], timeout_ms: float, *, is_alone: bool
    ) -> list[PendingAcknowledgement]:
        return self.fetcher.send(acknowledgements, self._settled, timeout_ms, is_alone=is_alone)

    def _settled(self, pending: PendingAcknowledgement, lock_timeout_ms: int | None) -> None:
        acknowledgement = pending.acknowledgement
        is_renewed = pending.error is None and bool(acknowledgement.renewed)
        lock_s = inf if lock_timeout_ms is None else lock_timeout_ms / 1000
        self.deliveries.settle_renewals(acknowledgement, trio.current_time() + lock_s if is_renewed else None)
        if acknowledgement.renewed:
            self._notify_waiters()
        if self._callback is None or not acknowledgement.delivered:
            return
        try:
            self._callback(acknowledgement.source.partition, acknowledgement.delivered, pending.error)
        except Exception:  # noqa: BLE001 - an error of the application's callback must not end the client's tasks
            _log.exception("group %s: the callback of an acknowledgement failed", self.config.group)

    # Changes

    def _acquired(self, acquired: AcquiredPartition) -> None:
        """Takes records, and fetches no more until the application has been given these."""
        self.queue.add(acquired)
        self.fetcher.want_records(False)

    def _assigned(self) -> None:
        self._leader_updates.recheck()
        if self.subscription.without_leader():
            self.cluster.request_refresh()

    def _rechecked(self) -> None:
        self.fetcher.notify()
        self._notify_waiters()

    def _fail(self, failure: ClientFailed) -> None:
        self._is_closed = True
        self._notify_waiters()

    def _notify_waiters(self) -> None:
        self._change.unpark_all()
