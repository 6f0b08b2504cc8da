"""Controllers that make themselves known (KIP-919)."""

from collections.abc import Mapping, Sequence

import attrs

from metadata.controller.decision import Decision
from metadata.image import MetadataImage
from metadata.records import BrokerEndpoint, RegisterControllerRecord, VersionRange


@attrs.frozen(kw_only=True)
class ControllerRegistration:
    """A controller process is there, a voter or not. `incarnation_id` (a UUID) is new for every process."""

    controller_id: int
    incarnation_id: bytes
    end_points: Sequence[BrokerEndpoint]
    features: Mapping[str, VersionRange]


def register_controller(image: MetadataImage, registration: ControllerRegistration) -> Decision[None]:
    """Let all know of it, in place of the process that had its id before. Nothing where that is known."""
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
