"""Replays the committed log into the current image, and notifies publishers of each change."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import trio

from kraft import lazy_attrs
from kraft.replicated_log import Batch, Leadership
from metadata.image.image import MetadataDelta, MetadataImage
from metadata.image.snapshot import difference
from metadata.records import decode_record

Publisher: TypeAlias = Callable[[MetadataDelta, MetadataImage], None]


@lazy_attrs.frozen
class _Appended:
    delta: MetadataDelta
    image: MetadataImage


class MetadataLoader:
    """A listener of the replicated log. `image` is the state after all committed records.

    Publishers are called in the order in which they were added, with the delta and the new image. The batches of one
    call become one delta, so a restart publishes once. Publishers must not block and must not fail: an exception ends
    the node, because its parts would disagree about the cluster.
    """

    def __init__(self) -> None:
        self.image = MetadataImage()
        self._publishers: list[Publisher] = []
        self._appended: deque[_Appended] = deque()

    def add_publisher(self, publisher: Publisher) -> None:
        """Add a publisher, before the log runs."""
        assert self.image.offset < 0, "a publisher that is added late would miss earlier changes"
        self._publishers.append(publisher)

    def add_appended(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take over a change that this node's controller has appended and replayed.

        It is published once it is committed, without being replayed again, so controller and broker share one image.
        """
        self._appended.append(_Appended(delta, image))

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        end = batches[-1].last_offset
        while self._appended and self._appended[0].image.offset <= end:
            appended = self._appended.popleft()
            self._publish(appended.delta, appended.image)
        unseen = [batch for batch in batches if batch.base_offset > self.image.offset]
        if unseen:
            assert not self._appended, "another leader's records precede those that were appended here"
            delta = MetadataDelta(self.image)
            for batch in unseen:
                delta.replay(map(decode_record, batch.records))
            self._publish(delta, delta.apply(end))

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        """Load a snapshot, and publish its difference from the current image once."""
        assert not self._appended, "a leader does not load snapshots"
        loaded = MetadataDelta(MetadataImage())
        for portion in portions:
            loaded.replay(map(decode_record, portion))
            await trio.lowlevel.checkpoint()
        image = loaded.apply(end_offset - 1)
        await trio.lowlevel.checkpoint()
        delta = difference(self.image, image)
        await trio.lowlevel.checkpoint()
        self._publish(delta, delta.apply(end_offset - 1))

    def handle_leader_change(self, leadership: Leadership) -> None:
        """Drop the appended changes that are not committed: they may be lost."""
        self._appended.clear()

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        for publisher in self._publishers:
            publisher(delta, image)
