"""Keeps this controller registered (KIP-919). The active controller checks before a feature changes which levels the
other controllers support.
"""

from typing import Final

import trio

from broker.controller_client.channel import ControllerChannel
from broker.controller_client.registrations import to_wire
from broker.wire.api.controller_registration import ControllerRegistrationRequest
from broker.wire.errors import KafkaError
from kraft.env import Tracer
from metadata.controller import ControllerRegistration
from metadata.image import MetadataDelta, MetadataImage, MetadataLoader

_VERSION: Final = 0
# The timeout of one attempt, and the first and the longest pause between two attempts.
_TIMEOUT_MS: Final = 30_000
_BACKOFF_S: Final = 0.1
_BACKOFF_MAX_S: Final = 10.0


class ControllerRegistrar:
    """Registers this controller, and again whenever another process is registered under its id.

    `registration` does not change while the process runs. Create the registrar before `loader` reads the metadata log.
    """

    def __init__(
        self, registration: ControllerRegistration, channel: ControllerChannel, loader: MetadataLoader, trace: Tracer
    ) -> None:
        self._registration = registration
        self._channel = channel
        self._loader = loader
        self._trace = trace
        self._changed = trio.Event()
        loader.add_publisher(self._follow)

    @property
    def is_registered(self) -> bool:
        """True if the latest metadata image contains the registration of this process."""
        known = self._loader.image.cluster.controllers.get(self._registration.controller_id)
        return known is not None and known.incarnation_id == self._registration.incarnation_id

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the controller registered until cancelled."""
        task_status.started()
        backoff_s = _BACKOFF_S
        while True:
            changed = self._changed
            if self.is_registered or await self._register():
                backoff_s = _BACKOFF_S
                await changed.wait()
            else:
                await trio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, _BACKOFF_MAX_S)

    async def _register(self) -> bool:
        """Return True if the registration was written. It appears in the metadata image a moment later."""
        try:
            response = await self._channel.call(_request(self._registration), _VERSION, timeout_ms=_TIMEOUT_MS)
        except KafkaError as error:
            self._trace("controller_registration_refused", node=self._registration.controller_id, error=error.code.name)
            return False
        if response.error_code:
            self._trace(
                "controller_registration_refused", node=self._registration.controller_id, error=response.error_code
            )
        return not response.error_code

    def _follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if self._registration.controller_id in delta.cluster.changed_controllers:
            changed, self._changed = self._changed, trio.Event()
            changed.set()


def _request(registration: ControllerRegistration) -> ControllerRegistrationRequest:
    listeners, features = to_wire(registration.end_points, registration.features)
    return ControllerRegistrationRequest(
        controller_id=registration.controller_id,
        incarnation_id=registration.incarnation_id,
        listeners=listeners,
        features=features,
    )
