"""Leader epochs (KIP-101, KIP-279): the start and end offset of each."""

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.checkpoints import CorruptCheckpoint
from broker.storage.leader_epochs import LeaderEpochCache
from kraft.env import RealDisk


def cache_of(directory, *entries: tuple[int, int]) -> LeaderEpochCache:
    cache = LeaderEpochCache(RealDisk(), str(directory))
    for epoch, start_offset in entries:
        cache.assign(epoch, start_offset)
    return cache


def test_epoch_is_assigned_once(tmp_path):
    cache = cache_of(tmp_path, (2, 6))
    cache.assign(2, 7)
    assert cache.entries == [(2, 6)]


def test_earlier_start_of_the_latest_epoch_replaces_the_later_one(tmp_path):
    assert cache_of(tmp_path, (1, 0), (2, 6), (2, 5)).entries == [(1, 0), (2, 5)]


def test_entries_that_contradict_a_new_one_are_dropped(tmp_path):
    assert cache_of(tmp_path, (1, 5), (2, 6), (3, 7), (2, 7)).entries == [(1, 5), (2, 7)]
    assert cache_of(tmp_path, (2, 6), (3, 7), (4, 5)).entries == [(4, 5)]


def test_epoch_without_records_is_replaced_by_the_next(tmp_path):
    assert cache_of(tmp_path, (1, 0), (2, 10), (3, 10)).entries == [(1, 0), (3, 10)]


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_negative_entries_raise_an_assertion(tmp_path, entry):
    with pytest.raises(ValueError, match="invalid partition leader epoch"):
        cache_of(tmp_path, entry)


class TestEndOffset:
    """The answer to OffsetForLeaderEpoch."""

    @pytest.mark.parametrize(
        ("requested", "answer"),
        [
            pytest.param(7, (7, 100), id="the newest epoch ends where the log ends"),
            pytest.param(5, (5, 40), id="an epoch ends where the next begins"),
            pytest.param(6, (5, 40), id="KIP-279: an epoch without records answers for the one before"),
            pytest.param(2, (2, 10), id="older than all: ends where the log begins"),
            pytest.param(8, (-1, -1), id="newer than all: unknown"),
            pytest.param(-1, (-1, -1), id="undefined"),
        ],
    )
    def test_end_offset_for(self, tmp_path, requested, answer):
        assert cache_of(tmp_path, (3, 10), (5, 20), (7, 40)).end_offset_for(requested, 100) == answer

    def test_empty_log_has_no_epochs(self, tmp_path):
        assert cache_of(tmp_path).end_offset_for(0, 0) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 3), (19, 3), (20, 5), (1000, 5)])
def test_epoch_for_offset(tmp_path, offset, epoch):
    assert cache_of(tmp_path, (3, 10), (5, 20)).epoch_for_offset(offset) == epoch


@pytest.mark.parametrize(("epoch", "previous"), [(3, -1), (4, 3), (5, 3), (9, 5)])
def test_previous_epoch(tmp_path, epoch, previous):
    assert cache_of(tmp_path, (3, 10), (5, 20)).previous_epoch(epoch) == previous


class TestTruncation:
    @pytest.mark.parametrize(("end", "left"), [(21, [(3, 10), (5, 20)]), (20, [(3, 10)]), (11, [(3, 10)]), (10, [])])
    def test_truncation_from_the_end_drops_epochs_that_begin_there_or_later(self, tmp_path, end, left):
        cache = cache_of(tmp_path, (3, 10), (5, 20))
        cache.truncate_from_end(end)
        assert cache.entries == left

    @pytest.mark.parametrize(
        ("start", "left"),
        [
            (5, [(3, 10), (5, 20), (7, 30)]),
            (10, [(3, 10), (5, 20), (7, 30)]),
            (15, [(3, 15), (5, 20), (7, 30)]),
            (20, [(5, 20), (7, 30)]),
            (99, [(7, 99)]),
        ],
    )
    def test_truncation_from_the_start_keeps_the_epoch_of_the_first_record(self, tmp_path, start, left):
        cache = cache_of(tmp_path, (3, 10), (5, 20), (7, 30))
        cache.truncate_from_start(start)
        assert cache.entries == left


class TestFile:
    async def test_file_has_kafkas_format(self, tmp_path):
        await cache_of(tmp_path, (0, 0), (3, 120)).flush()
        assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 120\n"

    async def test_flushing_clears_dirty_and_a_clean_cache_writes_nothing(self, tmp_path):
        cache = cache_of(tmp_path, (0, 0))
        assert cache.dirty
        await cache.flush()
        assert not cache.dirty
        (tmp_path / "leader-epoch-checkpoint").unlink()
        await cache.flush()
        assert not (tmp_path / "leader-epoch-checkpoint").exists()

    async def test_flushed_epochs_are_loaded(self, tmp_path):
        cache = cache_of(tmp_path, (0, 0), (3, 120))
        await cache.flush()
        loaded = LeaderEpochCache.load(RealDisk(), str(tmp_path))
        assert loaded.entries == [(0, 0), (3, 120)]
        assert not loaded.dirty

    async def test_flush_that_joins_another_one_ends_after_it(self, tmp_path):
        cache = cache_of(tmp_path, (0, 0))

        async def flush() -> None:
            await cache.flush()
            assert LeaderEpochCache.load(RealDisk(), str(tmp_path)).entries == cache.entries

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(flush)
            await trio.testing.wait_all_tasks_blocked()
            cache.assign(1, 10)

    def test_missing_or_empty_file_has_no_epochs(self, tmp_path):
        assert LeaderEpochCache.load(RealDisk(), str(tmp_path)).entries == []
        (tmp_path / "leader-epoch-checkpoint").touch()
        assert LeaderEpochCache.load(RealDisk(), str(tmp_path)).entries == []

    @pytest.mark.parametrize(
        "content", ["1\n0\n", "x", "0\n2\n0 0\n", "0\n1\n0\n", "0\n1\n0 x\n", "0\n1\n-1 0\n", "\xff"]
    )
    def test_corrupt_file_is_reported(self, tmp_path, content):
        (tmp_path / "leader-epoch-checkpoint").write_text(content, encoding="latin-1")
        with pytest.raises(CorruptCheckpoint, match="leader-epoch-checkpoint"):
            LeaderEpochCache.load(RealDisk(), str(tmp_path))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("assign"), st.integers(0, 8), st.integers(0, 50)),
            st.tuples(st.sampled_from(["truncate_from_end", "truncate_from_start"]), st.integers(0, 50)),
        )
    )
)
def test_epochs_and_offsets_only_ever_ascend(steps):
    cache = LeaderEpochCache(RealDisk(), "/nowhere")
    for step, *arguments in steps:
        getattr(cache, step)(*arguments)
        epochs = [epoch for epoch, _ in cache.entries]
        starts = [start for _, start in cache.entries]
        assert epochs == sorted(set(epochs))
        assert starts == sorted(set(starts))
        for offset in range(52):
            expected = [epoch for epoch, start in cache.entries if start <= offset]
            assert cache.epoch_for_offset(offset) == (expected[-1] if expected else -1)
