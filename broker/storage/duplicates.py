"""What becomes of a partition that is in two log directories, as may be after one of them was offline for a while.

Meanwhile its topic may have been deleted and made anew, or its replica taken away from this broker and given back: then
a new one began in another directory, and the metadata tell which of the two counts.
"""

from collections.abc import Callable
from typing import TypeAlias

from broker.storage.log_dir import LogDir, PartitionKey
from broker.storage.partition_directory import partition_directory_name

# Whether the metadata have a replica of that topic id here, in the log directory of that id or in none that they know.
Belongs: TypeAlias = Callable[[PartitionKey, bytes | None, bytes | None], bool]


class DuplicateLogDir(Exception):
    """A partition's directory, or a log directory, is there twice, and nobody can say which one counts."""


def stray_of(key: PartitionKey, one: LogDir, other: LogDir, belongs: Belongs) -> LogDir:
    """Which of the directories has what does not belong there. Raises DuplicateLogDir where that is not one of them."""
    for directory in (one, other):
        assert directory.properties is not None, "it is formatted when it is claimed"
        if not belongs(key, directory.topic_ids[key], directory.properties.directory_id):
            return directory
    path = f"{one.path}/{partition_directory_name(*key)}"
    raise DuplicateLogDir(f"Duplicate log directories found: {path}, and in another log directory")
