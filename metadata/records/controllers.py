"""Records of controller registrations, of voters and observers (KIP-919, KIP-1312)."""

from collections.abc import Mapping

from kraft import lazy_attrs
from metadata.records.brokers import BrokerEndpoint, VersionRange, endpoints_from, features_from
from metadata.records.record import MetadataRecord, RecordType, metadata_record, number


@metadata_record(RecordType.REGISTER_CONTROLLER, version=0)
@lazy_attrs.frozen(kw_only=True)
class RegisterControllerRecord(MetadataRecord):
    """Registers a controller process, in place of the previous incarnation."""

    controller_id: int = number(0)
    incarnation_id: bytes = number(1)
    end_points: tuple[BrokerEndpoint, ...] = number(2, default=(), converter=endpoints_from)
    features: Mapping[str, VersionRange] = number(3, default=(), converter=features_from)


@metadata_record(RecordType.UNREGISTER_CONTROLLER, version=0)
@lazy_attrs.frozen(kw_only=True)
class UnregisterControllerRecord(MetadataRecord):
    """Removes a controller's registration. Written from metadata.version 4.4-IV2 on."""

    controller_id: int = number(0)
