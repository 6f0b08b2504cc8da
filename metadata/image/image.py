"""The image of the metadata at an offset of the log, and the delta between two images."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from kraft import lazy_attrs
from metadata.image.acls import AclsDelta, AclsImage
from metadata.image.client_quotas import ClientQuotasDelta, ClientQuotasImage
from metadata.image.cluster import ClusterDelta, ClusterImage
from metadata.image.configs import ConfigResource, ConfigsDelta, ConfigsImage
from metadata.image.delegation_tokens import DelegationTokensDelta, DelegationTokensImage
from metadata.image.scram import ScramDelta, ScramImage
from metadata.image.topics import TopicsDelta, TopicsImage
from metadata.protocol import ConfigResourceType
from metadata.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
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
class MetadataImage:
    """The immutable state after the record at `offset`; -1 if there is none."""

    offset: int = -1
    features: Mapping[str, int] = attrs.field(factory=dict)
    cluster: ClusterImage = attrs.field(factory=ClusterImage)
    topics: TopicsImage = attrs.field(factory=TopicsImage)
    configs: ConfigsImage = attrs.field(factory=ConfigsImage)
    client_quotas: ClientQuotasImage = attrs.field(factory=ClientQuotasImage)
    acls: AclsImage = attrs.field(factory=AclsImage)
    scram: ScramImage = attrs.field(factory=ScramImage)
    delegation_tokens: DelegationTokensImage = attrs.field(factory=DelegationTokensImage)
    next_producer_id: int = 0


class MetadataDelta:
    """Collects the changes of records to `base`. The controller and the brokers change their state only by replaying
    records here.

    `features` holds the changed levels. Replaying a record that contradicts the state is a bug, and fails an assertion.
    """

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self.features: dict[str, int] = {}
        self.cluster = ClusterDelta(base.cluster)
        self.topics = TopicsDelta(base.topics)
        self.configs = ConfigsDelta(base.configs)
        self.client_quotas = ClientQuotasDelta(base.client_quotas)
        self.acls = AclsDelta(base.acls)
        self.scram = ScramDelta(base.scram)
        self.delegation_tokens = DelegationTokensDelta(base.delegation_tokens)
        self.next_producer_id = base.next_producer_id
        self._replay: dict[type[MetadataRecord], Callable[[Any], object]] = {
            PartitionRecord: self.topics.replay_partition,
            PartitionChangeRecord: self.topics.replay_partition_change,
            TopicRecord: self.topics.replay_topic,
            RemoveTopicRecord: self._replay_remove_topic,
            ConfigRecord: self.configs.replay,
            ClientQuotaRecord: self.client_quotas.replay,
            **self._security_replays(),
            RegisterBrokerRecord: self.cluster.replay_register,
            RegisterControllerRecord: self.cluster.replay_register_controller,
            UnregisterControllerRecord: self.cluster.replay_unregister_controller,
            UnregisterBrokerRecord: self.cluster.replay_unregister,
            BrokerRegistrationChangeRecord: self.cluster.replay_change,
            FeatureLevelRecord: self._replay_feature_level,
            ProducerIdsRecord: self._replay_producer_ids,
            NoOpRecord: self._replay_no_op,
        }

    def _security_replays(self) -> dict[type[MetadataRecord], Callable[[Any], object]]:
        return {
            AccessControlEntryRecord: self.acls.replay,
            RemoveAccessControlEntryRecord: self.acls.replay_remove,
            UserScramCredentialRecord: self.scram.replay,
            RemoveUserScramCredentialRecord: self.scram.replay_remove,
            DelegationTokenRecord: self.delegation_tokens.replay,
            RemoveDelegationTokenRecord: self.delegation_tokens.replay_remove,
        }

    def replay(self, records: Iterable[MetadataRecord]) -> None:
        replay = self._replay
        for record in records:
            replay[type(record)](record)

    def apply(self, offset: int) -> MetadataImage:
        """The image after the replayed records, the last of them at `offset`. It shares unchanged parts with `base`."""
        base = self.base
        return MetadataImage(
            offset=offset,
            features=self._features() if self.features else base.features,
            cluster=base.cluster if self.cluster.is_empty else self.cluster.apply(),
            topics=self.topics.apply() if self.topics.changed or self.topics.deleted else base.topics,
            configs=self.configs.apply() if self.configs.changed else base.configs,
            client_quotas=self.client_quotas.apply() if self.client_quotas.changed else base.client_quotas,
            acls=self.acls.apply() if self.acls.changed else base.acls,
            scram=self.scram.apply() if self.scram.changed else base.scram,
            delegation_tokens=self.delegation_tokens.apply()
            if self.delegation_tokens.changed
            else base.delegation_tokens,
            next_producer_id=self.next_producer_id,
        )

    def _features(self) -> dict[str, int]:
        return {name: level for name, level in {**self.base.features, **self.features}.items() if level}

    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self.topics.replay_remove_topic(record)
        self.configs.remove_resource(ConfigResource(ConfigResourceType.TOPIC, name))

    def _replay_feature_level(self, record: FeatureLevelRecord) -> None:
        self.features[record.name] = record.feature_level

    def _replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        assert record.next_producer_id > self.next_producer_id, f"producer ids would be reused: {record}"
        self.next_producer_id = record.next_producer_id

    def _replay_no_op(self, record: NoOpRecord) -> None:
        pass
