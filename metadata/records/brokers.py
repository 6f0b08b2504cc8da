"""Records of broker registrations."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from kraft import lazy_attrs
from metadata.records.record import MetadataRecord, RecordType, metadata_record, number


class BrokerEndpoint(NamedTuple):
    """The address of a node's listener `name`. `security_protocol` is the number of a SecurityProtocol."""

    name: str
    host: str
    port: int
    security_protocol: int


class VersionRange(NamedTuple):
    """The feature levels that a node supports, both ends included."""

    min_version: int
    max_version: int


class FencingChange(IntEnum):
    UNFENCE = -1
    NONE = 0
    FENCE = 1


def endpoints_from(value: tuple[tuple[str, str, int, int], ...]) -> tuple[BrokerEndpoint, ...]:
    """Convert decoded tuples to endpoints."""
    return tuple(BrokerEndpoint(*endpoint) for endpoint in value)


def features_from(value: Mapping[str, tuple[int, int]] | tuple[()]) -> dict[str, VersionRange]:
    """Convert decoded tuples to version ranges."""
    return {name: VersionRange(*versions) for name, versions in dict(value).items()}


@metadata_record(RecordType.REGISTER_BROKER, version=0)
@lazy_attrs.frozen(kw_only=True)
class RegisterBrokerRecord(MetadataRecord):
    """Registers a broker process. `broker_epoch` is the record's own offset for a new incarnation."""

    broker_id: int = number(0)
    incarnation_id: bytes = number(1)
    broker_epoch: int = number(2)
    end_points: tuple[BrokerEndpoint, ...] = number(3, default=(), converter=endpoints_from)
    features: Mapping[str, VersionRange] = number(4, default=(), converter=features_from)
    rack: str | None = number(5, default=None)
    fenced: bool = number(6, default=True)
    in_controlled_shutdown: bool = number(7, default=False)
    log_dirs: tuple[bytes, ...] = number(8, default=())
    cordoned_log_dirs: tuple[bytes, ...] = number(9, default=())


@metadata_record(RecordType.UNREGISTER_BROKER, version=0)
@lazy_attrs.frozen(kw_only=True)
class UnregisterBrokerRecord(MetadataRecord):
    broker_id: int = number(0)
    broker_epoch: int = number(1)


@metadata_record(RecordType.BROKER_REGISTRATION_CHANGE, version=0)
@lazy_attrs.frozen(kw_only=True)
class BrokerRegistrationChangeRecord(MetadataRecord):
    """Changes a registration. `fenced` is a FencingChange. `in_controlled_shutdown` can only become True.

    `log_dirs` and `cordoned_log_dirs` are None if they do not change.
    """

    broker_id: int = number(0)
    broker_epoch: int = number(1)
    fenced: int = number(2, default=FencingChange.NONE)
    in_controlled_shutdown: bool = number(3, default=False)
    log_dirs: tuple[bytes, ...] | None = number(4, default=None)
    cordoned_log_dirs: tuple[bytes, ...] | None = number(5, default=None)
