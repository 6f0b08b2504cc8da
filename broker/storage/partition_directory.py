"""How a log directory names what is in it.

A partition's directory is `topic-partition`. One that is being removed is renamed to `topic-partition.<32 hex>-delete`
first, so that the partition may be made again at once; Kafka's `-future` (moving between directories) and `-stray`
(put aside, unknown to the metadata) look alike.
"""

import re

import attrs

METADATA_TOPIC = "__cluster_metadata"
PARTITION_MAX = 2**31 - 1
_PARTITION_DIGITS_MAX = 10
NAME_MAX = 255  # of a file, on every file system that matters

_PATTERN = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>[0-9]+)(\.[0-9a-zA-Z]+-(?P<suffix>delete|future|stray))?"
)


@attrs.frozen
class PartitionDirectory:
    """What a directory's name says. `suffix` is "", "delete", "future" or "stray"."""

    topic: str
    partition: int
    suffix: str


def partition_directory_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def deleted_directory_name(topic: str, partition: int, unique_id: bytes) -> str:
    """The name under which a partition's directory waits for its removal; a long topic is cut to make it fit."""
    return _unique_name(topic, partition, unique_id, "delete")


def stray_directory_name(topic: str, partition: int, unique_id: bytes) -> str:
    """The name under which a directory is kept that the metadata knows nothing of."""
    return _unique_name(topic, partition, unique_id, "stray")


def _unique_name(topic: str, partition: int, unique_id: bytes, kind: str) -> str:
    suffix = f"-{partition}.{unique_id.hex()}-{kind}"
    return topic[: NAME_MAX - len(suffix)] + suffix


def parse_partition_directory(name: str) -> PartitionDirectory | None:
    """None for a name that is no partition's."""
    match = _PATTERN.fullmatch(name)
    if match is None or len(match["partition"]) > _PARTITION_DIGITS_MAX:
        return None
    partition = int(match["partition"])
    if partition > PARTITION_MAX or str(partition) != match["partition"]:
        return None  # what this node writes it under is another name
    return PartitionDirectory(match["topic"], partition, match["suffix"] or "")
