"""What concerns the cluster as a whole: configs, features, producer ids."""

import attrs

from metadata.records.record import MetadataRecord, RecordType, metadata_record, number


@metadata_record(RecordType.CONFIG, version=0)
@attrs.frozen(kw_only=True)
class ConfigRecord(MetadataRecord):
    """Sets one config of one resource, or takes it back where `value` is None."""

    resource_type: int = number(0)
    resource_name: str = number(1)
    name: str = number(2)
    value: str | None = number(3)


@metadata_record(RecordType.PRODUCER_IDS, version=0)
@attrs.frozen(kw_only=True)
class ProducerIdsRecord(MetadataRecord):
    """All producer ids below `next_producer_id` have been given away, the last block of them to the named broker."""

    broker_id: int = number(0)
    broker_epoch: int = number(1)
    next_producer_id: int = number(2)


@metadata_record(RecordType.FEATURE_LEVEL, version=0)
@attrs.frozen(kw_only=True)
class FeatureLevelRecord(MetadataRecord):
    """The cluster works at this level of the feature from here on; level 0 turns it off."""

    name: str = number(0)
    feature_level: int = number(1)


@metadata_record(RecordType.NO_OP, version=0)
@attrs.frozen(kw_only=True)
class NoOpRecord(MetadataRecord):
    """Says nothing; lets a follower see that the leader lives and how far it is."""
