"""Drives a consumer's membership in its share group: heartbeats, and the assignment that they bring."""

from collections.abc import Callable, Iterable
from typing import Final

import trio

from broker.client.cluster import Cluster
from broker.client.consumer.group.consumer.membership import Next
from broker.client.consumer.group.context import GroupCoordinator, run_together, warn_of_expired_polls
from broker.client.consumer.group.coordinator_trouble import CoordinatorTrouble
from broker.client.consumer.group.heartbeat_times import HeartbeatTimes
from broker.client.consumer.group.polls import PollTimer
from broker.client.consumer.group.signal import Signal
from broker.client.consumer.group.topic_names import TopicNames
from broker.client.consumer.subscription import SubscriptionState
from broker.client.errors import ClientError, ConfigError, ConnectionLost, KafkaError, UnsupportedByBroker
from broker.client.share_consumer.config import ShareConsumerConfig
from broker.client.share_consumer.membership import ShareMembership, State
from broker.client.types import TopicPartition
from broker.printable import printable
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatResponse
from broker.wire.errors import ErrorCode
from broker.wire.uuids import encode_uuid, new_uuid

NO_SHARE_GROUPS: Final = (
    "the cluster has no share groups: the feature share.version has to be at level 1 or higher; "
    "`kraft features upgrade share.version=2` raises it"
)
_NO_TOPICS: Final[frozenset[str]] = frozenset()


class ShareMember:
    """See the module's docstring. It replaces the partitions of `subscription`. Nothing moves unless `run` runs.

    `topic_ids` are those of the assigned topics. `failed` is called when the member cannot be in its group: then
    `failure` says why, until it subscribes again.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ShareConsumerConfig,
        subscription: SubscriptionState,
        failed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._failed = failed
        self._polls = PollTimer(config.max_poll_interval_ms)
        self.coordinator_trouble = CoordinatorTrouble(config.group)
        self._coordinator = GroupCoordinator(cluster, config.group, self.coordinator_trouble)
        member_id = encode_uuid(new_uuid(cluster.environment.rng.randbytes))
        self._membership = ShareMembership(config.group, member_id, config.client_rack or None)
        self._names = TopicNames(cluster)
        self.topic_ids: dict[str, bytes] = {}
        self.subscribed_names = _NO_TOPICS
        self.failure: Exception | None = None
        self._changed = Signal()
        self._scope = trio.CancelScope()
        self._heartbeats = HeartbeatTimes(cluster.backoff, self._changed)

    @property
    def member_id(self) -> str:
        return self._membership.member_id

    async def run(self) -> None:
        """Keeps the membership until cancelled."""
        while True:
            while not self.subscribed_names or self.failure is not None:
                await self._changed.wait()
            with trio.CancelScope() as self._scope:
                try:
                    self._membership.join()
                    await run_together(
                        self._learn_topics, self._send_heartbeats, self._follow_assignments, self._watch_polls
                    )
                except (ClientError, KafkaError) as failure:
                    self.failure = failure
                    self._membership.fence()
                    self._assign({})
                    self._failed()

    # Calls of the consumer

    def subscribe(self, topics: Iterable[str]) -> None:
        """Replaces the subscription. Raises ConfigError if it is empty."""
        names = frozenset([topics] if isinstance(topics, str) else topics)
        if not names:
            raise ConfigError("subscribe to topics; unsubscribe() subscribes to nothing")
        self._subscription.subscribe()
        self._polls.restart()
        self.subscribed_names, self.failure = names, None
        self._membership.topics = tuple(sorted(names))
        self._cluster.follow_only(names)
        self._changed.notify()

    async def leave(self) -> None:
        """Ends the subscription; returns when the coordinator knows, or `request.timeout.ms` is over."""
        request = self._membership.leave_request()
        self.subscribed_names, self.failure = _NO_TOPICS, None
        self._polls.stop()
        self._scope.cancel()
        self._subscription.unsubscribe()
        self.topic_ids = {}
        if request is not None:
            await self._coordinator.send_leave_request(request)

    def poll_made(self) -> None:
        """Restarts `max.poll.interval.ms`. Raises why the member cannot be in its group."""
        if self.subscribed_names:
            self._polls.restart()
        if self.failure is not None:
            raise self.failure

    # Tasks

    async def _learn_topics(self) -> None:
        """Asks for the topics of each subscription, which brokers may create. If that fails, the cluster asks again."""
        learned = _NO_TOPICS
        while True:
            if self.subscribed_names == learned:
                await self._changed.wait()
                continue
            learned = self.subscribed_names
            try:
                await self._cluster.refresh(learned, may_create=self._config.allow_auto_create_topics)
            except (ConnectionLost, KafkaError, UnsupportedByBroker):
                self._cluster.request_refresh()

    async def _send_heartbeats(self) -> None:
        member = self._membership
        while True:
            await self._heartbeats.wait_due(
                is_outside=lambda: member.state is State.UNJOINED, is_urgent=lambda: member.is_heartbeat_urgent
            )
            await self._heartbeat()

    async def _follow_assignments(self) -> None:
        """Assigns what the coordinator has assigned, as far as the names of the topics are known."""
        assigned = None
        while True:
            target = self._membership.target
            if target == assigned:
                await self._changed.wait()
                continue
            named = await self._names.resolve(target or ())
            if target != self._membership.target:
                continue
            self._assign({TopicPartition(named[key], index): key for key, index in target or () if key in named})
            if all(topic_id in named for topic_id, _ in target or ()):
                assigned = target
            else:
                await trio.sleep(self._cluster.backoff.pause_s(1))

    async def _watch_polls(self) -> None:
        """Leaves the group while the application does not poll."""
        while True:
            await self._polls.wait_expired()
            warn_of_expired_polls(self._config.group)
            request = self._membership.leave_request()
            self._changed.notify()
            if request is not None:
                await self._coordinator.send_leave_request(request)
            await self._polls.wait_polled()
            self._membership.join()
            self._changed.notify()

    # Steps

    async def _heartbeat(self) -> None:
        """Sends a heartbeat and handles its response. Raises KafkaError, UnsupportedByBroker."""
        member = self._membership
        request = member.heartbeat_request()
        try:
            response: ShareGroupHeartbeatResponse | None = await self._coordinator.ask(request)
        except UnsupportedByBroker as error:
            raise UnsupportedByBroker(f"{NO_SHARE_GROUPS} ({error})") from error
        if response is None:
            member.on_heartbeat_lost()
            self._heartbeats.failed()
            return
        follows = member.on_heartbeat(request, response)
        if follows is Next.FAIL:
            raise self._failure_of(response)
        if follows is Next.FIND_COORDINATOR:
            self._coordinator.forget()
        if follows in (Next.RETRY, Next.FIND_COORDINATOR):
            self._heartbeats.failed()
        elif follows is Next.GO_ON:
            self._heartbeats.answered(response.heartbeat_interval_ms)
        self._changed.notify()

    def _assign(self, topic_ids: dict[TopicPartition, bytes]) -> None:
        self.topic_ids = {partition.topic: topic_id for partition, topic_id in topic_ids.items()}
        self._subscription.assign_from_group(sorted(topic_ids))

    def _failure_of(self, response: ShareGroupHeartbeatResponse) -> Exception:
        code = response.error_code
        known = ErrorCode.of(code)
        if known is ErrorCode.UNSUPPORTED_VERSION:
            return UnsupportedByBroker(NO_SHARE_GROUPS)
        return KafkaError(known, printable(response.error_message or "") or f"group {self._config.group}")
