"""Registration of controllers (KIP-919)."""

from collections.abc import Mapping, Sequence

from kraft import lazy_attrs
from metadata.controller.decision import Decision
from metadata.image import MetadataImage
from metadata.records import BrokerEndpoint, RegisterControllerRecord, VersionRange


@lazy_attrs.frozen(kw_only=True)
class ControllerRegistration:
    """A controller process, voter or observer, registers. `incarnation_id` (a UUID) is new for every process."""

    controller_id: int
    incarnation_id: bytes
    end_points: Sequence[BrokerEndpoint]
    features: Mapping[str, VersionRange]


def register_controller(image: MetadataImage, registration: ControllerRegistration) -> Decision[None]:
    """Register a controller, in place of the previous incarnation. No records if it is registered already."""
    existing = image.cluster.controllers.get(registration.controller_id)
    if existing is not None and existing.incarnation_id == registration.incarnation_id:
        return Decision((), None)
    record = RegisterControllerRecord(
        controller_id=registration.controller_id,
        incarnation_id=registration.incarnation_id,
        end_points=tuple(registration.end_points),
        features=dict(registration.features),
    )
    return Decision([record], None)
