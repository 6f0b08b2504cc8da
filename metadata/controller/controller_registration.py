"""Registrations of controllers (KIP-919, KIP-1312)."""

from collections.abc import Mapping, Sequence
from functools import partial

from kraft import lazy_attrs
from metadata.controller.decision import Decision
from metadata.controller.feature_levels import CONTROLLERS_LEAVE_SINCE, METADATA_VERSION
from metadata.controller.security_requests import Write
from metadata.image import MetadataImage
from metadata.protocol import ErrorCode, KafkaError
from metadata.records import BrokerEndpoint, RegisterControllerRecord, UnregisterControllerRecord, VersionRange
from metadata.request_context import Requester


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


def unregister_controller(image: MetadataImage, active_id: int, controller_id: int) -> Decision[None]:
    """Remove a controller's registration, so that it is not asked which feature levels it supports.

    A controller that runs registers again at once. The active one, `active_id`, is refused as in Kafka. Raises
    KafkaError: INVALID_REQUEST, UNSUPPORTED_VERSION below metadata.version 4.4-IV2, CONTROLLER_ID_NOT_REGISTERED.
    """
    if controller_id == active_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active.")
    if image.features.get(METADATA_VERSION, 0) < CONTROLLERS_LEAVE_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        )
    if controller_id not in image.cluster.controllers:
        raise KafkaError(
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"Controller ID {controller_id} is not currently registered."
        )
    return Decision([UnregisterControllerRecord(controller_id=controller_id)], None)


class ControllerRegistrations:
    """Serves requests as `Controller` does, and raises KafkaError NOT_CONTROLLER like its methods."""

    def __init__(self, write: Write, node_id: int) -> None:
        self._write, self._node_id = write, node_id

    async def register(self, registration: ControllerRegistration) -> None:
        await self._write("ControllerRegistration", partial(register_controller, registration=registration))

    async def unregister(self, controller_id: int, *, context: Requester = None) -> None:
        """Raises KafkaError as `unregister_controller` does."""
        decide = partial(unregister_controller, active_id=self._node_id, controller_id=controller_id)
        await self._write("UnregisterController", decide, context=context)
