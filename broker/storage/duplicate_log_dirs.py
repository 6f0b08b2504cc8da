"""Finds the stray copy of a partition that is in two log directories.

This happens if one directory was offline for a while. Meanwhile the topic may have been deleted and created again, or
its replica may have been removed from this broker and assigned again. A new log was then created in another directory,
and the metadata tells which of the two is right.
"""

from collections.abc import Callable
from typing import TypeAlias

from broker.storage.log_dir import LogDir, PartitionKey
from broker.storage.partition_directory import partition_directory_name

# (partition, topic id, directory id) -> whether the metadata assigns that replica to this broker and directory.
Belongs: TypeAlias = Callable[[PartitionKey, bytes | None, bytes | None], bool]


class DuplicateLogDir(Exception):
    """A partition's directory, or a log directory, exists twice, and it is unknown which one is right."""


def find_stray(key: PartitionKey, one: LogDir, other: LogDir, belongs: Belongs) -> LogDir:
    """Returns the log directory whose copy of the partition is stray. Raises DuplicateLogDir if neither is."""
    for directory in (one, other):
        assert directory.properties is not None, "it is formatted when it is claimed"
        if not belongs(key, directory.topic_ids[key], directory.properties.directory_id):
            return directory
    path = f"{one.path}/{partition_directory_name(*key)}"
    raise DuplicateLogDir(f"Duplicate log directories found: {path}, and in another log directory")
