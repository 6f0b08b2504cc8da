"""Follows the committed log, keeps the current image, and tells publishers of each change."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import attrs
import trio

from kraft.replicated_log import Batch, Leadership
from metadata.image.image import MetadataDelta, MetadataImage
from metadata.image.snapshot import difference
from metadata.records import decode_record

Publisher: TypeAlias = Callable[[MetadataDelta, MetadataImage], None]


@attrs.frozen
class _Foretold:
    delta: MetadataDelta
    image: MetadataImage


class Loader:
    """A listener of the replicated log. `image` is the state after everything committed.

    Publishers are called in the order in which they came, with what changed and the new image; what one call of the log
    brings makes one delta, so a restart publishes once. Publishers must not block, and may not fail: an exception ends
    the node, whose rooms would disagree about the cluster from then on.
    """

    def __init__(self) -> None:
        self.image = MetadataImage()
        self._publishers: list[Publisher] = []
        self._foretold: deque[_Foretold] = deque()

    def add_publisher(self, publisher: Publisher) -> None:
        """To be called before the log runs."""
        assert self.image.offset < 0, "a publisher that comes late would miss what was published"
        self._publishers.append(publisher)

    def foretell(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """The leader's own work: records it appended, already replayed. Saves replaying them again at their commit.

        The controller and the brokers' view then share one copy of everything.
        """
        self._foretold.append(_Foretold(delta, image))

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        end = batches[-1].last_offset
        while self._foretold and self._foretold[0].image.offset <= end:
            foretold = self._foretold.popleft()
            self._publish(foretold.delta, foretold.image)
        unseen = [batch for batch in batches if batch.base_offset > self.image.offset]
        if unseen:
            assert not self._foretold, "records were foretold that others wrote before"
            delta = MetadataDelta(self.image)
            for batch in unseen:
                delta.replay(map(decode_record, batch.records))
            self._publish(delta, delta.apply(end))

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        """Publishers are told once, of what the snapshot makes different, be it all there is."""
        assert not self._foretold, "a leader has no use for a snapshot"
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
        """What was foretold and not committed may never be."""
        self._foretold.clear()

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        for publisher in self._publishers:
            publisher(delta, image)
