"""Reads all files of a running node again, within `log.scrub.interval.ms`, and repairs what it can make again.

A bit that flips on a disk is otherwise found when a client reads it, perhaps long after the other replicas' copies of
it are gone. A pass reads a log directory file by file, spread over most of the interval, in a thread and at a bounded
rate. Files that are derived from others are made again. Damaged batches are passed to `report`, which fetches them from
another replica; the metadata log has its own repair (`MetadataFiles`).

Meanwhile the logs are appended to, rolled, truncated, compacted and deleted. So nothing is damage before it was read
again in a turn of the event loop in which the log still has it (`SegmentView.holds`). A pass that is interrupted goes
on where it was (`ScrubPlace`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio

from broker.storage.log import Log
from broker.storage.log_dir import LogDir, PartitionKey
from broker.storage.log_manager import LogManager
from broker.storage.producer_replay import replay_from_snapshot
from broker.storage.scrub.log_files import LogFilesScrub
from broker.storage.scrub.pacing import FILE_BYTES_MIN, ScrubPacer
from broker.storage.scrub.place import ScrubPlace
from broker.storage.scrub.segment_view import SegmentView
from broker.storage.scrub.statistics import ScrubStatistics
from broker.storage.segment import Segment
from broker.wire.errors import WireError
from kraft import lazy_attrs
from kraft.env import Env, FsyncFailed, lacks_resources
from metadata.configuration import BrokerConfigs
from metadata.configuration.settings import from_key

if TYPE_CHECKING:
    from broker.storage.scrub.segment_check import SegmentCheck
    from broker.storage.scrub.segment_scrub import ReportDamage

# A pass is spread over this share of the interval, so that logs that grow meanwhile do not make it late.
_SPREAD: Final = 0.8
# Bytes per second that a pass reads at least: a small directory need not take a week.
_RATE_MIN: Final = 64 * 1024
# The time for which a rate holds. Logs grow and are deleted meanwhile.
_RATE_FOR_S: Final = 60.0
# The logs whose sizes are added before other tasks run: a millisecond.
_LOGS_PER_STEP: Final = 200
# The time between looking whether a pass is due, at the longest: the wall clock may be set.
_WAIT_MAX_S: Final = 60.0


class MetadataFiles(Protocol):
    """The files of the metadata log, which have their own repair."""

    async def check(self, statistics: ScrubStatistics) -> None:
        """Check the files, and repair them."""
        ...

    async def check_suspected(self, statistics: ScrubStatistics) -> None:
        """Check the files whenever a reader finds damage, until cancelled."""
        ...


@lazy_attrs.frozen
class ScrubConfig:
    """The settings of the scrubber."""

    enable: bool = from_key(BrokerConfigs.log_scrub_enable)
    interval_ms: int = from_key(BrokerConfigs.log_scrub_interval_ms)
    io_max_bytes_per_second: int = from_key(BrokerConfigs.log_scrub_io_max_bytes_per_second)
    initial_delay_ms: int = from_key(BrokerConfigs.log_initial_task_delay_ms)


@contextmanager
def _left_out_without_resources() -> Iterator[None]:
    """Leave out what is scrubbed within if there are no descriptors, or no space to make a file again."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FsyncFailed) or not lacks_resources(error):
            raise


def _size(log: Log) -> int:
    """The bytes for which a log counts, with its small files."""
    return log.size_bytes + FILE_BYTES_MIN * (len(log.segments) + 1)


