"""Fetches from the leaders of a share consumer's partitions, and sends them its acknowledgements.

One task per leader has a connection and a share session of its own, and one request at a time in flight. Records are
fetched only while the application waits for some, because their acquisition locks run from the fetch on.
"""

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import trio

from broker.client.brokers import Broker
from broker.client.cluster import Cluster
from broker.client.consumer.group.signal import Signal
from broker.client.consumer.positions import AssignedPartition
from broker.client.consumer.subscription import SubscriptionState
from broker.client.errors import ClosedError, ConnectionLost, KafkaError, UnsupportedByBroker, is_retriable
from broker.client.share_consumer.acknowledgements import Acknowledgement
from broker.client.share_consumer.config import ShareConsumerConfig
from broker.client.share_consumer.leader import (
    PendingAcknowledgement,
    ShareLeader,
    outcomes_by_partition,
    settle_all,
)
from broker.client.share_consumer.member import NO_SHARE_GROUPS, ShareMember
from broker.client.share_consumer.share_requests import (
    ACQUIRE_MODES_SINCE,
    RENEWALS_SINCE,
    acknowledge_request,
    fetch_request,
)
from broker.client.share_consumer.share_responses import ShareResponses
from broker.client.share_consumer.share_session import FINAL_EPOCH, PartitionId, is_session_over
from broker.client.types import Node, TopicPartition
from broker.wire.api.share_fetch import ShareFetchRequest
from broker.wire.errors import ErrorCode
from metadata.protocol import ShareAcquireMode


