"""Scrubbers that trust what they should compare: the tests of flipped bits find them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio.testing

from broker.storage.scrub import segment_scrub
from broker.storage.scrub.index_checks import OffsetIndexCheck, TimeIndexCheck
from broker.storage.scrub.segment_check import SegmentCheck
from broker.storage.scrub.transactions_check import TransactionsCheck
from tests.broker.storage.scrub.test_flipped_bits import check_file
from tests.support.scrubbed_logs import fill, scrubbed_logs


def trust_offset_index(patch: pytest.MonkeyPatch) -> str:
    def check(self: OffsetIndexCheck, position: int, last_offset: int) -> None:
        while self.next_position <= position:
            self._advance()

    patch.setattr(OffsetIndexCheck, "check", check)
    return "*.index"


def trust_time_index(patch: pytest.MonkeyPatch) -> str:
    def grow(self: TimeIndexCheck, timestamp: int, last_offset: int) -> None:
        self.largest, self.largest_offset = timestamp, last_offset
        while self._next <= timestamp:
            self._advance()

    patch.setattr(TimeIndexCheck, "grow", grow)
    return "*.timeindex"


def trust_transaction_index(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(segment_scrub, "damage_of_entries", lambda content, base_offset: "")
    patch.setattr(TransactionsCheck, "problem_of", lambda self, entries, **others: "")
    return "*.txnindex"


def trust_epochs(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(segment_scrub, "check_epochs", lambda view, check, report: "")
    return "*.log"


def trust_checksums(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(SegmentCheck, "suspect_in", lambda self, piece, at, position, next_offset: None)
    return "*.log"


@pytest.mark.parametrize(
    "plant", [trust_offset_index, trust_time_index, trust_transaction_index, trust_epochs, trust_checksums]
)
async def test_planted_bug_is_found(
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], str],
) -> None:
    pattern = plant(monkeypatch)
    async with scrubbed_logs(tmp_path / "data") as logs:
        await fill(logs)
        path = max((each for each in logs.files() if each.match(pattern)), key=lambda each: len(logs.content(each)))
        with pytest.raises((AssertionError, IndexError, OverflowError)):
            await check_file(logs, path, stride=7)
