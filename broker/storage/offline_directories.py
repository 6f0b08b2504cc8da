"""Says to the operator why log directories are offline, and what to do."""

import errno
from collections.abc import Collection

from broker.storage.log_dir import LogDir


class NoLogDirOnline(Exception):
    """Every log directory has failed, or the one with the metadata log; the node must end."""


def offline_paths(directories: Collection[LogDir]) -> str:
    """The paths of those of the directories that are offline, as text."""
    return ",".join(directory.path for directory in directories if not directory.is_online)


def offline_message(directories: Collection[LogDir]) -> str:
    """The message for the operator if all directories, or the metadata log's, are offline."""
    causes = "; ".join(f"{each.path}: {each.error}" for each in directories if not each.is_online)
    return f"All log directories, or the one of the metadata log, are offline ({causes}). {_advice(directories)}"


def _advice(directories: Collection[LogDir]) -> str:
    if any(each.error is not None and each.error.errno in (errno.ENOSPC, errno.EDQUOT) for each in directories):
        return "The disk, or its quota, is full: free some room, or enlarge it, and start the node again"
    return (
        "Each named path must be a file or directory that the node's user may read and write, on a disk that works. "
        "Correct this, and start the node again"
    )


def first_error(group: BaseExceptionGroup[OSError]) -> OSError:
    """The first error in a group, or in a group within it."""
    error = group.exceptions[0]
    return error if isinstance(error, OSError) else first_error(error)
