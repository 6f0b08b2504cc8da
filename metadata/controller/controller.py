"""The active controller: it decides, appends and replays records, and responds once the log has committed them."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

import trio

from kraft.env import Env
from kraft.replicated_log import Batch, Leadership, NotLeader, ReplicatedLog
from metadata.configuration import ConfigSchema
from metadata.controller.alter_partition import AlteredTopic, AlterPartitionControl, TopicIsrChanges
from metadata.controller.broker_partitions import BrokerPartitions
from metadata.controller.brokers import BrokerRegistration, BrokersControl
from metadata.controller.configs import ConfigChanges, ConfigOutcome, ConfigsControl, ConfigValues
from metadata.controller.controller_config import ControllerConfig
from metadata.controller.controller_registration import ControllerRegistrations
from metadata.controller.decision import Decision
from metadata.controller.decision_events import DecidedRecords, DecisionEvents
from metadata.controller.elect_leaders import ElectedTopic, ElectLeadersControl
from metadata.controller.election_configs import overdue_elections
from metadata.controller.features import FeatureUpdates, bootstrap, update_features
from metadata.controller.heartbeats import BrokerHeartbeat, BrokerHeartbeatReply, HeartbeatsControl, heartbeat_cause
from metadata.controller.leader_balance import LeaderBalance
from metadata.controller.partitions import NewPartitions, TopicOutcome, create_partitions
from metadata.controller.portions import decide_on, in_portions, topics_in_portions
from metadata.controller.producer_ids import ProducerIdsBlock, allocate_producer_ids
from metadata.controller.quotas import QuotaAlteration, QuotaOutcome, alter_client_quotas
from metadata.controller.reassignment import (
    OngoingTopicReassignments,
    ReassignedTopic,
    ReassignmentsControl,
    TopicReassignments,
    ongoing_reassignments,
)
from metadata.controller.replica_directories import AssignedReplica, DirectoryAssignment, ReplicaDirectoriesControl
from metadata.controller.request_queue import RequestQueue
from metadata.controller.security_requests import SecurityRequests
from metadata.controller.sessions import NOT_KNOWN, BrokerSessions
from metadata.controller.topics import CreatedTopic, DeletedTopic, NewTopic, TopicsControl, TopicToDelete
from metadata.image import BrokerImage, MetadataDelta, MetadataImage, MetadataLoader
from metadata.protocol import ErrorCode, KafkaError
from metadata.records import MetadataRecord, NoOpRecord, encode_record
from metadata.request_context import Requester, cause_of

A = TypeVar("A")
T = TypeVar("T")
Decide: TypeAlias = Callable[[MetadataImage], Decision[T]]

# A timer fires this late only if the process did not run.
_LATE_TIMER_MS = 100
# Timers fire this much after their deadline, so that rounding of floats does not make them early.
_TIMER_SLACK_S = 1e-6
_NOT_ACTIVE = "This is not the correct controller for this cluster."


class Controller:
    """Serves requests while this node leads the metadata log. A listener of that log, to be registered after `loader`.

    `image` is the state on which the controller decides: all committed records, and appended ones that are not
    committed yet. It changes only by replaying records. `security` has the requests about access, and
    `registrations` those about controllers.

    A method returns once its records, and all records on which it was decided, are committed and published. It raises
    KafkaError NOT_CONTROLLER if this node does not lead, or stops leading before. A controller that was replaced may
    not know that yet and have an old state. If a decision has no records, and no earlier record is uncommitted, the
    controller therefore commits a NoOpRecord before it responds.
    """

    def __init__(
        self, config: ControllerConfig, log: ReplicatedLog, loader: MetadataLoader, schema: ConfigSchema, env: Env
    ) -> None:
        self.image = MetadataImage()
        self._config = config
        self._schema = schema
        self._log = log
        self._loader = loader
        self._rng = env.rng
        self._events = DecisionEvents(env.trace, log.node_id)
        partitions = BrokerPartitions(schema)
        self._topics = TopicsControl(config, schema, env.rng)
        self._configs = ConfigsControl(schema)
        self._brokers = BrokersControl(config, partitions)
        self._heartbeats = HeartbeatsControl(partitions)
        self._isrs = AlterPartitionControl(schema)
        self._directories = ReplicaDirectoriesControl(schema)
        self._reassignments = ReassignmentsControl(schema)
        self._elections = ElectLeadersControl(schema)
        self._balance = LeaderBalance(schema, config.leader_balance_interval_ms)
        self.security = SecurityRequests(self._write, self._write_portions, env, config.tokens)
        self.registrations = ControllerRegistrations(self._write, log.node_id)
        self._sessions = BrokerSessions(config.broker_session_timeout_ms, config.connection_lost_grace_ms)
        self._timer = trio.CancelScope()
        self._epoch: int | None = None
        self._queue = RequestQueue()

    @property
    def is_active(self) -> bool:
        return self._epoch is not None

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, context: Requester = None
    ) -> list[CreatedTopic]:
        """Return one result per name, with repeated names last. Raises KafkaError POLICY_VIOLATION."""
        self._topics.check_total(topics)
        portions = in_portions(topics, lambda topic: topic.name, self._topics.partition_count)
        decide = partial(self._topics.create, context=context)
        return await self._write_portions("CreateTopics", portions, decide, validate_only, context)

    async def delete_topics(self, topics: Sequence[TopicToDelete], *, context: Requester = None) -> list[DeletedTopic]:
        """Return one result per topic, in order. Raises KafkaError TOPIC_DELETION_DISABLED."""
        portions, decide = in_portions(topics, lambda topic: topic), partial(self._topics.delete, context=context)
        return await self._write_portions("DeleteTopics", portions, decide, context=context)

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False, context: Requester = None
    ) -> list[TopicOutcome]:
        """Return one result per name, with repeated names first. Raises KafkaError POLICY_VIOLATION."""
        portions = in_portions(topics, lambda topic: topic.name)
        decide = partial(create_partitions, rng=self._rng, context=context)
        return await self._write_portions("CreatePartitions", portions, decide, validate_only, context)

    async def incremental_alter_configs(
        self, changes: ConfigChanges, *, validate_only: bool = False, context: Requester = None
    ) -> list[ConfigOutcome]:
        """Return one result per resource, in order."""
        portions, decide = in_portions(changes, lambda change: change[0]), self._configs.incremental_alter
        return await self._write_portions("IncrementalAlterConfigs", portions, decide, validate_only, context)

    async def alter_configs(
        self, configs: ConfigValues, *, validate_only: bool = False, context: Requester = None
    ) -> list[ConfigOutcome]:
        """Return one result per resource, in order. Configs that are not named return to their defaults."""
        portions = in_portions(configs, lambda config: config[0])
        return await self._write_portions("AlterConfigs", portions, self._configs.alter, validate_only, context)

    async def alter_client_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False, context: Requester = None
    ) -> list[QuotaOutcome]:
        """Return one result per entity, with repeated entities last."""
        portions = in_portions(alterations, lambda alteration: alteration.entity)
        return await self._write_portions("AlterClientQuotas", portions, alter_client_quotas, validate_only, context)

    async def update_features(
        self, updates: FeatureUpdates, voters: Sequence[int], *, validate_only: bool = False, context: Requester = None
    ) -> None:
        """Apply all updates or none. `voters` are the current voters of the quorum.

        Raises KafkaError INVALID_UPDATE_VERSION for the first update that is not possible (KIP-584).
        """
        schema, node_id = self._schema, self._log.node_id
        decide = partial(update_features, schema=schema, updates=updates, node_id=node_id, voters=voters)
        await self._write("UpdateFeatures", decide, validate_only, context)

    async def register_broker(self, registration: BrokerRegistration) -> int:
        """Register a broker, and return its broker epoch. Raises KafkaError as `BrokersControl.register` does."""

        def decide(image: MetadataImage) -> Decision[int]:
            return self._brokers.register(image, self._sessions, registration, self._log.end_offset, _now_ms())

        async with self._queue.turn():
            heard = partial(self._record_contact, registration.broker_id, NOT_KNOWN)
            return await self._commit("BrokerRegistration", decide, heard)

    async def unregister_broker(self, broker_id: int, *, context: Requester = None) -> None:
        """Raises KafkaError BROKER_ID_NOT_REGISTERED."""
        await self._write("UnregisterBroker", partial(self._brokers.unregister, broker_id=broker_id), context=context)

    async def broker_heartbeat(self, heartbeat: BrokerHeartbeat) -> BrokerHeartbeatReply:
        """Handle a heartbeat, and return the broker's state. Raises KafkaError STALE_BROKER_EPOCH.

        Heartbeats do not queue with other requests, which would delay them: a broker sends one at a time. A heartbeat
        that changes nothing is answered without a commit, so the response may come from a replaced controller.
        """

        heard = partial(self._record_contact, heartbeat.broker_id, heartbeat.current_metadata_offset)
        decide = partial(self._heartbeats.heartbeat, sessions=self._sessions, heartbeat=heartbeat)
        return await self._commit(heartbeat_cause(self.image, heartbeat), decide, heard)

    def _record_contact(self, broker_id: int, metadata_offset: int) -> None:
        self._sessions.record_contact(broker_id, metadata_offset, _now_ms())

    def broker_connection_lost(self, broker_id: int, broker_epoch: int) -> None:
        """The connection over which this incarnation of the broker sent heartbeats broke."""
        broker = self.image.cluster.brokers.get(broker_id)
        if self.is_active and broker is not None and broker.broker_epoch == broker_epoch:
            self._sessions.connection_lost(broker_id, _now_ms())
            self._reset_timer()

    def handle_connection_reset(self, node_id: int) -> None:
        """A connection with a voter, which may be a broker too, was reset or refused."""
        if self.is_active:
            self._sessions.connection_reset(node_id, _now_ms())
            self._reset_timer()

    def suspect_broker(self, broker_id: int) -> BrokerImage | None:
        """Return the broker's registration if a connection with it broke and it has sent no heartbeat since."""
        if self.is_active and self._sessions.is_suspect(broker_id):
            return self.image.cluster.brokers.get(broker_id)
        return None

    def expire_suspect_broker(self, broker_id: int, broker_epoch: int) -> None:
        """The listener of a suspect broker, in this incarnation, refuses connections: its process is gone."""
        broker = self.suspect_broker(broker_id)
        if broker is not None and broker.broker_epoch == broker_epoch:
            self._sessions.expire_suspect(broker_id, _now_ms())
            self._reset_timer()

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdsBlock:
        """Allocate a block of producer ids to a broker. Raises KafkaError STALE_BROKER_EPOCH."""
        decide = partial(allocate_producer_ids, broker_id=broker_id, broker_epoch=broker_epoch)
        return await self._write("AllocateProducerIds", decide)

    async def alter_partition(
        self, broker_id: int, broker_epoch: int, topics: Sequence[TopicIsrChanges]
    ) -> list[AlteredTopic]:
        """Return one result per partition, in order (KIP-497). Raises KafkaError STALE_BROKER_EPOCH."""
        why = f"AlterPartition of broker {broker_id}"
        return await self._write(why, lambda image: self._isrs.alter(image, broker_id, broker_epoch, topics))

    async def assign_replicas_to_directories(
        self, broker_id: int, broker_epoch: int, assignments: Sequence[DirectoryAssignment]
    ) -> list[AssignedReplica]:
        """Return one result per replica, in order (KIP-858). Raises KafkaError STALE_BROKER_EPOCH."""
        why = f"AssignReplicasToDirs of broker {broker_id}"
        assign = self._directories.assign
        return await self._write(why, lambda image: assign(image, broker_id, broker_epoch, assignments))

    async def elect_leaders(
        self, election_type: int, partitions: Sequence[tuple[str, Sequence[int]]] | None, *, context: Requester = None
    ) -> list[ElectedTopic]:
        """Return one result per partition, in order (KIP-460). None stands for all partitions.

        Raises KafkaError INVALID_REQUEST for an unknown type, POLICY_VIOLATION.
        """
        needed_only = partitions is None
        if partitions is None:
            partitions = [(topic.name, list(topic.partitions)) for topic in self.image.topics.by_name.values()]
        return await self._write_portions(
            "ElectLeaders",
            topics_in_portions(partitions),
            lambda image, some: self._elections.elect(image, election_type, some, needed_only=needed_only),
            context=context,
        )

    async def alter_partition_reassignments(
        self, topics: Sequence[TopicReassignments], *, allow_factor_change: bool, context: Requester = None
    ) -> list[ReassignedTopic]:
        """Start reassignments, and return one result per partition, in order. Raises KafkaError POLICY_VIOLATION."""
        self._reassignments.check_total(topics)
        portions = (
            [TopicReassignments(*piece) for piece in pieces]
            for pieces in topics_in_portions((topic.name, topic.partitions) for topic in topics)
        )
        return await self._write_portions(
            "AlterPartitionReassignments",
            portions,
            lambda image, some: self._reassignments.alter(image, some, allow_factor_change=allow_factor_change),
            context=context,
        )

    async def list_partition_reassignments(
        self, wanted: Sequence[tuple[str, Sequence[int]]] | None
    ) -> list[OngoingTopicReassignments]:
        """Return the ongoing reassignments of the wanted partitions, or of all."""
        return await self._write("List", lambda image: Decision((), ongoing_reassignments(image, wanted)))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fence brokers whose sessions expire, and elect preferred leaders, until cancelled."""
        task_status.started()
        while True:
            with trio.CancelScope(deadline=self._deadline_s()) as self._timer:
                await trio.sleep_forever()
            now_ms = _now_ms()
            if now_ms > self._timer.deadline * 1000 + _LATE_TIMER_MS:
                self._sessions.extend_expired(now_ms)
            try:
                self._fence_silent(now_ms)
                self._balance_leaders(now_ms)
            except NotLeader:
                self._epoch = None  # the next controller does it

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        """Report this controller's decisions. Other controllers' records come from the loader on activation."""
        self._events.report_committed(batches[-1].last_offset)

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        """Ignored, as in `handle_commit`."""

    def handle_leader_change(self, leadership: Leadership) -> None:
        """Become active with the committed state, or become inactive."""
        self._epoch = None
        self._events.clear()
        if leadership.leader_id == self._log.node_id:
            self._epoch = leadership.epoch
            self.image = self._loader.image
            self._sessions.reset(self.image.cluster, self.image.offset, _now_ms())
            self._balance.reset(self.image, _now_ms())
            try:
                overdue = overdue_elections(self.image, self._schema)
                if records := [*bootstrap(self.image, self._config, self._schema), *overdue]:
                    self._append(leadership.epoch, records, "a controller became active")
            except NotLeader:
                self._epoch = None  # leadership is already lost; the log is about to announce it
        self._reset_timer()

    def _fence_silent(self, now_ms: float) -> None:
        for broker_id in self._sessions.expired(now_ms):
            if self._epoch is not None:
                cause = self._sessions.end_cause(broker_id, now_ms)
                self._append(self._epoch, self._brokers.fence(self.image, broker_id).records, cause)

    def _balance_leaders(self, now_ms: float) -> None:
        due_ms = self._balance.next_check_ms
        if self._epoch is None or due_ms is None or due_ms > now_ms:
            return
        if records := self._balance.batch(self.image, now_ms):
            self._append(self._epoch, records, "preferred leaders are in sync again")

    async def _write(self, api: str, decide: Decide[T], validate_only: bool = False, context: Requester = None) -> T:
        """Decide, append, and return the response once the records are committed. With `validate_only`, only decide."""

        def decide_confirmed(image: MetadataImage) -> Decision[T]:
            decision = decide(image)
            if validate_only:
                return decision.without_records()
            is_confirmed = image.offset >= self._log.committed_end_offset
            return decision if decision.records or is_confirmed else Decision([NoOpRecord()], decision.response)

        async with self._queue.turn(context):
            return await self._commit(cause_of(api, context), decide_confirmed)

    async def _write_portions(
        self,
        api: str,
        portions: Iterable[Sequence[A]],
        decide: Callable[[MetadataImage, Sequence[A]], Decision[list[T]]],
        validate_only: bool = False,
        context: Requester = None,
    ) -> list[T]:
        """Like `_write`, with one decision per portion of a request whose elements succeed or fail independently.

        If this node stops leading between two portions, the request fails, although the first portions may be
        committed.
        """
        outcomes: list[T] = []
        for portion in portions:
            outcomes += await self._write(api, partial(decide_on, decide, portion), validate_only, context)
            await trio.lowlevel.checkpoint()
        return outcomes

    async def _commit(self, cause: str, decide: Decide[T], taken: Callable[[], None] | None = None) -> T:
        """Decide, append, call `taken`, and return the response once all records up to the decision are committed."""
        epoch = self._epoch
        if epoch is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, _NOT_ACTIVE)
        try:
            decision = decide(self.image)
            if decision.records:
                self._append(epoch, decision.records, cause)
            if taken is not None:
                taken()
            await self._log.wait_committed(epoch, self.image.offset)
        except NotLeader as error:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, _NOT_ACTIVE) from error
        return decision.response

    def _append(self, epoch: int, records: Sequence[MetadataRecord], cause: str) -> None:
        """Append and replay records. There must be no checkpoint between the decision and the end of this method.

        Otherwise another decision could be based on the state before. Raises NotLeader, with nothing changed.
        """
        next_offset = self._log.end_offset
        delta = MetadataDelta(self.image)
        delta.replay(records)
        offset = self._log.append(epoch, [encode_record(record) for record in records])
        assert offset == next_offset + len(records) - 1, "broker epochs are offsets, but another record came in between"
        before, self.image = self.image, delta.apply(offset)
        self._events.append(DecidedRecords(offset, cause, records, before, self.image))
        self._loader.add_appended(delta, self.image)
        if delta.cluster.changed:
            self._sessions.update(self.image.cluster, delta.cluster.changed, offset, _now_ms())
        self._balance.update(delta, _now_ms())
        self._reset_timer()

    def _deadline_s(self) -> float:
        if not self.is_active:
            return math.inf
        times_ms = (self._sessions.next_end_ms(), self._balance.next_check_ms)
        return min((time_ms / 1000 + _TIMER_SLACK_S for time_ms in times_ms if time_ms is not None), default=math.inf)

    def _reset_timer(self) -> None:
        self._timer.deadline = self._deadline_s()


def _now_ms() -> float:
    return trio.current_time() * 1000
