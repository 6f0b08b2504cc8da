"""The names of directories in a log directory.

A partition's directory is `topic-partition`. Before a partition is deleted, its directory is renamed to
`topic-partition.<32 hex>-delete`, so that the partition can be created again at once. Kafka's suffixes `-future`
(moving between log directories) and `-stray` (unknown to the metadata) have the same form.
"""

import re

from kraft import lazy_attrs

METADATA_TOPIC = "__cluster_metadata"
PARTITION_MAX = 2**31 - 1
_PARTITION_DIGITS_MAX = 10
NAME_MAX = 255  # the longest name of a file on all common file systems

_PATTERN = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>[0-9]+)(\.[0-9a-zA-Z]+-(?P<suffix>delete|future|stray))?"
)


@lazy_attrs.frozen
class PartitionDirectory:
    """The parts of a directory's name. `suffix` is "", "delete", "future" or "stray"."""

    topic: str
    partition: int
    suffix: str


def partition_directory_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def deleted_directory_name(topic: str, partition: int, unique_id: bytes) -> str:
    """The name of a partition's directory that waits for its deletion; a long topic name is shortened."""
    return _unique_name(topic, partition, unique_id, "delete")


def future_directory_name(topic: str, partition: int, unique_id: bytes) -> str:
    """The name of the directory of a copy that is to replace the replica in another log directory (KIP-113).

    It may be longer than NAME_MAX: a shortened topic name would not tell whose copy it is.
    """
    return f"{topic}-{partition}.{unique_id.hex()}-future"


def stray_directory_name(topic: str, partition: int, unique_id: bytes) -> str:
    """The name of a directory that the metadata does not know and that is kept."""
    return _unique_name(topic, partition, unique_id, "stray")


def _unique_name(topic: str, partition: int, unique_id: bytes, kind: str) -> str:
    suffix = f"-{partition}.{unique_id.hex()}-{kind}"
    return topic[: NAME_MAX - len(suffix)] + suffix


def parse_partition_directory(name: str) -> PartitionDirectory | None:
    """The parts of a directory's name; None if it is not a partition's."""
    match = _PATTERN.fullmatch(name)
    if match is None or len(match["partition"]) > _PARTITION_DIGITS_MAX:
        return None
    partition = int(match["partition"])
    if partition > PARTITION_MAX or str(partition) != match["partition"]:
        return None  # this node would write another name for the partition
    return PartitionDirectory(match["topic"], partition, match["suffix"] or "")