class Scrubber:
    """Scrubs the log directories of `log_manager` while `run` runs."""

    def __init__(
        self,
        env: Env,
        log_manager: LogManager,
        config: ScrubConfig,
        report: "ReportDamage",
        metadata: MetadataFiles | None = None,
    ) -> None:
        self._env = env
        self._log_manager = log_manager
        self._metadata = metadata
        self._changed = trio.Event()
        self._places: dict[str, ScrubPlace] = {}
        self.config = config
        self.statistics = ScrubStatistics()
        self._pacer = ScrubPacer(config.io_max_bytes_per_second)
        self._rate_until_s = 0.0
        self._report = report
        self._log_files = LogFilesScrub(env, self.statistics)

    def configure(self, config: ScrubConfig) -> None:
        """Apply changed settings. A pass in progress goes on with the segment that it was reading."""
        if config != self.config:
            self.config = config
            self._changed.set()

    async def run(self) -> None:
        """Scrub until cancelled. Raises FsyncFailed, in an exception group; the node must end then."""
        async with trio.open_nursery() as repairing:
            repairing.start_soon(self._repair_suspects)
            if self._metadata is not None:
                repairing.start_soon(self._metadata.check_suspected, self.statistics)
            await trio.sleep(self.config.initial_delay_ms / 1000)
            while True:
                self._changed = trio.Event()
                async with trio.open_nursery() as nursery:
                    if self.config.enable:
                        nursery.start_soon(self._scrub_repeatedly)
                    await self._changed.wait()
                    nursery.cancel_scope.cancel()

    async def _scrub_repeatedly(self) -> None:
        while True:
            directories = [each for each in self._log_manager.directories.values() if each.is_online]
            due = [each for each in directories if self._due_in_s(each) <= 0]
            if due:
                await self.scrub_directory(due[0])
            else:
                waits = [self._due_in_s(each) for each in directories]
                await trio.sleep(min([*waits, _WAIT_MAX_S]))

    async def scrub_directory(self, directory: LogDir) -> None:
        """Finish the pass over a directory, or make a new one. Raises FsyncFailed."""
        with self._log_manager.offline_on_error(directory):
            place = self._place_of(directory)
            before = attrs.evolve(self.statistics)
            if place.key is None:
                place.begin(self._now_ms())
            await self._set_rate(directory, place)
            self._pacer.begin()
            with _left_out_without_resources():
                await self._scrub_directory_files(directory)
            for key in sorted(directory.logs):
                if place.key is not None and key >= place.key and (log := directory.logs.get(key)) is not None:
                    with _left_out_without_resources():
                        await self._scrub_log(directory, key, log, place)
            place.move(None, 0)
            self.statistics.passes += 1
            self.statistics.last_pass_s = self._env.wall()
            self._env.trace(
                "storage_scrubbed",
                path=directory.path,
                bytes=self.statistics.bytes_read - before.bytes_read,
                damaged=self.statistics.damaged - before.damaged,
                rebuilt=self.statistics.rebuilt - before.rebuilt,
                elapsed_ms=max(self._now_ms() - place.began_ms, 0),
            )

    async def _scrub_directory_files(self, directory: LogDir) -> None:
        for path, problem in await directory.restore_files():
            self.statistics.add_rebuilt()
            self._env.trace("storage_file_rebuilt", path=path, error=problem)
        has_metadata = directory.path == (self._log_manager.config.metadata_directory or directory.path)
        if has_metadata and self._metadata is not None:
            await self._metadata.check(self.statistics)
        await self._pacer.pause(0)

    async def _scrub_log(self, directory: LogDir, key: PartitionKey, log: Log, place: ScrubPlace) -> None:
        base_offset = place.base_offset if place.key == key else 0
        if trio.current_time() >= self._rate_until_s:
            await self._set_rate(directory, place)
            self._pacer.begin()
        await self._log_files.scrub(directory, key, log)
        await self._pacer.pause(0)
        opened: Mapping[int, int] | None = None
        while self._log_manager.logs.get(key) is log and log.failure is None:
            segment = next((each for each in log.segments if each.base_offset >= base_offset), None)
            if segment is None:
                return
            place.move(key, segment.base_offset)
            check = await self._scrub_segment(self._pacer, key, log, segment, opened)
            opened = check.transactions.open if check is not None and check.transactions.is_complete else None
            base_offset = segment.base_offset + 1

    async def _scrub_segment(
        self, pacer: ScrubPacer, key: PartitionKey, log: Log, segment: Segment, opened: Mapping[int, int] | None
    ) -> "SegmentCheck | None":
        """Scrub one segment; None if the log has changed under each attempt, or lost the segment."""
        from broker.storage.scrub.segment_scrub import ATTEMPTS_MAX, SegmentScrub  # for start-up time

        scrub = SegmentScrub(self._env, self._log_manager, pacer, self.statistics, self._report)
        for _ in range(ATTEMPTS_MAX):
            view = SegmentView.of(key, log, segment)
            if not view.holds(self._log_manager):
                return None
            try:
                if opened is None:
                    opened = await self._open_transactions(log, segment)
                view = SegmentView.of(key, log, segment)
                check = await scrub.scrub(view, opened) if view.holds(self._log_manager) else None
            except FileNotFoundError:
                if view.holds(self._log_manager):
                    raise
                return None
            if check is not None:
                return check
        return None

    async def _open_transactions(self, log: Log, segment: Segment) -> Mapping[int, int] | None:
        """The transactions that are open at the start of a segment; None if an earlier segment is damaged."""
        from broker.storage.scrub.transactions_check import open_transactions  # for start-up time

        segments = [
            (each.path, each.base_offset, each.written)
            for each in log.segments
            if each.base_offset < segment.base_offset
        ]
        snapshots = log.producers.snapshots
        paths = [snapshots.path(each) for each in snapshots.offsets if each <= segment.base_offset]
        replay = partial(replay_from_snapshot, self._env.disk, log.directory, segments, paths, segment.base_offset)
        try:
            return open_transactions(await self._env.disk.run_apart(replay))
        except (WireError, OSError):
            return None  # damage in an earlier segment

    async def _repair_suspects(self) -> None:
        """Scrub the transaction indexes that readers have found to be damaged, at once."""
        while True:
            key = await self._log_manager.suspects.next()
            # Readers wait for it, so that the rate of a pass, which may take a week, is not that of this.
            pacer = ScrubPacer(self.config.io_max_bytes_per_second)
            log, directory = self._log_manager.logs.get(key), self._log_manager.directory_of(*key)
            if log is None or directory is None:
                continue
            with self._log_manager.offline_on_error(directory), _left_out_without_resources():
                for segment in list(log.segments):
                    if segment.transaction_index.is_damaged(segment.base_offset):
                        await self._scrub_segment(pacer, key, log, segment, None)

    def _place_of(self, directory: LogDir) -> ScrubPlace:
        place = self._places.get(directory.path)
        if place is None:
            place = self._places[directory.path] = ScrubPlace(self._env.disk, directory.path)
            place.load()
        return place

    def _due_in_s(self, directory: LogDir) -> float:
        """The seconds until a pass over the directory has to begin, or go on."""
        place, now_ms = self._place_of(directory), self._now_ms()
        # A pass that began in the future: the wall clock was set back.
        if place.key is not None or place.began_ms < 0 or place.began_ms > now_ms:
            return 0.0
        return (place.began_ms + self.config.interval_ms - now_ms) / 1000

    async def _set_rate(self, directory: LogDir, place: ScrubPlace) -> None:
        """Spread what is left of the pass over what is left of its time.

        Directories are read one after the other, so each has a part of the interval, by its part of the bytes.
        """
        left = own = total = 0
        for number, (key, log) in enumerate(list(self._log_manager.logs.items()), 1):
            size = _size(log)
            total += size
            if directory.logs.get(key) is log:
                own += size
                left += size if place.key is not None and key >= place.key else 0
            if number % _LOGS_PER_STEP == 0:
                await trio.lowlevel.checkpoint()
        end_ms = min(place.began_ms, self._now_ms()) + self.config.interval_ms * _SPREAD * own / max(total, 1)
        wanted = left / max(end_ms - self._now_ms(), 1) * 1000
        self._pacer.bytes_per_second = min(max(wanted, _RATE_MIN), self.config.io_max_bytes_per_second)
        self._rate_until_s = trio.current_time() + _RATE_FOR_S

    def _now_ms(self) -> int:
        return int(self._env.wall() * 1000)