class ShareFetcher:
    """See the module's docstring.

    `arrived` is called when records or an error have come. `error` is one that the application has to know of.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ShareConsumerConfig,
        subscription: SubscriptionState,
        member: ShareMember,
        responses: ShareResponses,
        arrived: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._member = member
        self._arrived = arrived
        self._leaders: dict[int, ShareLeader] = {}
        self._changed = Signal()
        self._is_wanted = False
        self._is_closing = False
        self._is_limited = config.acquire_mode is ShareAcquireMode.RECORD_LIMIT
        # With record_limit, the only leader that is asked for records at present.
        self._turn: int | None = None
        self.error: Exception | None = None
        self._responses = responses

    async def run(self) -> None:
        """Runs the tasks of leaders until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                for assigned in self._subscription.partitions:
                    leader = assigned.leader
                    if leader is not None and leader.node_id not in self._leaders and not self._is_closing:
                        self._leaders[leader.node_id] = ShareLeader(leader.node_id)
                        nursery.start_soon(self._serve, self._leaders[leader.node_id])
                await self._changed.wait()

    def notify(self) -> None:
        """Notifies of a change of the assignment or of a leader."""
        self._changed.notify()

    def want_records(self, is_wanted: bool) -> None:
        """Says whether the application waits for records."""
        if self._is_wanted != is_wanted:
            self._is_wanted = is_wanted
            self._changed.notify()

    def send(
        self,
        acknowledgements: Iterable[Acknowledgement],
        settled: Callable[[PendingAcknowledgement, int | None], None],
        timeout_ms: float,
        *,
        is_alone: bool,
    ) -> list[PendingAcknowledgement]:
        """Has acknowledgements sent; unless they are `is_alone`, with the next ShareFetch if there is one."""
        deadline = trio.current_time() + timeout_ms / 1000
        sent = []
        for acknowledgement in acknowledgements:
            pending = PendingAcknowledgement(
                acknowledgement, deadline, is_alone or bool(acknowledgement.renewed), settled
            )
            sent.append(pending)
            leader = self._leaders.get(acknowledgement.source.node_id)
            if leader is None:
                pending.settle(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader has left the cluster"))
            else:
                leader.pending.append(pending)
        if sent:
            self._changed.notify()
        return sent

    async def close(self) -> None:
        """Sends the acknowledgements that wait, and ends the sessions, which releases all other acquired records."""
        self._is_closing, self._is_wanted = True, False
        self._changed.notify()
        for leader in list(self._leaders.values()):
            await leader.ended.wait()

    # Tasks

    def _is_fetchable(self, assigned: AssignedPartition, now: float) -> bool:
        is_known = assigned.leader is not None and assigned.partition.topic in self._member.topic_ids
        return is_known and assigned.error is None and assigned.retry_at <= now

    def _wanted(self, node_id: int) -> list[AssignedPartition]:
        now = trio.current_time()
        return [
            assigned
            for assigned in self._subscription.partitions
            if self._is_fetchable(assigned, now) and assigned.leader is not None and assigned.leader.node_id == node_id
        ]

    def _may_fetch(self, leader: ShareLeader) -> bool:
        if not self._is_wanted or not self._wanted(leader.node_id):
            return False
        return not self._is_limited or (self._turn is None and self._next_in_turn() == leader.node_id)

    def _next_in_turn(self) -> int | None:
        """The leader of the first partition that can be fetched, in the order in which they take turns."""
        now = trio.current_time()
        for assigned in self._subscription.partitions:
            if self._is_fetchable(assigned, now) and assigned.leader is not None:
                leader = self._leaders.get(assigned.leader.node_id)
                if leader is not None and leader.retry_at <= now:
                    return leader.node_id
        return None

    async def _serve(self, leader: ShareLeader) -> None:
        """Sends the requests to one leader, for as long as the cluster has it."""
        failures = 0
        while leader.node_id in self._cluster.metadata.brokers or leader.pending or self._wanted(leader.node_id):
            try:
                if self._is_closing:
                    await self._end_session(leader)
                    break
                if await self._act(leader):
                    failures = 0
            except (ConnectionLost, KafkaError, UnsupportedByBroker) as failure:
                failures += 1
                self._fail(leader, failure, failures)
            except ClosedError:
                break
        del self._leaders[leader.node_id]
        settle_all(leader.pending, ConnectionLost("the leader has left the cluster, or the consumer was closed"))
        leader.ended.set()

    async def _act(self, leader: ShareLeader) -> bool:
        """Sends the next request, or waits for a change and returns False. Raises as the requests do."""
        now = trio.current_time()
        may_fetch = self._may_fetch(leader)
        if leader.retry_at > now:
            with trio.move_on_at(leader.retry_at):
                await self._changed.wait()
            return False
        if leader.has_due(now, only_alone=may_fetch):
            await self._acknowledge(leader)
        elif may_fetch:
            await self._fetch(leader)
        else:
            await self._wait_for_change(leader)
            return False
        return True

    def _fail(self, leader: ShareLeader, failure: Exception, failures: int) -> None:
        """Waits before the next request. An error that a retry does not mend is told to the application."""
        is_over = isinstance(failure, KafkaError) and is_session_over(failure.code)
        if isinstance(failure, ConnectionLost):
            leader.lose_session(failure)
        if not (is_over and failures == 1):
            leader.retry_at = trio.current_time() + self._cluster.backoff.pause_s(failures)
        is_retried = isinstance(failure, KafkaError) and (is_over or is_retriable(failure.code))
        if not isinstance(failure, ConnectionLost) and not is_retried:
            self.error = failure
        for assigned in self._wanted(leader.node_id):
            assigned.last_failure = failure
        self._cluster.request_refresh()
        self._arrived()

    async def _wait_for_change(self, leader: ShareLeader) -> None:
        now = trio.current_time()
        due = min((each.next_attempt(now) for each in self._subscription.partitions), default=inf)
        with trio.move_on_at(min(due, leader.next_due())):
            await self._changed.wait()

    # Requests

    def _id_of(self, partition: TopicPartition) -> PartitionId:
        return PartitionId(self._member.topic_ids[partition.topic], partition.partition)

    def _leader_of(self, partition: TopicPartition) -> int | None:
        known = self._cluster.metadata.leader(partition)
        return None if known is None else known[0]

    async def _fetch(self, leader: ShareLeader) -> None:
        """One ShareFetch. Raises ConnectionLost, UnsupportedByBroker, and KafkaError for the request as a whole."""
        if self._is_limited:
            self._turn = leader.node_id
        try:
            broker = await self._cluster.broker(leader.node_id, "fetch")
            version = broker.version_of(ShareFetchRequest, lowest=ACQUIRE_MODES_SINCE if self._is_limited else 0)
            wanted = self._wanted(leader.node_id)
            if not self._is_wanted or not wanted:
                return  # there was time for changes while the connection was made
            ids = {self._id_of(each.partition): each for each in wanted}
            pending = leader.take_due(trio.current_time(), self._leader_of, with_alone=False)
            change = leader.session.fetch(ids)
            request = fetch_request(self._config, self._member.member_id, change, outcomes_by_partition(pending))
            timeout_ms = self._config.request_timeout_ms + self._config.fetch_max_wait_ms
            response = await self._exchange(leader, broker, request, version, timeout_ms, pending)
            self._responses.take_fetched(leader, response, ids, pending)
            self._arrived()
        finally:
            if self._is_limited:
                self._turn = None
                for assigned in self._wanted(leader.node_id)[:1]:
                    self._subscription.move_to_end(assigned.partition)
                self._changed.notify()

    async def _acknowledge(self, leader: ShareLeader, *, is_final: bool = False) -> None:
        """One ShareAcknowledge with all acknowledgements that are due, and for the last time if it `is_final`.

        Raises ConnectionLost, and KafkaError for the request as a whole.
        """
        broker = await self._cluster.broker(leader.node_id, "fetch")
        pending = leader.take_due(trio.current_time(), self._leader_of, is_final=is_final)
        if not pending and not is_final:
            return
        epoch = FINAL_EPOCH if is_final else leader.session.epoch
        request = acknowledge_request(self._config, self._member.member_id, epoch, outcomes_by_partition(pending))
        try:
            version = broker.version_of(type(request), lowest=RENEWALS_SINCE if request.is_renew_ack else 0)
        except UnsupportedByBroker as failure:
            settle_all(pending, failure)
            return
        timeout_ms = self._config.request_timeout_ms
        response = await self._exchange(leader, broker, request, version, timeout_ms, pending)
        self._responses.take_acknowledged(leader, response, pending)

    async def _end_session(self, leader: ShareLeader) -> None:
        """The last request of a session. If it fails, the leader ends the session with the connection."""
        if leader.session.is_open:
            await self._acknowledge(leader, is_final=True)

    async def _exchange(
        self,
        leader: ShareLeader,
        broker: Broker,
        request: Any,
        version: int,
        timeout_ms: float,
        pending: Iterable[PendingAcknowledgement],
    ) -> Any:
        """The response. Raises ConnectionLost, and KafkaError or UnsupportedByBroker for an error of the whole request.

        Then the acknowledgements that the request carries have failed.
        """
        try:
            response = await broker.call(request, version=version, timeout_ms=timeout_ms)
            if response.error_code != ErrorCode.NONE:
                leader.session.refuse(response.error_code)
                raise _refusal(leader, response.error_code, response.error_message)
        except (ConnectionLost, KafkaError, UnsupportedByBroker) as failure:
            settle_all(pending, failure)
            raise
        leader.session.accept()
        for endpoint in response.node_endpoints:
            self._cluster.notice_leader(Node(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack))
        return response


def _refusal(leader: ShareLeader, code: int, message: str | None) -> Exception:
    """The error of a whole request."""
    known = ErrorCode.of(code)
    if known is ErrorCode.UNSUPPORTED_VERSION:
        return UnsupportedByBroker(NO_SHARE_GROUPS)
    return KafkaError(known, message or f"broker {leader.node_id} refuses the request of a share consumer")
