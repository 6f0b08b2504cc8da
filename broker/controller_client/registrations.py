"""Converts end points and features between the metadata and BrokerRegistration or ControllerRegistration."""

from collections.abc import Iterable, Mapping

from broker.wire.registered import Feature, Listener
from metadata.records import BrokerEndpoint, VersionRange


def to_wire(
    end_points: Iterable[BrokerEndpoint], features: Mapping[str, VersionRange]
) -> tuple[list[Listener], list[Feature]]:
    return (
        [
            Listener(name=name, host=host, port=port, security_protocol=security_protocol)
            for name, host, port, security_protocol in end_points
        ],
        [
            Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in features.items()
        ],
    )


def from_wire(
    listeners: Iterable[Listener], features: Iterable[Feature]
) -> tuple[list[BrokerEndpoint], dict[str, VersionRange]]:
    return (
        [BrokerEndpoint(each.name, each.host, each.port, each.security_protocol) for each in listeners],
        {each.name: VersionRange(each.min_supported_version, each.max_supported_version) for each in features},
    )
