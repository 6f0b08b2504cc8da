"""The log directories, and the times of fsyncs."""

from collections.abc import Iterable, Iterator

from broker.metrics.catalogue import logs
from broker.metrics.histogram import Histogram
from broker.metrics.metric import Family, Sample
from broker.storage.log_manager import LogManager
from broker.storage.scrub.statistics import ScrubStatistics
from kraft.env import Disk


class LogDirectoryCollector:
    """Reads the directories of `log_manager`, and their volumes. `fsync_times` are in milliseconds."""

    def __init__(self, log_manager: LogManager, disk: Disk, fsync_times: Histogram) -> None:
        self._log_manager = log_manager
        self._disk = disk
        self._fsync_times = fsync_times

    def collect(self) -> Iterable[Family]:
        directories = self._log_manager.directories
        offline = {path: not directory.is_online for path, directory in directories.items()}
        yield logs.DIRECTORY_OFFLINE, [Sample((path,), int(is_offline)) for path, is_offline in offline.items()]
        yield logs.OFFLINE_DIRECTORY_COUNT.single(sum(offline.values()))
        usages = dict(self._usages([path for path, is_offline in offline.items() if not is_offline]))
        yield logs.DIRECTORY_TOTAL_BYTES, [Sample((path,), total) for path, (total, _) in usages.items()]
        yield logs.DIRECTORY_FREE_BYTES, [Sample((path,), usable) for path, (_, usable) in usages.items()]
        yield logs.FSYNC_TIME.single(self._fsync_times.distribution)

    def _usages(self, paths: list[str]) -> Iterator[tuple[str, tuple[int, int]]]:
        """The total and usable bytes of each path's volume. A directory that has just failed is left out."""
        for path in paths:
            try:
                usage = self._disk.usage(path)
            except OSError:
                continue
            yield path, usage


class ScrubCollector:
    """Reads what the scrubber has done."""

    def __init__(self, statistics: ScrubStatistics) -> None:
        self._statistics = statistics

    def collect(self) -> Iterable[Family]:
        statistics = self._statistics
        yield logs.SCRUBBED_BYTES.single(statistics.bytes_read)
        yield logs.SCRUB_DAMAGED.single(statistics.damaged)
        yield logs.SCRUB_REBUILT.single(statistics.rebuilt)
        yield logs.SCRUB_UNREPAIRED.single(len(statistics.unrepaired))
        yield logs.SCRUB_LAST_PASS.single(statistics.last_pass_s)
