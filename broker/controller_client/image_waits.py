"""Waits until the metadata image satisfies a condition."""

from collections.abc import Callable

import trio

from metadata.image import MetadataDelta, MetadataImage, MetadataLoader


class ImageWaits:
    """A publisher of the loader. Register it after the publishers whose work must be done when a wait ends."""

    def __init__(self, loader: MetadataLoader) -> None:
        self._loader = loader
        self._published = trio.Event()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        published, self._published = self._published, trio.Event()
        published.set()

    async def until(self, holds: Callable[[MetadataImage], bool], timeout_s: float) -> bool:
        """Return True as soon as `holds(image)` is true, and False if it is not within `timeout_s` seconds."""
        with trio.move_on_after(timeout_s):
            while not holds(self._loader.image):
                await self._published.wait()
        return holds(self._loader.image)
