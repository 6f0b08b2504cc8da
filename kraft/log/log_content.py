"""Reads the bytes of a log file, and finds whether entries are missing that were durable."""

from collections.abc import Iterator, Sequence

from kraft import lazy_attrs
from kraft.core import OffsetAndEpoch, latest_end
from kraft.log.frame import MAGIC, Frame, decode_flipped_frame, decode_frame
from kraft.replicated_log import Batch


@lazy_attrs.frozen
class LogContent:
    """The intact frames at the start of the file, which are `size` bytes.

    `lost_end` is the end of the entries after them that were durable, as far as the file tells; None if it tells of
    none. Bytes that only a torn write explains are no such entries: they were never acknowledged.
    """

    frames: Sequence[Frame]
    size: int
    lost_end: OffsetAndEpoch | None

    @property
    def end(self) -> OffsetAndEpoch:
        """The end of the intact entries; the beginning of all logs without any."""
        last = self.frames[-1].batch if self.frames else None
        return OffsetAndEpoch(0, 0) if last is None else OffsetAndEpoch(last.last_offset + 1, last.epoch)


def read_content(data: bytes, start_offset: int) -> LogContent:
    view = memoryview(data)
    frames = list(_intact_frames(view, start_offset))
    size = frames[-1].end if frames else 0
    return LogContent(frames, size, _lost_end(view, data, size, frames[-1].batch if frames else None, start_offset))


def _intact_frames(data: memoryview, start_offset: int) -> Iterator[Frame]:
    position, offset, epoch = 0, start_offset, 0
    while (frame := decode_frame(data, position)) is not None:
        batch = frame.batch
        if batch.base_offset != offset or batch.epoch < epoch:
            return
        yield frame
        position, offset, epoch = frame.end, batch.last_offset + 1, batch.epoch


def _lost_end(view: memoryview, data: bytes, size: int, last: Batch | None, start_offset: int) -> OffsetAndEpoch | None:
    """The end of the last entry after the first `size` bytes that the disk had, and that is no torn write's.

    A flipped bit in the first frame says so, and a frame that was written when more than these bytes were durable.
    """
    offset, epoch = (start_offset, 0) if last is None else (last.last_offset + 1, last.epoch)
    flipped = decode_flipped_frame(view, size)
    if flipped is not None and (flipped.batch.base_offset != offset or flipped.batch.epoch < epoch):
        flipped = None
    lost = [] if flipped is None else [flipped.batch]
    position = data.find(MAGIC, size if flipped is None else flipped.end)
    while position >= 0:
        frame = decode_frame(view, position)
        if frame is not None and (flipped is not None or frame.durable_size > size):
            lost.append(frame.batch)
        position = data.find(MAGIC, position + 1 if frame is None else frame.end)
    ends = [OffsetAndEpoch(batch.last_offset + 1, batch.epoch) for batch in lost]
    return latest_end(*ends) if ends else None
