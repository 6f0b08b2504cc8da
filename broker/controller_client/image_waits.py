"""Waiting until the metadata that this broker knows of has come so far."""

from collections.abc import Callable

import trio

from metadata.image import MetadataDelta, MetadataImage, MetadataLoader


class ImageWaits:
    """A publisher of the loader, to be added after those whose work is to be done when the wait is over."""

    def __init__(self, loader: MetadataLoader) -> None:
        self._loader = loader
        self._published = trio.Event()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        published, self._published = self._published, trio.Event()
        published.set()

    async def until(self, holds: Callable[[MetadataImage], bool], timeout_s: float) -> bool:
        """Whether `holds` of the image, now or within `timeout_s`."""
        with trio.move_on_after(timeout_s):
            while not holds(self._loader.image):
                await self._published.wait()
        return holds(self._loader.image)
