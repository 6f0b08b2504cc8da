"""Reports the decisions of the active controller and their causes, as events that `metadata.events` declares."""

from collections import Counter, deque
from collections.abc import Sequence

from kraft import lazy_attrs
from kraft.env import Tracer
from metadata.image import MetadataImage, PartitionImage
from metadata.protocol import ScramMechanism
from metadata.records import (
    LEADER_RECOVERING,
    NO_LEADER,
    NO_LEADER_CHANGE,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FencingChange,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
)


@lazy_attrs.frozen
class DecidedRecords:
    """Records that were appended up to `offset`; `before` and `after` are the images without and with them."""

    offset: int
    cause: str
    records: Sequence[MetadataRecord]
    before: MetadataImage
    after: MetadataImage


class DecisionEvents:
    """Traces decisions of the controller `node_id` when they are committed. The cost depends on the size of the change.

    Decisions that were not committed when the controller ceased to lead are never reported: the next controller knows
    only their records.
    """

    def __init__(self, trace: Tracer, node_id: int) -> None:
        self._tracer = trace
        self._node_id = node_id
        self._cause = ""
        self._pending: deque[DecidedRecords] = deque()

    def append(self, decided: DecidedRecords) -> None:
        """Keep a decision until its records are committed."""
        self._pending.append(decided)

    def clear(self) -> None:
        """Drop uncommitted decisions, because this controller starts or stops leading."""
        self._pending.clear()

    def report_committed(self, offset: int) -> None:
        """Report the committed decisions; `offset` is the last committed one."""
        while self._pending and self._pending[0].offset <= offset:
            self._report(self._pending.popleft())

    def _report(self, decided: DecidedRecords) -> None:
        self._cause = decided.cause
        changes: list[PartitionChangeRecord] = []
        created: list[PartitionRecord] = []
        for record in decided.records:
            if isinstance(record, PartitionChangeRecord):
                changes.append(record)
            elif isinstance(record, PartitionRecord):
                created.append(record)
            else:
                self._report_record(decided, record)
        self._report_created(decided, created)
        if changes:
            self._report_changes(decided, changes)
        features = {each.name: each.feature_level for each in decided.records if isinstance(each, FeatureLevelRecord)}
        if features:
            self._trace("features_changed", features=features)

    def _trace(self, kind: str, **fields: object) -> None:
        self._tracer(kind, node=self._node_id, cause=self._cause, **fields)

    def _report_record(self, decided: DecidedRecords, record: MetadataRecord) -> None:
        before = decided.before
        match record:
            case RegisterBrokerRecord(broker_id=broker, broker_epoch=epoch, fenced=fenced, rack=rack):
                self._trace("broker_registered", broker=broker, broker_epoch=epoch, fenced=fenced, rack=rack)
            case UnregisterBrokerRecord(broker_id=broker, broker_epoch=epoch):
                self._trace("broker_unregistered", broker=broker, broker_epoch=epoch)
            case BrokerRegistrationChangeRecord():
                self._report_broker(before, record)
            case RegisterControllerRecord(controller_id=controller):
                self._trace("controller_registered", controller=controller)
            case UnregisterControllerRecord(controller_id=controller):
                self._trace("controller_unregistered", controller=controller)
            case ProducerIdsRecord(broker_id=broker, next_producer_id=next_id):
                self._trace("producer_ids_allocated", broker=broker, next_producer_id=next_id)
            case ConfigRecord(resource_type=type_, resource_name=resource, name=name, value=value):
                removed = value is None
                self._trace("config_changed", resource_type=type_, resource=resource, name=name, removed=removed)
            case ClientQuotaRecord(entity=entity, key=key, value=quota, remove=removed):
                self._trace("client_quota_changed", entity=entity, key=key, value=None if removed else quota)
            case RemoveTopicRecord(topic_id=topic_id):
                self._trace("topic_deleted", topic=before.topics.by_id[topic_id].name, topic_id=topic_id.hex())
            case _:
                self._report_access(decided, record)

    def _report_access(self, decided: DecidedRecords, record: MetadataRecord) -> None:
        """Report a record about who may use the cluster."""
        before = decided.before
        match record:
            case AccessControlEntryRecord(id=acl_id):
                self._trace("acl_created", entry=str(decided.after.acls.by_id[acl_id]))
            case RemoveAccessControlEntryRecord(id=acl_id):
                self._trace("acl_deleted", entry=str(before.acls.by_id[acl_id]))
            case UserScramCredentialRecord(name=user, mechanism=mechanism):
                self._trace_credential(user, mechanism, removed=False)
            case RemoveUserScramCredentialRecord(name=user, mechanism=mechanism):
                self._trace_credential(user, mechanism, removed=True)
            case DelegationTokenRecord(token_id=token_id):
                self._report_token(record, is_new=token_id not in before.delegation_tokens.by_id)
            case RemoveDelegationTokenRecord(token_id=token_id):
                owner = before.delegation_tokens.by_id[token_id].owner
                self._trace("delegation_token_removed", token_id=token_id, owner=owner)

    def _report_token(self, token: DelegationTokenRecord, *, is_new: bool) -> None:
        token_id, owner, expires_ms = token.token_id, token.owner, token.expiration_timestamp
        if is_new:
            self._trace("delegation_token_created", token_id=token_id, owner=owner, expires_ms=expires_ms)
        else:
            self._trace("delegation_token_changed", token_id=token_id, owner=owner, expires_ms=expires_ms)

    def _trace_credential(self, user: str, mechanism: int, *, removed: bool) -> None:
        name = ScramMechanism(mechanism).sasl_name
        self._trace("scram_credential_changed", user=user, mechanism=name, removed=removed)

    def _report_broker(self, before: MetadataImage, change: BrokerRegistrationChangeRecord) -> None:
        broker, epoch = change.broker_id, change.broker_epoch
        # The shutdown of a broker that leads nothing begins and ends with one record.
        shuts_down = before.cluster.brokers[broker].in_controlled_shutdown or change.in_controlled_shutdown
        if change.fenced == FencingChange.FENCE and shuts_down:
            self._trace("broker_shut_down", broker=broker, broker_epoch=epoch)
        elif change.fenced == FencingChange.FENCE:
            self._trace("broker_fenced", broker=broker, broker_epoch=epoch)
        elif change.in_controlled_shutdown:
            self._trace("broker_shutdown_started", broker=broker, broker_epoch=epoch)
        if change.fenced == FencingChange.UNFENCE:
            self._trace("broker_unfenced", broker=broker, broker_epoch=epoch)
        if change.log_dirs is not None:
            self._trace("broker_log_dirs_changed", broker=broker, broker_epoch=epoch, online=len(change.log_dirs))
        if change.cordoned_log_dirs is not None:
            self._trace(
                "broker_log_dirs_cordoned", broker=broker, broker_epoch=epoch, cordoned=len(change.cordoned_log_dirs)
            )

    def _report_created(self, decided: DecidedRecords, created: Sequence[PartitionRecord]) -> None:
        counts = Counter(record.topic_id for record in created)
        factors = {record.topic_id: len(record.replicas) for record in reversed(created)}
        new = {record.topic_id for record in decided.records if isinstance(record, TopicRecord)}
        for topic_id, count in counts.items():
            name, text = decided.after.topics.by_id[topic_id].name, topic_id.hex()
            if topic_id in new:
                factor = factors[topic_id]
                self._trace("topic_created", topic=name, topic_id=text, partitions=count, replication_factor=factor)
            else:
                self._trace("partitions_created", topic=name, topic_id=text, partitions=count)

    def _report_changes(self, decided: DecidedRecords, changes: Sequence[PartitionChangeRecord]) -> None:
        topics = decided.after.topics.by_id
        names = {topic_id: topics[topic_id].name for topic_id in dict.fromkeys(each.topic_id for each in changes)}
        self._trace(
            "partitions_changed",
            partitions=len(changes),
            leaders=sum(each.leader != NO_LEADER_CHANGE for each in changes),
            isrs=sum(each.isr is not None for each in changes),
            first=f"{names[changes[0].topic_id]}-{changes[0].partition_id}",
        )
        for change in changes:
            self._report_partition(names[change.topic_id], change)
            if (change.replicas, change.adding_replicas, change.removing_replicas) != (None, None, None):
                self._report_reassignment(decided, names[change.topic_id], change)
        leaderless = [each for each in changes if each.leader == NO_LEADER]
        if leaderless:
            first = f"{names[leaderless[0].topic_id]}-{leaderless[0].partition_id}"
            self._trace("partitions_without_leader", partitions=len(leaderless), first=first)

    def _report_partition(self, topic: str, change: PartitionChangeRecord) -> None:
        partition, leader = change.partition_id, None if change.leader == NO_LEADER_CHANGE else change.leader
        self._trace(
            "partition_changed",
            topic=topic,
            partition=partition,
            leader=leader,
            isr=change.isr,
            eligible=change.eligible_leader_replicas,
            replicas=change.replicas,
        )
        if change.leader_recovery_state == LEADER_RECOVERING and leader is not None:
            self._trace("unclean_leader_elected", topic=topic, partition=partition, leader=leader)

    def _report_reassignment(self, decided: DecidedRecords, topic: str, change: PartitionChangeRecord) -> None:
        before = decided.before.topics.partition(change.topic_id, change.partition_id)
        after = decided.after.topics.partition(change.topic_id, change.partition_id)
        if before is None or after is None:
            return  # created and moved in one decision, which does not happen
        where = (topic, change.partition_id, after)
        if after.is_reassigning:
            self._trace_move("reassignment_started", *where)
        elif not before.is_reassigning or sorted(after.replicas) == _target(before):
            self._trace_move("reassignment_completed", *where)
        else:
            self._trace_move("reassignment_cancelled", *where)

    def _trace_move(self, kind: str, topic: str, partition: int, after: PartitionImage) -> None:
        self._trace(
            kind,
            topic=topic,
            partition=partition,
            replicas=after.replicas,
            adding=after.adding_replicas,
            removing=after.removing_replicas,
        )


def _target(partition: PartitionImage) -> list[int]:
    """The replicas after the reassignment that is under way, in ascending order."""
    return sorted(replica for replica in partition.replicas if replica not in partition.removing_replicas)
