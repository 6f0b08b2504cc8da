"""Conversion of an image to the records of a snapshot, and the delta between two images."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias, TypeVar

from metadata.image.acls import AccessControlEntry, AclsImage
from metadata.image.client_quotas import ClientQuotasImage
from metadata.image.cluster import BrokerImage
from metadata.image.configs import ConfigResource, ConfigsImage
from metadata.image.delegation_tokens import DelegationToken, DelegationTokensImage
from metadata.image.image import MetadataDelta, MetadataImage
from metadata.image.persistent_map import PersistentMap
from metadata.image.scram import ScramImage
from metadata.image.topics import PartitionImage, TopicDelta, TopicsDelta, TopicsImage
from metadata.protocol import ScramMechanism
from metadata.protocol.scram import ScramCredential
from metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)

K = TypeVar("K")
V = TypeVar("V")
_Map: TypeAlias = Mapping[K, V] | PersistentMap[K, V]

# Snapshots do not hold the broker that got the last block of producer ids, neither here nor in Kafka.
NO_BROKER = -1


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Yield the records that create this image from an empty one.

    Feature levels come first, since they determine how to read the other records. Unknown fields of records are not in
    an image, and therefore not in its snapshots. They are written only when all nodes know them (KIP-584).
    """
    for name, level in image.features.items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.cluster.brokers.values():
        yield _broker_record(broker)
    for controller in image.cluster.controllers.values():
        yield RegisterControllerRecord(
            controller_id=controller.controller_id,
            incarnation_id=controller.incarnation_id,
            end_points=tuple(controller.end_points.values()),
            features=controller.features,
        )
    for topic in image.topics.by_id.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for partition_id, partition in topic.partitions.items():
            yield _partition_record(topic.topic_id, partition_id, partition)
    for resource, configs in image.configs.resources.items():
        for name, value in configs.items():
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    for entity, quotas in image.client_quotas.entities.items():
        for key, quota in quotas.items():
            yield ClientQuotaRecord(entity=entity, key=key, value=quota)
    for acl_id, entry in image.acls.by_id.items():
        yield acl_record(acl_id, entry)
    yield from image.scram.records()
    yield from (token.record() for token in image.delegation_tokens.by_id.values())
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(broker_id=NO_BROKER, broker_epoch=NO_BROKER, next_producer_id=image.next_producer_id)


def difference(base: MetadataImage, image: MetadataImage) -> MetadataDelta:
    """The delta from `base` to `image`. Applied, it gives an equal image, which shares unchanged parts with `base`.

    It compares all entries of both images, so it is only used for snapshots.
    """
    delta = MetadataDelta(base)
    delta.features.update(_changes(base.features, image.features, 0))
    delta.cluster.changed.update(_changes(base.cluster.brokers, image.cluster.brokers, None))
    controllers = _changes(base.cluster.controllers, image.cluster.controllers, None)
    delta.cluster.changed_controllers.update(controllers)
    _change_topics(delta.topics, image.topics)
    delta.configs.changed.update(_config_changes(base.configs, image.configs))
    delta.client_quotas.changed.update(_quota_changes(base.client_quotas, image.client_quotas))
    delta.acls.changed.update(_acl_changes(base.acls, image.acls))
    delta.delegation_tokens.changed.update(_token_changes(base.delegation_tokens, image.delegation_tokens))
    delta.scram.changed.update(_credential_changes(base.scram, image.scram))
    delta.next_producer_id = image.next_producer_id
    return delta


def acl_record(acl_id: bytes, entry: AccessControlEntry) -> AccessControlEntryRecord:
    """The record that adds an entry."""
    return AccessControlEntryRecord(id=acl_id, **entry._asdict())


def _broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=tuple(broker.end_points.values()),
        features=broker.features,
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs,
    )


def _partition_record(topic_id: bytes, partition_id: int, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id,
        partition_id=partition_id,
        replicas=partition.replicas,
        isr=partition.isr,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader_recovery_state=partition.leader_recovery_state,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
    )


def _new(before: _Map[K, V], after: _Map[K, V]) -> dict[K, V]:
    return {key: value for key, value in after.items() if before.get(key) != value}


def _changes(before: _Map[K, V], after: _Map[K, V], gone: V) -> dict[K, V]:
    """The new and changed entries, and `gone` as the value of each removed key."""
    return {**{key: gone for key in before if key not in after}, **_new(before, after)}


def _change_topics(delta: TopicsDelta, after: TopicsImage) -> None:
    before = delta.base.by_id
    delta.deleted.update({topic.topic_id: topic for topic in before.values() if topic.topic_id not in after.by_id})
    for topic in after.by_id.values():
        known = before.get(topic.topic_id)
        assert known is None or len(known.partitions) <= len(topic.partitions), f"{topic.name} lost partitions"
        partitions = _new(known.partitions if known else {}, topic.partitions)
        if partitions or known is None:
            delta.changed[topic.topic_id] = TopicDelta(topic.name, topic.topic_id, known, partitions)


def _config_changes(before: ConfigsImage, after: ConfigsImage) -> dict[ConfigResource, dict[str, str | None]]:
    resources = dict.fromkeys([*before.resources, *after.resources])
    changes = {each: _changes(before.of(each), after.of(each), None) for each in resources}
    return {resource: changed for resource, changed in changes.items() if changed}


def _quota_changes(before: ClientQuotasImage, after: ClientQuotasImage) -> dict[QuotaEntity, dict[str, float | None]]:
    entities = dict.fromkeys([*before.entities, *after.entities])
    changes = {each: _changes(before.of(each), after.of(each), None) for each in entities}
    return {entity: changed for entity, changed in changes.items() if changed}


def _acl_changes(before: AclsImage, after: AclsImage) -> dict[bytes, AccessControlEntry | None]:
    changes: dict[bytes, AccessControlEntry | None] = dict.fromkeys(
        acl_id for acl_id in before.by_id if acl_id not in after.by_id
    )
    added: dict[bytes, AccessControlEntry] = _new(before.by_id, after.by_id)
    return {**changes, **added}


def _credential_changes(
    before: ScramImage, after: ScramImage
) -> dict[str, dict[ScramMechanism, ScramCredential | None]]:
    users = dict.fromkeys([*before.users, *after.users])
    changes = {each: _changes(before.of(each), after.of(each), None) for each in users}
    return {user: changed for user, changed in changes.items() if changed}


def _token_changes(before: DelegationTokensImage, after: DelegationTokensImage) -> dict[str, DelegationToken | None]:
    changed: dict[str, DelegationToken | None] = dict.fromkeys(
        token_id for token_id in before.by_id if token_id not in after.by_id
    )
    new = _new(before.by_id, after.by_id)
    return {**changed, **new}
