"""The base of all stories: numbered frames of valid and of mutated requests."""

from collections.abc import Callable, Generator, Sequence
from random import Random
from typing import Any, Final, TypeAlias

from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersionsRequest
from broker.wire.errors import WireError
from jepsen.hostile.byte_mutations import spoil
from jepsen.hostile.composer import Composer
from jepsen.hostile.frames import Frame, frame, request_payload, spoiled_frame
from jepsen.hostile.target import Target

# Yields frames to send in one write, and receives their responses in order: None for each frame without one.
Story: TypeAlias = Generator[Sequence[Frame], Sequence[Any], None]
# API key, first and last version.
ApiVersions: TypeAlias = tuple[int, int, int]

_HOSTILITIES: Final = (0.0, 0.0, 0.02, 0.05, 0.15, 0.4)
_ENVELOPE: Final = 58
_API_VERSIONS: Final = 18


class StoryTools:
    """Makes the frames of a story. `apis` are those that the listener serves."""

    def __init__(self, rng: Random, target: Target, apis: Sequence[ApiVersions]) -> None:
        self.rng = rng
        self.target = target
        self._apis = apis
        self._versions = {key: (first, last) for key, first, last in apis}
        self._correlation_id = 0

    def request(self, message: Any, version: int | None = None) -> Frame:
        """The frame of a given request; in a random version by default."""
        key = type(message).__message__.key
        versions = self._versions.get(key, (0, 0))
        return self._harmless(lambda: frame(message, self._any(versions) if version is None else version, self._next()))

    def plausible(self, key: int, hostility: float = 0.0) -> Frame:
        """A request of an API with existing names, in which some fields have random values."""
        return self._harmless(lambda: frame(*self._composed(key, hostility), self._next()))

    def changed(self, message: Any, version: int | None = None) -> Frame:
        """Like `request`, with mutated bytes."""
        key = type(message).__message__.key
        version = self._any(self._versions[key]) if version is None else version
        return self._harmless(lambda: spoiled_frame(self._mutated(request_payload(message, version, self._next()))))

    def any_frame(self) -> Frame:
        """A request of any API that the listener serves: well-formed or mutated."""
        key, _, _ = self.rng.choice(self._apis)
        if self.rng.random() < 0.12:
            return self._harmless(lambda: spoiled_frame(self._mutated(self._payload(key, 0.0))))
        return self.plausible(key, self.rng.choice(_HOSTILITIES))

    def ping(self) -> Frame:
        """A harmless request."""
        return frame(ApiVersionsRequest(client_software_name="hostile", client_software_version="1"), 3, self._next())

    def _next(self) -> int:
        self._correlation_id += 1
        return self._correlation_id

    def _any(self, versions: tuple[int, int]) -> int:
        return self.rng.randint(*versions)

    def _composed(self, key: int, hostility: float) -> tuple[Any, int]:
        api = APIS[key]
        first, last = self._versions[key]
        version = self.rng.randint(max(first, api.min_version), last)
        composer = Composer(self.rng, self.target, hostility, self._enveloped)
        return composer.compose(api.request, version), version

    def _payload(self, key: int, hostility: float) -> bytes:
        return request_payload(*self._composed(key, hostility), self._next())

    def _mutated(self, payload: bytes) -> bytes:
        """Mutate the body, or sometimes the header."""
        header = 14 + len("hostile") if self.rng.random() < 0.95 else self.rng.choice((0, 2, 4, 8))
        return payload[:header] + spoil(self.rng, payload[header:])

    def _enveloped(self, composer: Composer) -> bytes:
        keys = [key for key, _, _ in self._apis if key != _ENVELOPE]
        try:
            payload = self._payload(composer.rng.choice(keys), 0.05)
        except WireError:
            return b""
        return self._mutated(payload) if composer.rng.random() < 0.2 else payload

    def _harmless(self, make: Callable[[], Frame]) -> Frame:
        """The frame that `make` returns; a ping if the request cannot be encoded or must not be sent."""
        try:
            made = make()
        except WireError:
            return self.ping()
        return self.ping() if made.is_harmful else made
