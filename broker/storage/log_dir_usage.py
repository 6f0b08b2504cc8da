"""The figures of log directories and their logs, for DescribeLogDirs."""

from broker.storage.log_dir import PartitionKey
from broker.storage.log_manager import LogManager
from kraft import lazy_attrs
from kraft.env import Disk


@lazy_attrs.frozen
class LogUsage:
    """The size of a log in bytes. `offset_lag` is the number of offsets that a future log lacks; -1 if unknown."""

    size_bytes: int
    offset_lag: int = 0
    is_future: bool = False


@lazy_attrs.frozen
class LogDirUsage:
    """The sizes in bytes of a directory's volume, -1 if it is offline, and its logs."""

    path: str
    error: OSError | None
    total_bytes: int
    usable_bytes: int
    logs: dict[PartitionKey, LogUsage]


def usage_of_directories(log_manager: LogManager, disk: Disk) -> list[LogDirUsage]:
    """The figures of each directory. A directory that fails meanwhile goes offline."""
    usages = []
    for directory in log_manager.directories.values():
        total, usable = -1, -1
        if directory.is_online:
            with log_manager.offline_on_error(directory):
                total, usable = disk.usage(directory.path)
        logs = {key: LogUsage(log.size_bytes) for key, log in directory.logs.items()}
        for key, future in directory.futures.items():
            current = log_manager.logs.get(key)
            lag = -1 if current is None else current.log_end_offset - future.log.log_end_offset
            logs[key] = LogUsage(future.log.size_bytes, lag, is_future=True)
        usages.append(LogDirUsage(directory.path, directory.error, total, usable, logs))
    return usages
