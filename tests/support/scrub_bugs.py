"""Bugs to plant into the scrubber; see `planted_bugs`."""

from typing import Any

from broker.storage import checkpoints, leader_epochs
from broker.storage.scrub import log_files, segment_scrub
from broker.storage.scrub.index_checks import OffsetIndexCheck
from broker.storage.scrub.segment_check import SegmentCheck
from broker.storage.whole_file import read_whole
from tests.support.planted_bugs import Bug, PatchedFunction, PatchedFunctions, does_nothing


def _trust_entries(check: Any) -> Any:
    def wrong(index: OffsetIndexCheck, position: int, last_offset: int) -> None:
        while index.next_position <= position:
            index._advance()

    return wrong


def _read_page_cache(right: Any) -> Any:
    return read_whole


SCRUB_BUGS: dict[str, Bug] = {
    "the scrubber trusts the index": PatchedFunction(OffsetIndexCheck, "check", _trust_entries),
    "the scrubber trusts batches": PatchedFunction(SegmentCheck, "suspect_in", does_nothing),
    "the scrubber reads small files through the page cache": PatchedFunctions(
        *(
            PatchedFunction(module, "read_whole_from_device", _read_page_cache)
            for module in (checkpoints, leader_epochs, log_files, segment_scrub)
        )
    ),
}
