"""Records of configs, features and producer ids."""

from kraft import lazy_attrs
from metadata.records.record import MetadataRecord, RecordType, metadata_record, number


@metadata_record(RecordType.CONFIG, version=0)
@lazy_attrs.frozen(kw_only=True)
class ConfigRecord(MetadataRecord):
    """Sets one config of one resource, or removes it if `value` is None."""

    resource_type: int = number(0)
    resource_name: str = number(1)
    name: str = number(2)
    value: str | None = number(3)


@metadata_record(RecordType.PRODUCER_IDS, version=0)
@lazy_attrs.frozen(kw_only=True)
class ProducerIdsRecord(MetadataRecord):
    """The producer ids below `next_producer_id` are allocated. The broker got the last block of them."""

    broker_id: int = number(0)
    broker_epoch: int = number(1)
    next_producer_id: int = number(2)


@metadata_record(RecordType.FEATURE_LEVEL, version=0)
@lazy_attrs.frozen(kw_only=True)
class FeatureLevelRecord(MetadataRecord):
    """Finalizes a feature level; level 0 disables the feature."""

    name: str = number(0)
    feature_level: int = number(1)


@metadata_record(RecordType.NO_OP, version=0)
@lazy_attrs.frozen(kw_only=True)
class NoOpRecord(MetadataRecord):
    """Changes nothing. Once it is committed, the controller that appended it was the active one at that time."""
