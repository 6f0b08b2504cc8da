"""Groups segments that become one: compaction makes segments small, and few large files are better than many."""

from collections.abc import Sequence

from broker.storage.log_config import LogConfig
from broker.storage.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from broker.storage.segment import Segment


def grouped(segments: Sequence[Segment], end_offset: int, config: LogConfig) -> list[list[Segment]]:
    """Groups of neighbours that fit into one segment together; the last one ends before `end_offset`.

    Sizes are compared in bytes only: the interval of index entries bounds the size of the index by that of the segment.
    """
    index_entries_max = config.segment_index_bytes // OffsetIndex.ENTRY.size
    size_max = min(config.segment_bytes, max(config.index_interval_bytes, 1) * index_entries_max)
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    groups: list[list[Segment]] = []
    size = 0
    for segment, end in zip(segments, ends, strict=False):
        fits = groups and size + segment.size_bytes <= size_max
        if fits and end - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX:
            groups[-1].append(segment)
            size += segment.size_bytes
        else:
            groups.append([segment])
            size = segment.size_bytes
    return groups
